// SPDX-License-Identifier: Apache-2.0
//! What is to be done now: exclusions to write, pods to evict, pods to leave where they are and why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::back_off::later;
use super::planner::Planner;
use super::{Buckets, Fit, Guard, Held, JobFacts, Pod, Policy, Rollout, Strategy, Version, VirtualNode, Why};
use crate::exclusion::Record;

/// So long its controller may take to make a pod again; then it is not waited for any more.
const SUCCESSION: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

/// What was seen.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// The upper pods, by UID.
    pub pods: &'a BTreeMap<Arc<str>, Box<Pod>>,
    /// The virtual nodes, by name.
    pub nodes: &'a BTreeMap<Arc<str>, VirtualNode>,
    /// The Jobs that were asked for, by UID.
    pub jobs: &'a BTreeMap<Arc<str>, JobFacts>,
    /// The `ReplicaSet`s that were asked for, by UID.
    pub rollouts: &'a BTreeMap<Arc<str>, Rollout>,
    /// The exclusions that the cluster holds, by key.
    pub records: &'a BTreeMap<String, Record>,
    /// The keys of those that a later build wrote, and their version. They are left as they are.
    pub newer: &'a BTreeMap<String, u64>,
    /// Pods whose eviction was asked for, and which were not seen since, by UID.
    pub asked: &'a BTreeSet<Arc<str>>,
    /// Owners a pod of which was evicted a moment ago, by UID, and when.
    pub evicted: &'a BTreeMap<Arc<str>, Timestamp>,
    /// Bare pods whose move is written in a journal, by UID.
    pub moves: &'a BTreeSet<Arc<str>>,
    /// Whether exclusions are enforced.
    pub guard: &'a Guard,
    /// The multi-scheduler, if there is one.
    pub places: Option<Places<'a>>,
}

impl World<'_> {
    /// Whether the pod is on its way off its node.
    pub(super) fn is_leaving(&self, pod: &Pod) -> bool {
        pod.deleting || pod.kept || self.asked.contains(&pod.uid) || self.is_moving(pod)
    }

    /// Whether a journal is about the pod, old or new.
    fn is_moving(&self, pod: &Pod) -> bool {
        self.moves.contains(&pod.uid) || pod.origin.as_ref().is_some_and(|origin| self.moves.contains(origin))
    }
}

/// What the multi-scheduler said.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// Of pods that it was asked about, by UID; `None` where it gave no answer: then it is as without.
    pub fits: &'a BTreeMap<Arc<str>, Option<Fit>>,
    /// It answers, and keeps the pods of this scheduler off the nodes that they are excluded from.
    pub enforces: Option<&'a str>,
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Records to write.
    pub exclude: Vec<Exclude>,
    /// Pods to evict.
    pub evict: Vec<Eviction>,
    /// Pods without a controller to evict and make again.
    pub recreate: Vec<Eviction>,
    /// Pods that no move holds any more, by UID: the finalizer goes.
    pub release: Vec<Arc<str>>,
    /// Pods that are left where they are, though a strategy found them.
    pub held: Vec<Held>,
    /// Deployments to roll out anew.
    pub restart: Vec<Restart>,
    /// Pods whose Job, or `ReplicaSet` and Deployment, have to be looked at first, by UID.
    pub ask: Vec<Arc<str>>,
    /// Pods of which the multi-scheduler has to say first where they would fit.
    pub fit: Vec<Inquiry>,
    /// Pods on which the condition [`names::PLACEABLE`](crate::names::PLACEABLE) has to be set to `False`, or taken away
    /// (`true`), by UID.
    pub placeable: Vec<(Arc<str>, bool)>,
    /// A canary has to be sent ([`super::canary`]).
    pub canary: bool,
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
    /// UID of the pod that is the reason; empty for the canary.
    pub pod: Arc<str>,
}

/// A pod to evict.
#[derive(Debug, Clone, PartialEq)]
pub struct Eviction {
    /// Its UID.
    pub pod: Arc<str>,
    /// Why.
    pub cause: Cause,
}

/// A pod that the multi-scheduler is asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct Inquiry {
    /// Its UID.
    pub pod: Arc<str>,
    /// The nodes that it is kept off since it was made, by us and not by its author: it is asked about without that.
    pub borne: Vec<String>,
}

