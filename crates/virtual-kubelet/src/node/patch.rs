// SPDX-License-Identifier: Apache-2.0
//! What is written about the node: its first version, and patches that leave alone what others wrote.
//!
//! What we wrote last is kept in two annotations under the names that the Go library uses, so that either can take over
//! a node from the other. A patch takes back what is in there and no longer wanted, sets what is wanted and differs,
//! and touches nothing else: conditions, labels, annotations, addresses and resources of others survive.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{api::set, health::Backend};
use crate::time;

#[cfg(test)]
mod tests;

/// Annotation with the status that was written last, without the times of its conditions.
pub(super) const LAST_STATUS: &str = "virtual-kubelet.io/last-applied-node-status";
/// Annotation with the labels and annotations that were written last.
pub(super) const LAST_META: &str = "virtual-kubelet.io/last-applied-object-meta";
/// Reason of condition Ready=False while the backend is away.
pub(super) const BACKEND_UNREACHABLE: &str = "BackendUnreachable";

/// The node as the provider wants it, under its name, with condition Ready overruled while the backend is away and
/// added where the provider says nothing of it.
///
/// The other conditions stay as the provider has them: memory and disks below are no worse for not being seen.
pub(super) fn wanted(mut node: Value, name: &str, backend: &Backend) -> Value {
    set(&mut node, &["apiVersion"], "v1".into());
    set(&mut node, &["kind"], "Node".into());
    set(&mut node, &["metadata", "name"], name.into());
    let away = match backend {
        Backend::Away(message) => Some(("False", BACKEND_UNREACHABLE, message.as_str())),
        Backend::Unknown | Backend::Present => None,
    };
    if away.is_some() || ready(&node).is_none() {
        let (status, reason, message) = away.unwrap_or(("True", "KubeletReady", "the backend answers"));
        let mut conditions = list(&node, "/status/conditions").to_vec();
        conditions.retain(|condition| condition["type"] != "Ready");
        conditions.insert(0, json!({"type": "Ready", "status": status, "reason": reason, "message": message}));
        set(&mut node, &["status", "conditions"], conditions.into());
    }
    node
}

/// The node to create where there is none.
pub(super) fn registration(wanted: &Value, now: Timestamp) -> Value {
    let mut node = wanted.clone();
    set(&mut node, &["status", "conditions"], stamped(wanted, &Value::Null, now).into());
    for (key, text) in last_applied(wanted, &Value::Null) {
        set(&mut node, &["metadata", "annotations", key], text.into());
    }
    node
}

/// The strategic merge patch for `nodes/<name>/status` that brings the API server's node to what is wanted.
///
/// It carries the node's UID: a node that was replaced in the meantime answers 409 instead of taking it.
pub(super) fn status_patch(server: &Value, wanted: &Value, now: Timestamp) -> Value {
    let (last_meta, last_status) = (last(server, LAST_META), last(server, LAST_STATUS));
    let part = |node: &Value, member: &str| node.get(member).cloned().unwrap_or_else(|| json!({}));
    let of = |member: &str| {
        merge(&part(&last_meta, member), &part(&wanted["metadata"], member), &part(&server["metadata"], member))
    };

    let mut status = merge(&plain(&last_status), &plain(&wanted["status"]), &plain(&server["status"]));
    status.insert("conditions".into(), conditions(&last_status, &stamped(wanted, server, now), server));
    if let Some(addresses) = addresses(&last_status, wanted, server) {
        status.insert("addresses".into(), addresses);
    }

    let mut annotations = of("annotations");
    annotations.extend(last_applied(wanted, server).map(|(key, text)| (key.to_owned(), Value::from(text))));
    let metadata = json!({"uid": server["metadata"]["uid"], "labels": of("labels"), "annotations": annotations});
    json!({"metadata": metadata, "status": status})
}

/// Status of condition Ready, if the node has one.
pub(super) fn ready(node: &Value) -> Option<&str> {
    list(node, "/status/conditions").iter().find(|condition| condition["type"] == "Ready")?["status"].as_str()
}

/// What `key` says was written last; nothing when it is absent or unreadable.
///
/// The Go library fails for ever on an unreadable one. Taking it for absent costs only that what it named stays.
fn last(server: &Value, key: &str) -> Value {
    let text = server["metadata"]["annotations"][key].as_str().unwrap_or("{}");
    serde_json::from_str(text).unwrap_or_else(|error| {
        tracing::warn!(annotation = key, %error, "what was written to the node last cannot be read; others' entries stay");
        json!({})
    })
}

