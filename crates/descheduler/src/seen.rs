//! What the watches have said so far, as far as decisions need it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::runtime::watcher::Event;
use serde_json::Value;
use tensile_core::deschedule::{Buckets, JobFacts, Plan, Pod, Policy, VirtualNode, World, plan};
use tensile_core::exclusion::Record;
use tokio::sync::Notify;

/// What was seen, shared between the watches and who acts on it.
#[derive(Debug, Clone, Default)]
pub struct Shared(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    seen: Mutex<Seen>,
    changed: Notify,
}

impl Shared {
    /// Changes what was seen, and wakes who waits for that.
    pub fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.look());
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
#[derive(Debug, Default)]
pub struct Seen {
    pods: Listed<Pod>,
    nodes: Listed<VirtualNode>,
    maps: Listed<Map>,
    /// Jobs that were asked for, and when.
    jobs: BTreeMap<Box<str>, (JobFacts, Timestamp)>,
    /// Pods that are left alone until a time, by UID: an eviction was asked for and has not been seen, or was refused.
    asked: BTreeMap<Box<str>, Timestamp>,
    /// What of the exclusions was found damaged, so that it is told once.
    told: BTreeSet<String>,
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
    next: BTreeMap<Box<str>, T>,
    complete: bool,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { now: BTreeMap::new(), next: BTreeMap::new(), complete: false }
    }
}

impl<T> Listed<T> {
    fn apply(&mut self, event: Event<Value>, read: impl Fn(&Value) -> Option<(Box<str>, T)>) {
        match event {
            Event::Init => self.next.clear(),
            Event::InitApply(object) => self.next.extend(read(&object)),
            Event::InitDone => {
                self.now = std::mem::take(&mut self.next);
                self.complete = true;
            }
            Event::Apply(object) => self.now.extend(read(&object)),
            Event::Delete(object) => {
                if let Some((key, _)) = read(&object) {
                    self.now.remove(&key);
                }
            }
        }
    }
}

impl Seen {
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
        let damaged = std::cell::RefCell::new(BTreeSet::new());
        self.maps.apply(event, |object| {
            let (map, wrong) = Map::read(object);
            damaged.borrow_mut().extend(wrong);
            Some((name_of(object)?, map))
        });
        for reason in damaged.into_inner() {
            if self.told.insert(reason.clone()) {
                tracing::error!(reason, "an exclusion does not count");
            }
        }
    }

    /// Whether everything has been listed.
    pub fn is_complete(&self) -> bool {
        self.pods.complete && self.nodes.complete && self.maps.complete
    }

    /// What is to be done now.
    pub fn plan(&mut self, policy: &Policy, buckets: &mut Buckets, now: Timestamp) -> Plan {
        let pods = &self.pods.now;
        self.asked.retain(|uid, until| *until > now && pods.get(uid).is_some_and(|pod| !pod.deleting));
        self.jobs.retain(|_, (_, since)| now.duration_since(*since).as_secs() < JOB_LASTS);
        let asked: BTreeSet<Box<str>> = self.asked.keys().cloned().collect();
        let jobs = self.jobs.iter().map(|(uid, (facts, _))| (uid.clone(), facts.clone())).collect();
        let mut records: BTreeMap<String, Record> = BTreeMap::new();
        for (key, record) in self.maps.now.values().flat_map(|map| &map.records) {
            // Another ConfigMap may say more of the same subject: all of it counts.
            records.entry(key.clone()).or_default().nodes.extend(record.nodes.iter().cloned());
        }
        let world = World { pods, nodes: &self.nodes.now, jobs: &jobs, records: &records, asked: &asked };
        let mut plan = plan(&world, policy, buckets, now);
        if let Some(until) = self.asked.values().min() {
            plan.again = Some(plan.again.map_or(*until, |again| again.min(*until)));
        }
        plan
    }

    /// The pod with this UID.
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.now.get(uid)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(name: &str, version: &str, data: &Value) -> Value {
        json!({"metadata": {"name": name, "resourceVersion": version}, "data": data})
    }

    const EAST: &str = r#"{"nodes":[{"node":"east","until":"2026-01-02T15:04:05Z","attempts":1}]}"#;

    #[test]
    fn a_list_counts_when_it_is_complete() {
        let mut seen = Seen::default();
        seen.maps(Event::Init);
        seen.maps(Event::InitApply(map("m", "7", &json!({"owner.u": EAST}))));
        assert!(!seen.maps.complete && seen.map("m").is_none());
        seen.maps(Event::InitDone);
        assert_eq!(seen.map("m").unwrap().version, 7);
        seen.maps(Event::Delete(map("m", "8", &json!({}))));
        assert!(seen.map("m").is_none());
    }

    #[test]
    fn what_is_damaged_or_newer_is_passed_over_and_the_rest_counts() {
        let data = json!({"owner.u": EAST, "owner.v": "{", "owner.w": r#"{"version":9}"#, "owner.x": 3});
        let (map, wrong) = Map::read(&map("m", "x", &data));
        assert_eq!(map.records.keys().collect::<Vec<_>>(), ["owner.u"]);
        assert_eq!(wrong.len(), 3, "{wrong:?}");
    }

    #[test]
    fn a_pod_that_cannot_be_read_is_passed_over() {
        let mut seen = Seen::default();
        seen.pods(Event::Apply(json!({"metadata": {"name": 3}})));
        assert!(seen.pods.now.is_empty());
    }
}
