// SPDX-License-Identifier: Apache-2.0
//! What the watches have said so far, as far as decisions need it.

mod arrivals;
mod listed;
mod map;
mod owners;
mod scheduler;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::watcher::Event;
use serde_json::Value;
use tensile_core::deschedule::bare::Journal;
use tensile_core::deschedule::{
    Buckets, Explanation, Fit, Guard, Permit, Places, Plan, Pod, Policy, Pools, VirtualNode, World, explain, plan,
};
use tensile_core::exclusion::{Exclusion, Record, Subject};
use tokio::sync::Notify;

use crate::record;

use self::arrivals::Arrivals;
use self::listed::Listed;
pub use self::map::Map;
pub use self::owners::Owners;
use self::scheduler::Scheduler;

/// What was seen, shared between the watches and who acts on it.
#[derive(Debug, Clone)]
pub struct Shared(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    seen: Mutex<Seen>,
    changed: Notify,
}

impl Shared {
    /// Shares what was seen.
    pub fn new(seen: Seen) -> Self {
        Self(Arc::new(Inner { seen: Mutex::new(seen), changed: Notify::new() }))
    }

    /// Changes what was seen, and wakes who waits for that.
    pub fn change(&self, change: impl FnOnce(&mut Seen)) {
        let mut seen = self.look();
        let listed = seen.is_complete();
        change(&mut seen);
        if !listed && seen.is_complete() {
            tracing::info!("everything is listed");
        }
        self.0.changed.notify_one();
    }

    /// What was seen.
    pub fn look(&self) -> MutexGuard<'_, Seen> {
        // Every change is whole, so a panic elsewhere does not spoil it.
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change. Only one may wait.
    pub async fn changed(&self) {
        self.0.changed.notified().await;
    }
}

/// What was seen.
#[derive(Debug)]
pub struct Seen {
    /// Each by itself: a map leaves a third of its places empty.
    pods: Listed<Box<Pod>>,
    /// What they have in common.
    pools: Pools,
    nodes: Listed<VirtualNode>,
    maps: Listed<Map>,
    /// Moves of bare pods by the name of their ConfigMap; `None`: they are not followed.
    moves: Option<Listed<Move>>,
    /// Whether exclusions are enforced.
    guard: Guard,
    /// What was told of that last.
    permit: Permit,
    /// What is left of the limits.
    buckets: Buckets,
    /// What the multi-scheduler said, if there is one.
    scheduler: Option<Scheduler>,
    /// What owners said.
    pub owners: Owners,
    /// Moves that have not come to an end.
    arrivals: Arrivals,
    /// Pods that are left alone until a time, by UID: an eviction was asked for and has not been seen, or was refused.
    asked: BTreeMap<Arc<str>, Timestamp>,
    /// What of the exclusions was found damaged, so that it is told once.
    told: BTreeSet<String>,
}

/// What would be done about a pod.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The pod as it was seen.
    pub pod: Pod,
    /// What would be done.
    pub explanation: Explanation,
    /// The nodes that its successor is kept off, or was.
    pub exclusions: Vec<Exclusion>,
    /// Whether exclusions are enforced.
    pub permit: Permit,
}

/// The move of a bare pod.
#[derive(Debug, Clone, PartialEq)]
struct Move {
    /// UID of the old pod.
    uid: Arc<str>,
    /// `None`: it cannot be read.
    journal: Option<Journal>,
}

