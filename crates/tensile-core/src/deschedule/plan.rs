//! What is to be done now: exclusions to write, pods to evict, pods to leave where they are and why.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::planner::Planner;
use super::{Buckets, Fit, Guard, Held, JobFacts, Pod, Policy, Strategy, VirtualNode, Why};
use crate::exclusion::Record;

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
    /// Bare pods whose move is written in a journal, by UID.
    pub moves: &'a BTreeSet<Box<str>>,
    /// Whether exclusions are enforced.
    pub guard: &'a Guard,
    /// The multi-scheduler, if there is one.
    pub places: Option<Places<'a>>,
}

/// What the multi-scheduler said.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// Of pods that it was asked about, by UID; `None` where it gave no answer: then it is as without.
    pub fits: &'a BTreeMap<Box<str>, Option<Fit>>,
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
    pub release: Vec<Box<str>>,
    /// Pods that are left where they are, though a strategy found them.
    pub held: Vec<Held>,
    /// Pods whose Job has to be looked at first, by UID.
    pub ask: Vec<Box<str>>,
    /// Pods of which the multi-scheduler has to say first where they would fit, by UID.
    pub fit: Vec<Box<str>>,
    /// Pods on which the condition [`names::PLACEABLE`](crate::names::PLACEABLE) has to be set to `False`, or taken away
    /// (`true`), by UID.
    pub placeable: Vec<(Box<str>, bool)>,
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
    let in_journal = |pod: &Pod| {
        world.moves.contains(&pod.uid) || pod.origin.as_ref().is_some_and(|origin| world.moves.contains(origin))
    };
    let held = world.pods.values().filter(|pod| pod.kept && !in_journal(pod));
    plan.release = held.map(|pod| pod.uid.clone()).collect();
    for pod in world.pods.values().filter(|pod| !pod.deleting && !pod.kept && !world.asked.contains(&pod.uid)) {
        if in_journal(pod) {
            continue;
        }
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
    let granted = BTreeMap::new();
    let mut planner = Planner { world, policy, buckets, now, outages, busy, granted, plan };
    for found in found {
        planner.bound(&found);
    }
    for pod in unbound {
        planner.unbound(pod);
    }
    let mut plan = planner.plan;
    plan.placeable = placeable(world, &plan);
    plan
}

/// Where the condition that says that a pod fits nowhere does not say what is so.
fn placeable(world: &World<'_>, plan: &Plan) -> Vec<(Box<str>, bool)> {
    let nowhere: BTreeSet<&str> =
        plan.held.iter().filter(|held| held.why == Why::NowhereFits).map(|held| &*held.pod).collect();
    let unknown: BTreeSet<&str> = plan.fit.iter().map(AsRef::as_ref).collect();
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

pub(super) fn look_again(plan: &mut Plan, at: Timestamp) {
    plan.again = Some(plan.again.map_or(at, |again| again.min(at)));
}