/// The two annotations that remember what is written now. Times are left out, or each heartbeat would change them.
fn last_applied(wanted: &Value, server: &Value) -> [(&'static str, String); 2] {
    let mut meta = json!({"name": wanted["metadata"]["name"]});
    for (from, member) in [(server, "uid"), (wanted, "labels"), (wanted, "annotations")] {
        if let Some(value) = from["metadata"].get(member) {
            set(&mut meta, &[member], value.clone());
        }
    }
    let mut status = wanted["status"].clone();
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.retain(|member, _| !matches!(member.as_str(), "lastHeartbeatTime" | "lastTransitionTime"));
        }
    }
    [(LAST_META, meta.to_string()), (LAST_STATUS, status.to_string())]
}

/// The wanted conditions with their times: the heartbeat is now, the transition is now where the status differs from
/// the server's.
fn stamped(wanted: &Value, server: &Value, now: Timestamp) -> Vec<Value> {
    let now = time::in_seconds(now);
    let stamp = |condition: &Value| {
        let known = by_type(list(server, "/status/conditions"), condition);
        let since = known
            .filter(|known| known["status"] == condition["status"])
            .and_then(|known| known["lastTransitionTime"].as_str())
            .unwrap_or(&now);
        let mut condition = condition.clone();
        set(&mut condition, &["lastTransitionTime"], since.into());
        set(&mut condition, &["lastHeartbeatTime"], now.as_str().into());
        condition
    };
    list(wanted, "/status/conditions").iter().map(stamp).collect()
}

/// Conditions are merged by type: ours are brought to what is wanted, those we had and no longer want are deleted.
fn conditions(last_status: &Value, stamped: &[Value], server: &Value) -> Value {
    let on_server = list(server, "/status/conditions");
    let ours = stamped.iter().map(|condition| {
        let known = by_type(on_server, condition).unwrap_or(&Value::Null);
        let mut change = merge(known, condition, known);
        change.insert("type".into(), condition["type"].clone());
        Value::from(change)
    });
    let taken_back = list(last_status, "/conditions")
        .iter()
        .filter(|condition| by_type(stamped, condition).is_none() && by_type(on_server, condition).is_some())
        .map(|condition| json!({"$patch": "delete", "type": condition["type"]}));
    ours.chain(taken_back).collect()
}

/// Addresses are replaced as a whole, with those of others kept: their merge key, the type, is not unique (a node may
/// have an IPv4 and an IPv6 `InternalIP`), and merging by it corrupts the list. `None` when nothing changes.
fn addresses(last_status: &Value, wanted: &Value, server: &Value) -> Option<Value> {
    let (on_server, ours) = (list(server, "/status/addresses"), list(wanted, "/status/addresses"));
    let ours_before = list(last_status, "/addresses");
    let of_others = on_server.iter().filter(|address| !ours.contains(address) && !ours_before.contains(address));
    let all: Vec<Value> = ours.iter().chain(of_others).cloned().collect();
    (all != on_server).then(|| std::iter::once(json!({"$patch": "replace"})).chain(all).collect())
}

/// The status without the two lists that have a way of their own. Any other list is replaced as a whole.
fn plain(status: &Value) -> Value {
    let mut status = status.clone();
    if let Some(status) = status.as_object_mut() {
        status.retain(|member, _| !matches!(member.as_str(), "conditions" | "addresses"));
    }
    status
}

/// Three-way merge of objects: null for what was `last` ours and is no longer `wanted`, a value for what is wanted and
/// differs from `current`.
fn merge(last: &Value, wanted: &Value, current: &Value) -> Map<String, Value> {
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (last, wanted, current) = (members(last), members(wanted), members(current));
    let taken_back = last.keys().filter(|key| !wanted.contains_key(*key) && current.contains_key(*key));
    let mut patch: Map<_, _> = taken_back.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in &wanted {
        match current.get(key) {
            Some(known) if known == value => {}
            Some(known) if known.is_object() && value.is_object() => {
                let change = merge(last.get(key).unwrap_or(&Value::Null), value, known);
                if !change.is_empty() {
                    patch.insert(key.clone(), change.into());
                }
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    patch
}

fn by_type<'a>(conditions: &'a [Value], condition: &Value) -> Option<&'a Value> {
    conditions.iter().find(|known| known["type"] == condition["type"])
}

/// The list at `pointer`, or an empty one.
fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