impl Seen {
    /// Nothing yet. `bare`: moves of bare pods are followed.
    pub fn new(guard: Guard, buckets: Buckets, bare: bool) -> Self {
        Self {
            pods: Listed::default(),
            pools: Pools::default(),
            nodes: Listed::default(),
            maps: Listed::default(),
            moves: bare.then(Listed::default),
            guard,
            permit: Permit::NotYet,
            buckets,
            scheduler: None,
            owners: Owners::default(),
            arrivals: Arrivals::default(),
            asked: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// There is a multi-scheduler, which enforces exclusions of the pods of this scheduler.
    #[must_use]
    pub fn with_scheduler(mut self, name: &str) -> Self {
        self.scheduler = Some(Scheduler::new(name));
        self
    }

    /// Takes in an event about a pod.
    pub fn pods(&mut self, event: Event<Value>) {
        let Self { pods, pools, .. } = self;
        pods.apply(event, |object| {
            let pod = Pod::read(object);
            if pod.is_none() {
                let meta = &object["metadata"];
                tracing::error!(namespace = %meta["namespace"], name = %meta["name"], "a pod was passed over: malformed");
            }
            pod.map(|pod| (pod.uid.clone(), Box::new(pools.share(pod))))
        });
    }

    /// Takes in an event about a virtual node.
    pub fn nodes(&mut self, event: Event<Value>) {
        self.nodes.apply(event, |object| Some((name_of(object)?, VirtualNode::read(object))));
    }

    /// Takes in an event about a ConfigMap with exclusions.
    pub fn maps(&mut self, event: Event<Value>) {
        let mut damaged = BTreeSet::new();
        self.maps.apply(event, |object| {
            let (map, wrong) = Map::read(object);
            damaged.extend(wrong);
            Some((name_of(object)?, map))
        });
        for reason in damaged {
            if self.told.insert(reason.clone()) {
                tracing::error!(reason, "an exclusion does not count");
            }
        }
    }

    /// Takes in an event about a ConfigMap with the journal of a move.
    pub fn moves(&mut self, event: Event<Value>) {
        let Some(moves) = &mut self.moves else { return };
        let mut damaged = BTreeSet::new();
        moves.apply(event, |object| {
            let name = name_of(object)?;
            let journal = Journal::decode(object["data"][record::JOURNAL].as_str().unwrap_or_default());
            if let Err(error) = &journal {
                damaged.insert(format!("ConfigMap {name}: {error}"));
            }
            Some((name.clone(), Move { uid: record::uid_of(&name).into(), journal: journal.ok() }))
        });
        for reason in damaged {
            if self.told.insert(reason.clone()) {
                tracing::error!(
                    reason,
                    "the move of a pod without a controller stands still: its journal cannot be read"
                );
            }
        }
    }

    /// Whether everything has been listed.
    pub fn is_complete(&self) -> bool {
        let moves = self.moves.as_ref().is_none_or(|moves| moves.listing.is_complete());
        let watched = self.pods.listing.is_complete() && self.nodes.listing.is_complete();
        watched && self.maps.listing.is_complete() && moves
    }

    /// What is to be done now.
    pub fn plan(&mut self, policy: &Policy, now: Timestamp) -> Plan {
        let mut buckets = self.buckets.clone();
        buckets.prune(now);
        let mut plan = self.with_world(now, |world| plan(world, policy, &mut buckets, now));
        self.buckets = buckets;
        let look_again = self.scheduler.as_ref().and_then(Scheduler::look_again);
        for until in self.asked.values().min().copied().into_iter().chain(look_again) {
            plan.again = Some(plan.again.map_or(until, |again| again.min(until)));
        }
        plan
    }

    /// What would be done now about the pod of this name, and why; nothing comes of it.
    pub fn explain(&mut self, policy: &Policy, namespace: &str, name: &str, now: Timestamp) -> Option<Explained> {
        let pod = self.pod_of(namespace, name)?.clone();
        let mut buckets = self.buckets.clone();
        let key = pod.subject().key();
        let (explanation, exclusions) = self.with_world(now, |world| {
            let plan = plan(world, policy, &mut buckets, now);
            let exclusions = world.records.get(&key).map(|record| record.nodes.clone());
            (explain(world, policy, &plan, &pod, now), exclusions.unwrap_or_default())
        });
        Some(Explained { pod, explanation, exclusions, permit: self.guard.permit(now) })
    }

    fn with_world<T>(&mut self, now: Timestamp, act: impl FnOnce(&World<'_>) -> T) -> T {
        let pods = &self.pods.now;
        self.asked.retain(|uid, until| *until > now && pods.get(uid).is_some_and(|pod| !pod.deleting));
        let asked: BTreeSet<Arc<str>> = self.asked.keys().cloned().collect();
        let moves = self.moves.iter().flat_map(|moves| moves.now.values()).map(|one| one.uid.clone()).collect();
        let mut records: BTreeMap<String, Record> = BTreeMap::new();
        for (key, record) in self.maps.now.values().flat_map(|map| &map.records) {
            // Another ConfigMap may say more of the same subject: all of it counts.
            records.entry(key.clone()).or_default().nodes.extend(record.nodes.iter().cloned());
        }
        let newer = self.maps.now.values().flat_map(|map| &map.newer).map(|(key, version)| (key.clone(), *version));
        let newer: BTreeMap<String, u64> = newer.collect();
        let owners::Recent { jobs, rollouts, evicted } = self.owners.recent(now);
        let (nodes, guard) = (&self.nodes.now, &self.guard);
        let scheduler = self.scheduler.as_mut().map(|scheduler| (scheduler.fits(now), &*scheduler));
        let places = scheduler.as_ref().map(|(fits, scheduler)| Places { fits, enforces: scheduler.enforces() });
        act(&World {
            pods,
            nodes,
            jobs: &jobs,
            rollouts: &rollouts,
            records: &records,
            newer: &newer,
            asked: &asked,
            evicted,
            moves: &moves,
            guard,
            places,
        })
    }

    /// The pod was evicted, or will be and is made again.
    pub fn left(&mut self, pod: &Pod, now: Timestamp) {
        self.arrivals.left(pod, now);
        if let Some(owner) = &pod.owner {
            self.owners.evicted(&owner.uid, now);
        }
    }

    /// How long the moves took that have come to an end.
    pub fn arrived(&mut self, now: Timestamp) -> Vec<Duration> {
        self.arrivals.arrived(self.pods.now.values().map(AsRef::as_ref), now)
    }

    /// The limits were not used after all.
    pub fn give_back(&mut self, node: &str, namespace: &str) {
        self.buckets.give_back(node, namespace);
    }

    /// A canary is on its way.
    pub fn canary_sent(&mut self, until: Timestamp) {
        self.guard.asked(until);
    }

    /// How a canary fared.
    pub fn canary_back(&mut self, answer: Result<(), String>, now: Timestamp) {
        self.guard.answered(answer, now);
        let permit = self.guard.permit(now);
        if permit == self.permit {
            return;
        }
        match &permit {
            Permit::Yes => tracing::info!("exclusions are enforced"),
            Permit::NotYet => {}
            Permit::No(missing) => {
                tracing::error!(missing = &**missing, "exclusions are not enforced, nothing is moved");
            }
        }
        self.permit = permit;
    }

    /// Whether the multi-scheduler has not been heard of for so long that it is asked whether it is there.
    pub fn is_probe_due(&self, now: Timestamp) -> bool {
        self.scheduler.as_ref().is_some_and(|scheduler| scheduler.is_probe_due(now))
    }

    /// It is asked.
    pub fn probed(&mut self, now: Timestamp) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.probed(now);
        }
    }

    /// It answered, or why not.
    pub fn scheduler_answered(&mut self, answer: Result<(), String>, now: Timestamp) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.answered(answer, now);
        }
    }

    /// Where it says that a pod fits.
    pub fn fits(&mut self, uid: &str, fit: Option<Fit>, now: Timestamp) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.note(uid, fit, now);
        }
    }

    /// Whether pods of the multi-scheduler's own scheduler may be moved, whatever the webhook does.
    pub fn scheduler_enforces(&self) -> bool {
        self.scheduler.as_ref().is_some_and(|scheduler| scheduler.enforces().is_some())
    }

    /// Whether pods may be moved.
    pub fn permit(&self, now: Timestamp) -> Permit {
        self.guard.permit(now)
    }

    /// The journals that can be read, by the name of their ConfigMap, each with its pod if it is known.
    pub fn journals(&self) -> impl Iterator<Item = (&str, &Journal, Option<&Pod>)> {
        let moves = self.moves.iter().flat_map(|moves| &moves.now);
        moves
            .filter_map(|(name, one)| Some((&**name, one.journal.as_ref()?)))
            .map(move |(name, journal)| (name, journal, self.pod_of(&journal.namespace, &journal.name)))
    }

    /// The nodes that a bare pod of this name is excluded from, and those that it was when it was made at `created`.
    pub fn kept_off(&self, namespace: &str, name: &str, created: Timestamp, now: Timestamp) -> [Vec<String>; 2] {
        let key = Subject::Bare { namespace, name }.key();
        let records = || self.maps.now.values().filter_map(|map| map.records.get(&key));
        [now, created].map(|time| records().flat_map(|record| record.nodes_at(time)).map(str::to_owned).collect())
    }

    /// The pod with this UID.
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.now.get(uid).map(AsRef::as_ref)
    }

    /// The pod of this name.
    pub fn pod_of(&self, namespace: &str, name: &str) -> Option<&Pod> {
        let mut all = self.pods.now.values().map(AsRef::as_ref);
        all.find(|pod: &&Pod| *pod.name == *name && *pod.namespace == *namespace)
    }

    /// The ConfigMap of this name.
    pub fn map(&self, name: &str) -> Option<&Map> {
        self.maps.now.get(name)
    }

    /// Leaves a pod, and the others of its owner, alone until `until` or until it is seen to end.
    pub fn leave(&mut self, uid: &str, until: Timestamp) {
        if let Some(owner) = self.pods.now.get(uid).and_then(|pod| pod.owner.as_ref()) {
            self.owners.forget(&owner.uid);
        }
        self.asked.insert(uid.into(), until);
    }
}

fn name_of(object: &Value) -> Option<Arc<str>> {
    object["metadata"]["name"].as_str().map(Arc::from)
}