/// A Deployment to roll out anew.
#[derive(Debug, Clone, PartialEq)]
pub struct Restart {
    /// UID of the pod that is the reason.
    pub pod: Arc<str>,
    /// The Deployment, in its namespace.
    pub deployment: Version,
    /// In words.
    pub reason: String,
}

/// Why a pod is evicted.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// A strategy found it.
    Found {
        /// Off this node.
        node: Arc<str>,
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
pub(super) struct Found<'a> {
    pub(super) at: Timestamp,
    pub(super) pod: &'a Pod,
    pub(super) node: &'a str,
    pub(super) strategy: &'a Strategy,
    pub(super) reason: String,
}

/// The next steps. The same world gives the same plan, as far as `buckets` allow it.
pub fn plan(world: &World<'_>, policy: &Policy, buckets: &mut Buckets, now: Timestamp) -> Plan {
    let (mut plan, mut found, mut unbound) = (Plan::default(), Vec::new(), Vec::new());
    let held = world.pods.values().filter(|pod| pod.kept && !world.is_moving(pod));
    plan.release = held.map(|pod| pod.uid.clone()).collect();
    for pod in world.pods.values().filter(|pod| !world.is_leaving(pod)) {
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
    world.guard.plan(world.records, &mut plan, now);
    let (granted, unsettled) = (BTreeMap::new(), unsettled(world, policy, now, &mut plan));
    let ahead = buckets.clone();
    let mut planner = Planner { world, policy, buckets, ahead, now, outages, busy, unsettled, granted, plan };
    for found in found {
        planner.bound(&found);
    }
    for pod in unbound {
        planner.unbound(pod);
    }
    for strategy in policy.strategies.iter().filter(|strategy| strategy.plugin.balances()) {
        planner.balance(strategy);
    }
    let mut plan = planner.plan;
    plan.placeable = placeable(world, &plan);
    plan
}

/// The owners, by UID, whose pods do not all serve: of them, no pod that does is disturbed.
fn unsettled(world: &World<'_>, policy: &Policy, now: Timestamp, plan: &mut Plan) -> BTreeSet<Arc<str>> {
    if !policy.strategies.iter().any(|strategy| strategy.plugin.disturbs()) {
        return BTreeSet::new();
    }
    let mut unsettled = BTreeSet::new();
    let recent = world.evicted.iter().filter(|(_, at)| now < later(**at, SUCCESSION));
    let mut awaited: BTreeMap<&Arc<str>, Timestamp> = recent.map(|(owner, at)| (owner, *at)).collect();
    for pod in world.pods.values().filter(|pod| !pod.finished()) {
        let Some(owner) = &pod.owner else { continue };
        if pod.deleting || !pod.ready {
            unsettled.insert(owner.uid.clone());
        }
        // Creation times are whole seconds.
        if awaited.get(&owner.uid).is_some_and(|at| later(pod.created, SECOND) > *at) {
            awaited.remove(&owner.uid);
        }
    }
    for (owner, at) in awaited {
        look_again(plan, later(at, SUCCESSION));
        unsettled.insert(owner.clone());
    }
    unsettled
}

/// Where the condition that says that a pod fits nowhere does not say what is so.
fn placeable(world: &World<'_>, plan: &Plan) -> Vec<(Arc<str>, bool)> {
    let nowhere: BTreeSet<&str> =
        plan.held.iter().filter(|held| held.why == Why::NowhereFits).map(|held| &*held.pod).collect();
    let unknown: BTreeSet<&str> = plan.fit.iter().map(|inquiry| &*inquiry.pod).collect();
    let pods = world.pods.values().filter(|pod| !pod.deleting && !unknown.contains(&*pod.uid));
    let wrong = pods.filter(|pod| pod.unplaceable != nowhere.contains(&*pod.uid));
    wrong.map(|pod| (pod.uid.clone(), pod.unplaceable)).collect()
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
    if !policy.selects(virtual_node) {
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
    for found in found.iter().filter(|found| found.strategy.plugin.shows_failure()) {
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

pub(super) fn look_again(plan: &mut Plan, at: Timestamp) {
    plan.again = Some(plan.again.map_or(at, |again| again.min(at)));
}
