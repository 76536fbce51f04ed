// SPDX-License-Identifier: Apache-2.0
//! Fleets for tests: lower clusters and their virtual nodes, as watches would have told of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use multi_scheduler::args::{Args, Policy, Settings};
use multi_scheduler::fleet::{Fleet, VirtualNode};
use multi_scheduler::lower::{Heard, Lower};
use serde_json::{Value, json};
use tensile_core::pod::LinkView;
use tensile_core::scheduling::{Change, Kind, Profile};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn policy(more: &[&str]) -> Policy {
    let typed = [&["multi-scheduler", "--clusters-dir=/nowhere"], more].concat();
    Settings::resolve(Args::parse_from(typed)).unwrap().policy
}

/// A fleet of these clusters, each with a virtual node of its name.
pub(crate) fn fleet(policy: Policy, lowers: &[Arc<Lower>]) -> Fleet {
    let fleet = Fleet::new(policy, PATIENCE);
    fleet.set_nodes(lowers.iter().map(|lower| (lower.name.clone(), Arc::new(virtual_node(lower)))).collect());
    for lower in lowers {
        fleet.add(lower);
    }
    fleet
}

pub(crate) fn virtual_node(lower: &Lower) -> VirtualNode {
    let labels =
        [("clusterID", lower.name.as_str()), ("type", "virtual-kubelet"), ("tensile.io/lower-cluster", &lower.id)];
    let node_labels: BTreeMap<String, String> = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let link = LinkView { virtual_node: lower.name.clone(), node_labels, ..LinkView::default() };
    VirtualNode { lower: Some(lower.id.clone()), link }
}

/// A cluster with these nodes' CPUs, everything listed.
pub(crate) fn cluster(name: &str, cpus: &[&str]) -> Arc<Lower> {
    let now = Instant::now();
    let lower = Arc::new(Lower::new(name, &format!("uid-of-{name}"), Profile::default(), now));
    for kind in Kind::ALL {
        lower.hear(kind, Heard::Begin, now);
        if kind == Kind::Node {
            for (number, cpu) in cpus.iter().enumerate() {
                see(&lower, Kind::Node, &node(&format!("{name}-{number}"), cpu));
            }
        }
        lower.hear(kind, Heard::Complete, now);
    }
    lower
}

pub(crate) fn see(lower: &Lower, kind: Kind, object: &Value) {
    let object = kind.decode(&object.to_string()).unwrap();
    lower.hear(kind, Heard::Change(Change::Seen(object)), Instant::now());
}

fn node(name: &str, cpu: &str) -> Value {
    let room = json!({ "cpu": cpu, "memory": "64Gi", "pods": "100", "ephemeral-storage": "100Gi" });
    json!({
        "metadata": { "name": name, "uid": name, "labels": { "kubernetes.io/hostname": name } },
        "spec": {},
        "status": { "allocatable": room, "capacity": room },
    })
}

/// An upper pod that asks for CPUs.
pub(crate) fn pod(uid: &str, cpu: &str) -> Value {
    json!({
        "metadata": { "name": uid, "namespace": "default", "uid": uid },
        "spec": { "containers": [{ "name": "main", "image": "i", "resources": { "requests": { "cpu": cpu } } }] },
    })
}
