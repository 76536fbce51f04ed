//! What is to be done now: exclusions to write, pods to evict, pods to leave where they are and why.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::back_off::{earlier, later};
use super::{Buckets, Held, JobFacts, Plugin, Pod, Policy, Strategy, VirtualNode, Why};
use crate::exclusion::{Exclusion, Record, Subject};

/// An exclusion that ends sooner does not count: the pod's successor could be made after it.
const MARGIN: Duration = Duration::from_secs(5);
/// A pod that is on a node so long after its owner was excluded from it shows that nobody enforces exclusions. Before,
/// the webhook may not have heard of it; creation times are whole seconds of another clock.
const SLACK: Duration = Duration::from_secs(5);

/// What was seen.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// The upper pods, by UID.
    pub pods: &'a BTreeMap<Box<str>, Pod>,
    /// The virtual nodes, by name.
    pub nodes: &'a BTreeMap<Box<str>, VirtualNode>,
    /// The Jobs that were asked for, by UID.
    pub jobs: &'a BTreeMap<Box<str>, JobFacts>,
    /// The exclusions that the cluster holds, by key.
    pub records: &'a BTreeMap<String, Record>,
    /// Pods whose eviction was asked for, and which were not seen since, by UID.
    pub asked: &'a BTreeSet<Box<str>>,
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Records to write.
    pub exclude: Vec<Exclude>,
    /// Pods to evict.
    pub evict: Vec<Eviction>,
    /// Pods that are left where they are, though a strategy found them.
    pub held: Vec<Held>,
    /// Pods whose Job has to be looked at first, by UID.
    pub ask: Vec<Box<str>>,
    /// When to look again, if nothing changes before.
    pub again: Option<Timestamp>,
}

/// A record to write.
#[derive(Debug, Clone, PartialEq)]
pub struct Exclude {
    /// The key of its entry.
    pub key: String,
    /// What it shall be.
    pub record: Record,
    /// UID of the pod that is the reason.
    pub pod: Box<str>,
}

/// A pod to evict.
#[derive(Debug, Clone, PartialEq)]
pub struct Eviction {
    /// Its UID.
    pub pod: Box<str>,
    /// Why.
    pub cause: Cause,
}

/// Why a pod is evicted.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// A strategy found it.
    Found {
        /// Off this node.
        node: Box<str>,
        /// The profile.
        profile: String,
        /// The plugin.
        plugin: &'static str,
        /// In words.
        reason: String,
    },
    /// It is bound nowhere and bears an exclusion that has run out; its successor will not.
    Outlived,
}

/// A pod that a strategy found.
struct Found<'a> {
    at: Timestamp,
    pod: &'a Pod,
    node: &'a str,
    strategy: &'a Strategy,
    reason: String,
}

/// The next steps. The same world gives the same plan, as far as `buckets` allow it.
pub fn plan(world: &World<'_>, policy: &Policy, buckets: &mut Buckets, now: Timestamp) -> Plan {
    let (mut plan, mut found, mut unbound) = (Plan::default(), Vec::new(), Vec::new());
    for pod in world.pods.values().filter(|pod| !pod.deleting && !world.asked.contains(&pod.uid)) {
        match &pod.node {
            Some(node) => found.extend(find(world, policy, pod, node, now, &mut plan)),
            None if pod.unbound.is_some() => unbound.push(pod),
            None => {}
        }
    }
    found.sort_by(|a, b| (a.at, &a.pod.uid).cmp(&(b.at, &b.pod.uid)));
    let outages = outages(world, policy, &found);
    let in_flight = world.pods.values().filter(|pod| pod.deleting && pod.evicted || world.asked.contains(&pod.uid));
    let busy = in_flight.filter_map(|pod| Some(pod.owner.as_ref()?.uid.clone())).collect();
    let mut planner = Planner { world, policy, buckets, now, outages, busy, plan };
    for found in found {
        planner.bound(&found);
    }
    for pod in unbound {
        planner.unbound(pod);
    }
    planner.plan
}

/// Whether a strategy finds the pod now; if one will later, when to look again.
fn find<'a>(
    world: &World<'a>,
    policy: &'a Policy,
    pod: &'a Pod,
    node: &'a str,
    now: Timestamp,
    plan: &mut Plan,
) -> Option<Found<'a>> {
    let virtual_node = world.nodes.get(node)?;
    if !policy.nodes.iter().all(|(key, value)| virtual_node.labels.get(key) == Some(value)) {
        return None;
    }
    for strategy in policy.strategies.iter().filter(|strategy| strategy.namespaces.has(&pod.namespace)) {
        let Some((at, reason)) = strategy.plugin.due(pod, Some(virtual_node)) else { continue };
        if at <= now {
            return Some(Found { at, pod, node, strategy, reason });
        }
        look_again(plan, at);
    }
    None
}

