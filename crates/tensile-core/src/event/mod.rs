// SPDX-License-Identifier: Apache-2.0
//! Events of lower pods on their way up: the same story, told of the upper pod.
//!
//! What happened, how often and when goes up as it is, and so does who saw it: a filter for `kubelet` or
//! `default-scheduler` finds the same events. What it happened to becomes the upper pod. The name of an upper event
//! follows from the lower one, so that a count that rises changes one event, and a process that starts anew knows what
//! has been shown: the revision that was shown last stands on it.

mod message;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::names;

/// The members that go up as they are. `related` names another lower object and stays below.
const KEPT: &[&str] = &[
    "action",
    "count",
    "eventTime",
    "firstTimestamp",
    "lastTimestamp",
    "reason",
    "reportingComponent",
    "reportingInstance",
    "series",
    "source",
    "type",
];

/// The pod upstairs that an event is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

/// What the lower event `event` (of the pod's lower namespace) is called upstairs.
#[must_use]
pub fn upper_name(pod: &About<'_>, event: &str) -> String {
    names::hashed(pod.name, &format!("{}/{event}", pod.uid))
}

/// The upper event for the lower event `lower` (core/v1) about the lower pod of `pod`. `renamed` has the names below and
/// upstairs of the objects that the pod refers to, as far as they differ. `None` when it is not an event.
#[must_use]
pub fn upper_event(lower: &Value, pod: &About<'_>, renamed: &[(String, String)], virtual_node: &str) -> Option<Value> {
    let metadata = lower.get("metadata")?;
    let (name, revision) = (metadata.get("name")?.as_str()?, metadata.get("resourceVersion")?.as_str()?);
    let members = lower.as_object()?.iter().filter(|(member, value)| KEPT.contains(&&***member) && !value.is_null());
    let mut upper: Map<String, Value> = members.map(|(member, value)| (member.clone(), value.clone())).collect();
    let mut about = json!({
        "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid,
    });
    if let Some(path @ Value::String(_)) = lower.pointer("/involvedObject/fieldPath") {
        about["fieldPath"] = path.clone();
    }
    let message = lower.get("message").and_then(Value::as_str).unwrap_or_default();
    upper.insert("apiVersion".to_owned(), json!("v1"));
    upper.insert("kind".to_owned(), json!("Event"));
    upper.insert("involvedObject".to_owned(), about);
    upper.insert("message".to_owned(), json!(message::renamed(message, renamed)));
    upper.insert(
        "metadata".to_owned(),
        json!({
            "name": upper_name(pod, name),
            "namespace": pod.namespace,
            "labels": { names::VIRTUAL_NODE: names::label_value(virtual_node) },
            "annotations": { names::APPLIED_REVISION: revision },
        }),
    );
    Some(Value::Object(upper))
}
