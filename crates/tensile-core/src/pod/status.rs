//! Status on its way up: what the kubelet of the virtual node would write.

use serde_json::{Map, Value, json};

use super::NOTHING;
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
    /// Containers that only the lower pod has (see [`super::foreign_containers`]): the upper status has no room for them.
    pub foreign_containers: &'a [String],
}

/// The status of the upper pod as the kubelet of the virtual node would write it, from a lower pod's status.
///
/// Nothing is invented: states of containers come whole, with their restarts and last states. That the lower scheduler
/// found no node is told by a condition of ours, [`names::SCHEDULED`]: upstairs `PodScheduled` is true.
#[must_use]
pub fn upper_status(lower_status: &Value, view: &StatusView<'_>) -> Value {
    let lower = lower_status.as_object().unwrap_or(&NOTHING);
    let mut upper = written_by_kubelet(lower);
    for member in ADDRESSES.iter().filter(|_| view.show_pod_ips) {
        if let Some(value) = lower.get(*member) {
            upper.insert((*member).to_owned(), value.clone());
        }
    }
    // Like a kubelet: only once the pod has been taken in. Before that there is nothing to tell upstairs.
    if !view.host_ip.is_empty() && lower.contains_key("startTime") {
        upper.insert("hostIP".to_owned(), json!(view.host_ip));
        upper.insert("hostIPs".to_owned(), json!([{"ip": view.host_ip}]));
    }
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        if let Some(Value::Array(statuses)) = upper.get_mut(list) {
            statuses.retain(|status| !view.foreign_containers.iter().any(|name| status["name"] == name.as_str()));
        }
    }
    if let Some(Value::Array(conditions)) = lower.get("conditions") {
        let unscheduled = conditions.iter().find(|condition| {
            condition["type"] == "PodScheduled" && condition["status"] == "False" && condition.is_object()
        });
        if let (Some(found), Some(Value::Array(shown))) = (unscheduled, upper.get_mut("conditions")) {
            let mut told = found.clone();
            told["type"] = json!(names::SCHEDULED);
            if let Some(members) = told.as_object_mut() {
                members.remove("observedGeneration");
                members.remove("lastProbeTime");
            }
            shown.push(told);
        }
    }
    Value::Object(upper)
}

/// The part of a status that does not depend on which cluster shows it.
pub(super) fn written_by_kubelet(status: &Map<String, Value>) -> Map<String, Value> {
    let mut written: Map<String, Value> =
        MEMBERS.iter().filter_map(|member| Some(((*member).to_owned(), status.get(*member)?.clone()))).collect();
    if let Some(Value::Array(conditions)) = status.get("conditions") {
        let ours = conditions.iter().filter_map(condition).collect();
        written.insert("conditions".to_owned(), Value::Array(ours));
    }
    written
}

fn condition(condition: &Value) -> Option<Value> {
    let kind = condition.get("type")?.as_str()?;
    let mut members = condition.as_object().filter(|_| CONDITIONS.contains(&kind))?.clone();
    members.remove("observedGeneration");
    Some(Value::Object(members))
}
