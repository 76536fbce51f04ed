//! What the watches have said so far, as far as decisions need it.

mod scheduler;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::runtime::watcher::Event;
use serde_json::Value;
use tensile_core::deschedule::bare::Journal;
use tensile_core::deschedule::{
    Buckets, Explanation, Fit, Guard, JobFacts, Permit, Places, Plan, Pod, Policy, VirtualNode, World, explain, plan,
};
use tensile_core::exclusion::{Exclusion, Record, Subject};
use tensile_runtime::watch::Listing;
use tokio::sync::Notify;

use crate::record;

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
    pods: Listed<Pod>,
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
    /// Jobs that were asked for, and when.
    jobs: BTreeMap<Box<str>, (JobFacts, Timestamp)>,
    /// Pods that are left alone until a time, by UID: an eviction was asked for and has not been seen, or was refused.
    asked: BTreeMap<Box<str>, Timestamp>,
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
    uid: Box<str>,
    /// `None`: it cannot be read.
    journal: Option<Journal>,
}

/// A ConfigMap with exclusions.
#[derive(Debug, Clone, Default)]
pub struct Map {
    /// Orders its versions.
    pub version: u64,
    /// The record of each key, as far as they can be read.
    pub records: BTreeMap<String, Record>,
}

/// Objects of one kind by UID or name, complete once a list was.
#[derive(Debug)]
struct Listed<T> {
    now: BTreeMap<Box<str>, T>,
    listing: Listing<Box<str>, T>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { now: BTreeMap::new(), listing: Listing::default() }
    }
}

impl<T> Listed<T> {
    fn apply(&mut self, event: Event<Value>, mut read: impl FnMut(&Value) -> Option<(Box<str>, T)>) {
        self.listing.note(&mut self.now, event, |object| read(&object).map(|(key, value)| (key, Some(value))));
    }
}

impl Seen {
    /// Nothing yet. `bare`: moves of bare pods are followed.
    pub fn new(guard: Guard, buckets: Buckets, bare: bool) -> Self {
        Self {
            pods: Listed::default(),
            nodes: Listed::default(),
            maps: Listed::default(),
            moves: bare.then(Listed::default),
            guard,
            permit: Permit::NotYet,
            buckets,
            scheduler: None,
            jobs: BTreeMap::new(),
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
        self.pods.apply(event, |object| {
            let pod = Pod::read(object);
            if pod.is_none() {
                let meta = &object["metadata"];
                tracing::error!(namespace = %meta["namespace"], name = %meta["name"], "a pod was passed over: malformed");
            }
            pod.map(|pod| (pod.uid.clone(), pod))
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
        self.jobs.retain(|_, (_, since)| now.duration_since(*since).as_secs() < JOB_LASTS);
        let asked: BTreeSet<Box<str>> = self.asked.keys().cloned().collect();
        let moves = self.moves.iter().flat_map(|moves| moves.now.values()).map(|one| one.uid.clone()).collect();
        let jobs = self.jobs.iter().map(|(uid, (facts, _))| (uid.clone(), facts.clone())).collect();
        let mut records: BTreeMap<String, Record> = BTreeMap::new();
        for (key, record) in self.maps.now.values().flat_map(|map| &map.records) {
            // Another ConfigMap may say more of the same subject: all of it counts.
            records.entry(key.clone()).or_default().nodes.extend(record.nodes.iter().cloned());
        }
        let (nodes, guard) = (&self.nodes.now, &self.guard);
        let scheduler = self.scheduler.as_mut().map(|scheduler| (scheduler.fits(now), &*scheduler));
        let places = scheduler.as_ref().map(|(fits, scheduler)| Places { fits, enforces: scheduler.enforces() });
        act(&World { pods, nodes, jobs: &jobs, records: &records, asked: &asked, moves: &moves, guard, places })
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
        moves.filter_map(|(name, one)| Some((&**name, one.journal.as_ref()?))).map(move |(name, journal)| {
            let of_name = |pod: &&Pod| pod.name == journal.name && pod.namespace == journal.namespace;
            (name, journal, self.pods.now.values().find(of_name))
        })
    }

    /// The nodes that a bare pod of this name is excluded from, and those that it was when it was made at `created`.
    pub fn kept_off(&self, namespace: &str, name: &str, created: Timestamp, now: Timestamp) -> [Vec<String>; 2] {
        let key = Subject::Bare { namespace, name }.key();
        let records = || self.maps.now.values().filter_map(|map| map.records.get(&key));
        [now, created].map(|time| records().flat_map(|record| record.nodes_at(time)).map(str::to_owned).collect())
    }

    /// The pod with this UID.
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.now.get(uid)
    }

    /// The pod of this name.
    pub fn pod_of(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pods.now.values().find(|pod| *pod.name == *name && *pod.namespace == *namespace)
    }

    /// The ConfigMap of this name.
    pub fn map(&self, name: &str) -> Option<&Map> {
        self.maps.now.get(name)
    }

    /// What a Job says now.
    pub fn job(&mut self, uid: &str, facts: JobFacts, now: Timestamp) {
        self.jobs.insert(uid.into(), (facts, now));
    }

    /// Leaves a pod, and the others of its owner, alone until `until` or until it is seen to end.
    pub fn leave(&mut self, uid: &str, until: Timestamp) {
        if let Some(owner) = self.pods.now.get(uid).and_then(|pod| pod.owner.as_ref()) {
            // The next pod of the Job is weighed against what it says then.
            self.jobs.remove(&owner.uid);
        }
        self.asked.insert(uid.into(), until);
    }
}

/// How long what a Job said is believed, in seconds.
const JOB_LASTS: i64 = 5;

impl Map {
    /// Reads a ConfigMap: what of it counts, and sentences about what does not.
    fn read(object: &Value) -> (Self, Vec<String>) {
        let (mut map, mut wrong) = (Self::default(), Vec::new());
        map.version = object["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok()).unwrap_or_default();
        for (key, value) in object["data"].as_object().into_iter().flatten() {
            match Record::decode(value.as_str().unwrap_or_default()) {
                Ok((record, damaged)) => {
                    wrong.extend(damaged.iter().map(|error| format!("entry {key} of the exclusions: {error}")));
                    map.records.insert(key.clone(), record);
                }
                Err(error) => wrong.push(format!("entry {key} of the exclusions: {error}")),
            }
        }
        (map, wrong)
    }
}

fn name_of(object: &Value) -> Option<Box<str>> {
    object["metadata"]["name"].as_str().map(Box::from)
}
