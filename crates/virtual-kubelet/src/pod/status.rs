// SPDX-License-Identifier: Apache-2.0
//! Status on its way up: what of a pod's status is ours, whether it differs, and the patch that makes it equal.
//!
//! A kubelet owns a part of `PodStatus` and shares the rest: the scheduler writes `PodScheduled`, other controllers
//! write conditions of their own, the API server derives `qosClass`. So status is never put, only patched, by the merge
//! keys of the API (Kubernetes `pkg/util/pod/pod.go`, `PatchPodStatus`), and comparison looks at our part alone.

use std::hash::Hasher;

use fnv::FnvHasher;
use serde_json::{Map, Value, json};

use super::upper::{Gates, UpperPod};

/// Condition that is `False` while the provider does not take the pod.
pub(crate) const ACCEPTED: &str = "virtual-kubelet.io/Accepted";

/// Members of `PodStatus` that the kubelet writes.
const MEMBERS: &[&str] = &[
    "phase",
    "reason",
    "message",
    "startTime",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
    "resize",
    "resources",
    "allocatedResources",
];

/// Conditions that the kubelet writes and never takes back.
const LASTING: &[&str] = &["Initialized", "ContainersReady", "Ready", "PodReadyToStartContainers"];

/// Condition that is `False` while a backend with a scheduler of its own finds no place for the pod.
const SCHEDULED: &str = "virtual-kubelet.io/Scheduled";

/// Conditions that the kubelet writes and takes back.
const PASSING: &[&str] = &["PodResizePending", "PodResizeInProgress", "AllContainersRestarting", SCHEDULED];

/// Condition that several parties write, the kubelet among them, and nobody takes back.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// What a status shows, as far as it is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Equal for equal content, whatever the order of members.
    pub(crate) hash: u64,
    /// How far the pod has come.
    pub(crate) progress: Progress,
    /// Its phase is past Pending: it runs, or has ended.
    pub(crate) past_pending: bool,
    /// It is marked as disrupted.
    pub(crate) disrupted: bool,
    /// `Accepted` is among its conditions.
    pub(crate) refused: bool,
    /// The generation of the spec it is about.
    pub(crate) observed_generation: Option<i64>,
}

/// How far a pod has come; there is no way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// No kubelet has acknowledged it.
    Waiting,
    /// A kubelet has: it may have run.
    Started,
    /// It succeeded or failed: it never runs again.
    Terminal,
}

impl Shown {
    /// It succeeded or failed.
    pub(crate) fn terminal(&self) -> bool {
        self.progress == Progress::Terminal
    }

    /// It may have run.
    pub(crate) fn started(&self) -> bool {
        self.progress != Progress::Waiting
    }

    /// Reads a `PodStatus`.
    pub(crate) fn of(status: &Map<String, Value>) -> Self {
        let phase = status.get("phase").and_then(Value::as_str).unwrap_or_default();
        let conditions = conditions_of(status);
        let mut hash = 0_u64;
        for member in MEMBERS {
            if let Some(value) = status.get(*member) {
                hash = hash.wrapping_add(pair_hash(member, value));
            }
        }
        for condition in conditions {
            if let Some(name) = type_of(condition).filter(|name| LASTING.contains(name) || PASSING.contains(name)) {
                for member in ["status", "reason", "message", "lastTransitionTime"] {
                    hash = hash.wrapping_add(pair_hash(&format!("{name}/{member}"), &condition[member]));
                }
            }
        }
        let has = |name| conditions.iter().any(|condition| type_of(condition) == Some(name));
        let progress = match phase {
            "Succeeded" | "Failed" => Progress::Terminal,
            "" | "Pending" if !status.get("startTime").is_some_and(Value::is_string) => Progress::Waiting,
            _ => Progress::Started,
        };
        Self {
            hash,
            progress,
            past_pending: matches!(phase, "Running" | "Succeeded" | "Failed"),
            disrupted: has(DISRUPTION_TARGET),
            refused: has(ACCEPTED),
            observed_generation: status.get("observedGeneration").and_then(Value::as_i64),
        }
    }
}

