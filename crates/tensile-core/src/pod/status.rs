// SPDX-License-Identifier: Apache-2.0
//! Status on its way up: what the kubelet of the virtual node would write.

use serde_json::{Map, Value, json};

use crate::names;

/// Members of a status that a kubelet writes. `qosClass` is the API server's and immutable (lower defaults may give
/// another); `nominatedNodeName` and the claim statuses name lower objects; `observedGeneration` counts generations of
/// the lower spec. Which generation upstairs is observed only the writer of the status knows.
const MEMBERS: &[&str] = &[
    "phase",
    "reason",
    "message",
    "startTime",
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
    "resize",
    "resources",
    "allocatedResources",
];

/// Where the pod is reached.
const ADDRESSES: &[&str] = &["podIP", "podIPs"];

/// Conditions that a kubelet writes, and `DisruptionTarget`, which whoever ends a pod writes. `PodScheduled` belongs to
/// the scheduler of its own cluster; all others to controllers there.
const CONDITIONS: &[&str] = &[
    "AllContainersRestarting",
    "ContainersReady",
    "DisruptionTarget",
    "Initialized",
    "PodReadyToStartContainers",
    "PodResizeInProgress",
    "PodResizePending",
    "Ready",
];

/// What the status of an upper pod shows of its own side.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatusView<'a> {
    /// Address of the virtual node, shown as the pod's host; empty when it has none.
    pub host_ip: &'a str,
    /// Lower pod addresses can be reached from the upper cluster.
    pub show_pod_ips: bool,
    /// Containers that only the lower pod has (see [`super::Reported::foreign_containers`]): the upper status has no room
    /// for them.
    pub foreign_containers: &'a [String],
}

/// The status of the upper pod as the kubelet of the virtual node would write it, from a lower pod's status.
///
/// Nothing is invented: states of containers come whole, with their restarts and last states. That the lower scheduler
/// found no node is told by a condition of ours, [`names::SCHEDULED`]: upstairs `PodScheduled` is true.
#[must_use]
pub fn upper_status(lower_status: Value, view: &StatusView<'_>) -> Value {
    let Value::Object(mut lower) = lower_status else { return json!({}) };
    let mut upper: Map<String, Value> = MEMBERS.iter().filter_map(|member| lower.remove_entry(*member)).collect();
    for member in ADDRESSES.iter().filter(|_| view.show_pod_ips) {
        upper.extend(lower.remove_entry(*member));
    }
    // Like a kubelet: only once the pod has been taken in. Before that there is nothing to tell upstairs.
    if !view.host_ip.is_empty() && upper.contains_key("startTime") {
        upper.insert("hostIP".to_owned(), json!(view.host_ip));
        upper.insert("hostIPs".to_owned(), json!([{"ip": view.host_ip}]));
    }
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        if let Some(Value::Array(statuses)) = upper.get_mut(list) {
            statuses.retain(|status| !view.foreign_containers.iter().any(|name| status["name"] == name.as_str()));
        }
    }
    if let Some(Value::Array(conditions)) = lower.remove("conditions") {
        let (mut shown, mut told) = (Vec::new(), None);
        for condition in conditions {
            let Value::Object(mut members) = condition else { continue };
            members.remove("observedGeneration");
            match members.get("type").and_then(Value::as_str) {
                Some(kind) if CONDITIONS.contains(&kind) => shown.push(Value::Object(members)),
                Some("PodScheduled") if members.get("status").is_some_and(|status| status == "False") => {
                    members.insert("type".to_owned(), json!(names::SCHEDULED));
                    members.remove("lastProbeTime");
                    told.get_or_insert(Value::Object(members));
                }
                _ => {}
            }
        }
        shown.extend(told);
        upper.insert("conditions".to_owned(), Value::Array(shown));
    }
    Value::Object(upper)
}
