// SPDX-License-Identifier: Apache-2.0
//! What must always hold of a plan, on worlds by chance, and what it does in those that were thought of.

mod balance;
mod drain;
mod guarded;
mod lives;
mod places;
mod promises;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::exclusion::{Exclusion, Record};

/// When it is now.
const NOW: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW + seconds).unwrap()
}

fn policy() -> Policy {
    let after = Duration::from_secs(10);
    let plugins = [
        Plugin::UnschedulableBelow { after },
        Plugin::RefusedBelow { after },
        Plugin::NodeNotReady { after: Duration::from_secs(300) },
    ];
    let strategy = |plugin| Strategy { profile: "default".to_owned(), namespaces: Namespaces::default(), plugin };
    Policy {
        strategies: plugins.into_iter().map(strategy).collect(),
        protections: Protections::default(),
        back_off: BackOff::default(),
        moves: 6,
        breaker: Breaker::default(),
        nodes: Vec::new(),
    }
}

fn no_limits() -> Buckets {
    Buckets::new(Limits { per_node: None, per_namespace: None, total: None, interval: Duration::from_secs(60) })
}

/// A pod of ReplicaSet `owner` that the cluster of node `node` has had no room for since `since`.
fn stuck(uid: &str, owner: &str, node: &str, since: i64) -> Value {
    json!({
        "metadata": {
            "namespace": "n", "name": format!("pod-{uid}"), "uid": uid, "resourceVersion": "5",
            "creationTimestamp": at(since).to_string(),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner, "controller": true}],
        },
        "spec": {"nodeName": node},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "virtual-kubelet.io/Scheduled", "status": "False", "reason": "Unschedulable",
             "message": "0/3 nodes are available", "lastTransitionTime": at(since).to_string()},
        ]},
    })
}

fn ready(name: &str) -> (Arc<str>, VirtualNode) {
    let labels = [("clusterID".to_owned(), name.to_owned())].into();
    (name.into(), VirtualNode { labels, ..VirtualNode::default() })
}

fn exclusion(node: &str, since: i64, attempts: u32) -> Exclusion {
    // 5 min x 2^n, at most an hour: written out, not asked of the code under test.
    let lasts = [300, 600, 1200, 2400, 3600][usize::try_from(attempts - 1).unwrap().min(4)];
    Exclusion { node: node.to_owned(), until: at(since + lasts), attempts, other: serde_json::Map::new() }
}

/// What was seen, owned.
#[derive(Debug, Clone, Default)]
struct Seen {
    pods: BTreeMap<Arc<str>, Box<Pod>>,
    nodes: BTreeMap<Arc<str>, VirtualNode>,
    jobs: BTreeMap<Arc<str>, JobFacts>,
    rollouts: BTreeMap<Arc<str>, Rollout>,
    records: BTreeMap<String, Record>,
    newer: BTreeMap<String, u64>,
    asked: BTreeSet<Arc<str>>,
    left: BTreeMap<Arc<str>, Timestamp>,
    moves: BTreeSet<Arc<str>>,
    guard: Option<Guard>,
    /// With a multi-scheduler.
    fits: Option<BTreeMap<Arc<str>, Option<Fit>>>,
}

impl Seen {
    fn of(nodes: &[&str], pods: &[Value]) -> Self {
        let pods = pods.iter().map(|pod| Box::new(Pod::read(pod).unwrap()));
        Self {
            pods: pods.map(|pod| (pod.uid.clone(), pod)).collect(),
            nodes: nodes.iter().map(|name| ready(name)).collect(),
            ..Self::default()
        }
    }

    fn excluded(mut self, key: &str, exclusions: &[Exclusion]) -> Self {
        self.records.insert(key.to_owned(), Record { nodes: exclusions.to_vec(), ..Record::default() });
        self
    }

    /// Unless there is a guard, exclusions are enforced.
    fn world<'a>(&'a self, enforced: &'a Guard) -> World<'a> {
        let Self { pods, nodes, jobs, rollouts, records, newer, asked, left: evicted, moves, guard, fits } = self;
        let places = fits.as_ref().map(|fits| Places { fits, enforces: Some("multi-scheduler") });
        World {
            pods,
            nodes,
            jobs,
            rollouts,
            records,
            newer,
            asked,
            evicted,
            moves,
            guard: guard.as_ref().unwrap_or(enforced),
            places,
        }
    }

    fn plan(&self, now: i64) -> Plan {
        self.plan_by(&policy(), now)
    }

    fn plan_by(&self, policy: &Policy, now: i64) -> Plan {
        plan(&self.world(&Guard::off()), policy, &mut no_limits(), at(now))
    }
}

fn evicted(plan: &Plan) -> Vec<&str> {
    plan.evict.iter().map(|eviction| &*eviction.pod).collect()
}

fn held(plan: &Plan) -> Vec<(&str, &Why)> {
    plan.held.iter().map(|held| (&*held.pod, &held.why)).collect()
}

fn with(mut pod: Value, change: &Value) -> Value {
    merge(&mut pod, change);
    pod
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}