fn conditions_of(status: &Map<String, Value>) -> &[Value] {
    status.get("conditions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn type_of(condition: &Value) -> Option<&str> {
    condition["type"].as_str()
}

/// A hash that does not depend on the order of an object's members, and for which an absent member, `null` and an empty
/// value are the same: API servers of different versions write them differently.
fn hash_of(value: &Value) -> u64 {
    let mut hasher = FnvHasher::default();
    match value {
        Value::Null => return 0,
        Value::Bool(flag) => hasher.write(&[1, u8::from(*flag)]),
        Value::Number(number) => hasher.write(number.to_string().as_bytes()),
        Value::String(text) if text.is_empty() => return 0,
        Value::String(text) => {
            hasher.write_u8(2);
            hasher.write(text.as_bytes());
        }
        Value::Array(items) if items.is_empty() => return 0,
        Value::Array(items) => items.iter().for_each(|item| hasher.write_u64(hash_of(item))),
        Value::Object(members) => {
            return members.iter().fold(0, |sum: u64, (name, value)| sum.wrapping_add(pair_hash(name, value)));
        }
    }
    hasher.finish()
}

fn pair_hash(name: &str, value: &Value) -> u64 {
    let value = hash_of(value);
    if value == 0 {
        return 0;
    }
    let mut hasher = FnvHasher::default();
    hasher.write(name.as_bytes());
    hasher.write_u64(value);
    hasher.finish()
}

/// The status that `upper` should show: the provider's, with `Ready` held back by the pod's readiness gates.
pub(crate) fn desired(provider: &Map<String, Value>, upper: &UpperPod) -> Map<String, Value> {
    let mut status: Map<String, Value> =
        MEMBERS.iter().filter_map(|member| Some(((*member).to_owned(), provider.get(*member)?.clone()))).collect();
    let conditions = conditions_of(provider)
        .iter()
        .filter(|condition| type_of(condition).is_some_and(is_ours))
        .map(|condition| gated(condition, &upper.gates))
        .collect();
    status.insert("conditions".to_owned(), Value::Array(conditions));
    status
}

fn is_ours(name: &str) -> bool {
    LASTING.contains(&name) || PASSING.contains(&name) || name == DISRUPTION_TARGET || name == ACCEPTED
}

fn gated(condition: &Value, gates: &Gates) -> Value {
    let mut condition = condition.clone();
    if let Gates::Waiting(why) = gates
        && condition["type"] == "Ready"
        && condition["status"] == "True"
    {
        condition["status"] = json!("False");
        condition["reason"] = json!("ReadinessGatesNotReady");
        condition["message"] = json!(why);
    }
    condition
}

/// The strategic merge patch that makes `upper` show `desired`.
///
/// It names the UID, so that it cannot hit the next pod of the name; lists with merge keys that the API would merge
/// into rubbish (`podIPs`, `hostIPs`) are replaced whole; what the kubelet takes back is deleted by its key.
///
/// `refused`: a refusal that is shown stays shown.
pub(crate) fn patch(desired: &Map<String, Value>, upper: &UpperPod, refused: bool) -> Value {
    let mut status = Map::new();
    for member in MEMBERS {
        let value = match desired.get(*member) {
            Some(Value::Array(items)) if matches!(*member, "podIPs" | "hostIPs") => {
                let mut list = vec![json!({"$patch": "replace"})];
                list.extend(items.iter().cloned());
                Value::Array(list)
            }
            Some(value) => value.clone(),
            None => Value::Null,
        };
        status.insert((*member).to_owned(), value);
    }
    let mut conditions: Vec<Value> = Vec::new();
    for condition in conditions_of(desired).iter().filter(|condition| type_of(condition).is_some_and(is_ours)) {
        let mut condition = condition.clone();
        condition["observedGeneration"] = json!(upper.generation);
        conditions.push(condition);
    }
    for name in PASSING.iter().chain((!refused).then_some(&ACCEPTED)) {
        if !conditions.iter().any(|condition| type_of(condition) == Some(name)) {
            conditions.push(json!({"type": name, "$patch": "delete"}));
        }
    }
    status.insert("conditions".to_owned(), Value::Array(conditions));
    status.insert("observedGeneration".to_owned(), json!(upper.generation));
    json!({"metadata": {"uid": &*upper.id.uid}, "status": status})
}

#[cfg(test)]
mod tests;
