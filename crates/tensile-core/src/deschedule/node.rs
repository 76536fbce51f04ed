// SPDX-License-Identifier: Apache-2.0
//! The digest of a virtual node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::names;
use crate::placement::selector::Taint;
use crate::resources::ResourceVector;

/// A virtual node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VirtualNode {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints, also that of a cordon.
    pub taints: Vec<Taint>,
    /// It takes no pods that do not tolerate that.
    pub cordoned: bool,
    /// What it offers to all its pods together.
    pub allocatable: ResourceVector,
    /// Since when it is not ready; `None` while it is.
    pub not_ready_since: Option<Timestamp>,
}

impl VirtualNode {
    /// Reads a Node. One without a condition `Ready` is not ready since it was made.
    pub fn read(node: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
        let taints = node["spec"]["taints"].as_array().into_iter().flatten();
        let ready = node["status"]["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Ready");
        let since = ready.map_or(&node["metadata"]["creationTimestamp"], |ready| &ready["lastTransitionTime"]);
        let is_ready = ready.is_some_and(|ready| ready["status"] == "True");
        let taint = |taint: &Value| Taint {
            key: text(&taint["key"]),
            value: text(&taint["value"]),
            effect: text(&taint["effect"]),
        };
        let mut taints: Vec<Taint> = taints.map(taint).collect();
        let cordoned = node["spec"]["unschedulable"] == true;
        let cordon = || taint(&json!({ "key": names::NODE_UNSCHEDULABLE, "effect": "NoSchedule" }));
        if cordoned && !taints.contains(&cordon()) {
            // A controller adds it a moment later.
            taints.push(cordon());
        }
        Self {
            labels: labels.map(|(key, value)| (key.clone(), text(value))).collect(),
            taints,
            cordoned,
            allocatable: ResourceVector::from_json(&node["status"]["allocatable"]).unwrap_or_default(),
            not_ready_since: (!is_ready).then(|| text(since).parse().unwrap_or(Timestamp::UNIX_EPOCH)),
        }
    }
}