/// The nodes whose pods fail in such number that moving them is no help.
fn outages<'a>(world: &World<'_>, policy: &Policy, found: &[Found<'a>]) -> BTreeSet<&'a str> {
    let mut failing: BTreeMap<&str, usize> = BTreeMap::new();
    for found in found.iter().filter(|found| !found.strategy.plugin.is_about_room()) {
        *failing.entry(found.node).or_default() += 1;
    }
    failing.retain(|_, count| *count >= policy.breaker.at_least);
    if failing.is_empty() {
        return BTreeSet::new();
    }
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for node in world.pods.values().filter_map(|pod| pod.node.as_deref()) {
        *all.entry(node).or_default() += 1;
    }
    failing.retain(|node, count| *count * 100 > policy.breaker.percent * all.get(node).copied().unwrap_or_default());
    failing.into_keys().collect()
}

fn look_again(plan: &mut Plan, at: Timestamp) {
    plan.again = Some(plan.again.map_or(at, |again| again.min(at)));
}

struct Planner<'a, 'w> {
    world: &'a World<'w>,
    policy: &'a Policy,
    buckets: &'a mut Buckets,
    now: Timestamp,
    outages: BTreeSet<&'a str>,
    /// Owners with a move in flight, by UID.
    busy: BTreeSet<Box<str>>,
    plan: Plan,
}

impl Planner<'_, '_> {
    fn bound(&mut self, found: &Found<'_>) {
        let pod = found.pod;
        match self.judge(found) {
            Ok(()) => {}
            Err(why) => {
                if let Why::Parked(until) = &why {
                    look_again(&mut self.plan, *until);
                }
                self.plan.held.push(Held { pod: pod.uid.clone(), why });
            }
        }
    }

    fn judge(&mut self, found: &Found<'_>) -> Result<(), Why> {
        let (pod, node) = (found.pod, found.node);
        let owner: Box<str> = self.may_move(pod)?.into();
        if self.outages.contains(node) && !found.strategy.plugin.is_about_room() {
            return Err(Why::Outage(node.into()));
        }
        if self.busy.contains(&*owner) || !self.job_allows(pod)? {
            return Ok(());
        }
        let cause = || Cause::Found {
            node: node.into(),
            profile: found.strategy.profile.clone(),
            plugin: found.strategy.plugin.name(),
            reason: found.reason.clone(),
        };
        let live = self.exclusions(pod).find(|exclusion| exclusion.node == node && self.is_live(exclusion));
        if let Some(live) = live {
            if pod.created > later(self.policy.back_off.since(live), SLACK) {
                let until = live.until;
                look_again(&mut self.plan, until);
                return Err(Why::NotEnforced(node.into()));
            }
            self.evict(pod, &owner, node, cause());
            return Ok(());
        }
        let exclude = self.exclude(pod, node)?;
        self.plan.exclude.push(exclude);
        self.busy.insert(owner);
        Ok(())
    }

    /// The owner that makes the pod again.
    fn may_move<'p>(&self, pod: &'p Pod) -> Result<&'p str, Why> {
        let protections = &self.policy.protections;
        let owner = pod.owner.as_ref().ok_or(Why::NoController)?;
        let protected = [
            (&*owner.kind == "DaemonSet", "pods of a DaemonSet"),
            (pod.mirror || &*owner.kind == "Node", "mirror pods"),
            (pod.priority >= protections.priority, "pods of its priority"),
            (pod.claims && protections.claims, "pods with a persistent volume claim"),
            (pod.local_storage && pod.started && protections.local_storage, "pods with local data"),
            (later(pod.created, protections.min_age) > self.now, "young pods"),
        ];
        match protected.iter().find(|(protected, _)| *protected) {
            Some((_, what)) => Err(Why::Protected(what)),
            None => Ok(&owner.uid),
        }
    }

    /// Whether the Job, if it is one's, bears the loss; `false` until that is known.
    fn job_allows(&mut self, pod: &Pod) -> Result<bool, Why> {
        let Some(owner) = pod.owner.as_ref().filter(|owner| &*owner.kind == "Job") else { return Ok(true) };
        match self.world.jobs.get(&owner.uid) {
            None => {
                self.plan.ask.push(pod.uid.clone());
                Ok(false)
            }
            Some(job) if job.may_lose_a_pod(pod.index_failures) => Ok(true),
            Some(_) => Err(Why::JobWouldFail),
        }
    }

    fn evict(&mut self, pod: &Pod, owner: &str, node: &str, cause: Cause) {
        match self.buckets.take(node, &pod.namespace, self.now) {
            Ok(()) => {
                self.busy.insert(owner.into());
                self.plan.evict.push(Eviction { pod: pod.uid.clone(), cause });
            }
            Err(when) => look_again(&mut self.plan, when),
        }
    }

    /// The record that excludes the pod's next incarnation from `node`, and leaves it somewhere to go: if it is excluded
    /// from all other nodes, the oldest exclusion ends.
    fn exclude(&self, pod: &Pod, node: &str) -> Result<Exclude, Why> {
        let (back_off, key) = (&self.policy.back_off, key(pod));
        let candidates: Vec<&str> = self.ready_nodes(pod).filter(|name| *name != node).collect();
        if candidates.is_empty() {
            return Err(Why::NowhereElse);
        }
        let empty = Record::default();
        let record = self.world.records.get(&key).unwrap_or(&empty);
        if back_off.attempts(record, self.now) >= self.policy.moves {
            let ends = record.nodes.iter().filter(|exclusion| !back_off.forgotten(exclusion, self.now));
            let ends = ends.map(|exclusion| later(exclusion.until, back_off.most)).min();
            return Err(Why::Parked(ends.unwrap_or(self.now)));
        }
        let mut next = back_off.excluded(record, node, self.now);
        let excluded: BTreeSet<&str> =
            self.exclusions(pod).filter(|exclusion| exclusion.until > self.now).map(|e| e.node.as_str()).collect();
        if candidates.iter().all(|candidate| excluded.contains(candidate)) {
            let among = |exclusion: &&mut Exclusion| candidates.contains(&exclusion.node.as_str());
            let live = next.nodes.iter_mut().filter(|exclusion| exclusion.until > self.now).filter(among);
            let oldest = live.min_by_key(|exclusion| back_off.since(exclusion)).ok_or(Why::NowhereElse)?;
            oldest.until = self.now;
        }
        Ok(Exclude { key, record: next, pod: pod.uid.clone() })
    }

    /// A pod that the upper scheduler finds no node for, if it is our doing.
    fn unbound(&mut self, pod: &Pod) {
        let (Some(trouble), Some(owner)) = (&pod.unbound, &pod.owner) else { return };
        let patience = self.policy.strategies.iter().find_map(|strategy| match &strategy.plugin {
            Plugin::UnschedulableBelow { after } if strategy.namespaces.has(&pod.namespace) => Some(*after),
            _ => None,
        });
        let (Some(patience), false) = (patience, self.busy.contains(&owner.uid)) else { return };
        let is_ready = |name: &str| self.world.nodes.get(name).is_some_and(|node| node.not_ready_since.is_none());
        let borne: Vec<&Exclusion> = self.borne(pod).filter(|exclusion| is_ready(&exclusion.node)).collect();
        let (Some(oldest), due) =
            (borne.iter().min_by_key(|exclusion| exclusion.until).copied(), later(trouble.since, patience))
        else {
            return;
        };
        if due > self.now {
            look_again(&mut self.plan, due);
        } else if oldest.until <= self.now {
            if self.may_move(pod).is_ok() && self.job_allows(pod) == Ok(true) {
                self.evict(pod, &owner.uid, "", Cause::Outlived);
            }
        } else if !self.ready_nodes(pod).any(|name| borne.iter().all(|exclusion| exclusion.node != name)) {
            let key = key(pod);
            if let Some(record) = self.world.records.get(&key) {
                let mut record = record.clone();
                let now = self.now;
                record.nodes.iter_mut().filter(|exclusion| exclusion.node == oldest.node).for_each(|e| e.until = now);
                self.busy.insert(owner.uid.clone());
                self.plan.exclude.push(Exclude { key, record, pod: pod.uid.clone() });
            }
        } else {
            let until = oldest.until;
            look_again(&mut self.plan, until);
        }
    }

    /// The exclusions that concern the pod, also those that have run out.
    fn exclusions<'p>(&'p self, pod: &Pod) -> impl Iterator<Item = &'p Exclusion> + use<'p> {
        let records: Vec<&Record> =
            subjects(pod).iter().filter_map(|subject| self.world.records.get(&subject.key())).collect();
        records.into_iter().flat_map(|record| &record.nodes)
    }

    fn is_live(&self, exclusion: &Exclusion) -> bool {
        exclusion.until > later(self.now, MARGIN)
    }

    /// The virtual nodes that are ready and meet the constraints of the pod's author.
    fn ready_nodes<'p>(&'p self, pod: &'p Pod) -> impl Iterator<Item = &'p str> {
        let borne: BTreeSet<&str> = self.borne(pod).map(|exclusion| exclusion.node.as_str()).collect();
        let ready = self.world.nodes.iter().filter(|(_, node)| node.not_ready_since.is_none());
        let allowed = ready.filter(move |(name, node)| pod.may_go_to(name, node, borne.contains(&***name)));
        allowed.map(|(name, _)| &**name)
    }

    /// The exclusions that held when the pod was made: it bears them.
    fn borne<'p>(&'p self, pod: &Pod) -> impl Iterator<Item = &'p Exclusion> + use<'p> {
        let (back_off, created) = (self.policy.back_off, pod.created);
        self.exclusions(pod)
            .filter(move |exclusion| (earlier(back_off.since(exclusion), MARGIN)..exclusion.until).contains(&created))
    }
}

fn subjects(pod: &Pod) -> Vec<Subject<'_>> {
    let owner = pod.owner.as_ref().map(|owner| &*owner.uid);
    Subject::of_pod(owner, pod.index.as_deref(), &pod.namespace, &pod.name)
}

/// The key under which the pod is excluded: its own, where it keeps its index.
fn key(pod: &Pod) -> String {
    subjects(pod).last().map(Subject::key).unwrap_or_default()
}
