// SPDX-License-Identifier: Apache-2.0
//! Metadata of the lower pod: the names, labels and annotations of the upper pod, and whose it is.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{LinkView, NOTHING, fields::Fields, upper::Upper, volume};
use crate::names;

/// Everything but name, labels and annotations belongs to the one object upstairs. An `ownerReference` would make the
/// lower garbage collector delete the pod (the owner's UID does not exist there); a finalizer would never be removed.
pub(super) const METADATA: Fields = Fields {
    kept: &[],
    decided: &[
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    ],
};

/// Annotations that stay upstairs.
///
/// The stash has been unpacked into the spec. `kubectl apply`'s record is of an object that does not exist below, and
/// often the longest thing in a pod. `kubernetes.io/config.*` would make the lower kubelet take the pod for a static
/// one. The others are ours, written anew.
pub(super) const STAYING_ANNOTATIONS: &[&str] = &[
    names::CLUSTER_SELECTOR,
    "kubectl.kubernetes.io/last-applied-configuration",
    "kubernetes.io/config.hash",
    "kubernetes.io/config.mirror",
    "kubernetes.io/config.seen",
    "kubernetes.io/config.source",
    names::APPLIED,
    names::APPLIED_REVISION,
    names::POD_NAME,
    names::REFERENCES,
    names::TOKENS,
    names::UPPER_LABELS,
    names::UPPER_NAME,
    names::UPPER_UID,
];

/// The metadata of the lower pod, but for the record of what was applied.
pub(super) fn lower(upper: &Upper<'_>, link: &LinkView, dropped: &mut Vec<String>) -> Map<String, Value> {
    METADATA.sift(upper.metadata, "metadata", dropped);
    let (labels, tripped) = labels(upper, link);
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(link.lower_pod(upper.namespace, upper.name)));
    metadata.insert("namespace".to_owned(), json!(link.lower_namespace(upper.namespace)));
    metadata.insert("annotations".to_owned(), Value::Object(annotations(upper, &tripped, link)));
    metadata.insert("labels".to_owned(), Value::Object(labels));
    metadata
}

/// Adds an annotation to the metadata of a lower pod.
pub(super) fn annotate(metadata: &mut Map<String, Value>, key: &str, value: String) {
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.insert(key.to_owned(), Value::String(value));
    }
}

/// The lower pod's labels, and those that did not go down.
fn labels(upper: &Upper<'_>, link: &LinkView) -> (Map<String, Value>, Map<String, Value>) {
    let (tripped, mut labels): (Map<_, _>, Map<_, _>) = members(upper, "labels")
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .partition(|(key, _)| link.ignored_labels.contains(key));
    labels.insert(names::VIRTUAL_POD.to_owned(), json!(names::TRUE));
    link.mark(&mut labels, upper.namespace);
    (labels, tripped)
}

fn annotations(upper: &Upper<'_>, tripped: &Map<String, Value>, link: &LinkView) -> Map<String, Value> {
    let mut annotations: Map<String, Value> = members(upper, "annotations")
        .iter()
        .filter(|(key, _)| !STAYING_ANNOTATIONS.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    annotations.insert(names::UPPER_UID.to_owned(), json!(upper.uid));
    annotations.insert(names::UPPER_NAME.to_owned(), json!(format!("{}/{}", upper.namespace, upper.name)));
    if link.namespaces.is_shared() {
        annotations.insert(names::POD_NAME.to_owned(), json!(upper.name));
    }
    if volume::shows_labels(upper) {
        annotations.insert(names::UPPER_LABELS.to_owned(), json!(as_file(members(upper, "labels"))));
    }
    if !tripped.is_empty() {
        annotations.insert(names::TRIPPED_LABELS.to_owned(), json!(Value::Object(tripped.clone()).to_string()));
    }
    annotations
}

/// As a kubelet writes labels into a file (Kubernetes `pkg/fieldpath/fieldpath.go`, `FormatMap`). Labels have no character
/// that would have to be escaped.
fn as_file(labels: &Map<String, Value>) -> String {
    let sorted: BTreeMap<&String, &Value> = labels.iter().collect();
    let lines = sorted.into_iter().map(|(key, value)| format!("{key}=\"{}\"", value.as_str().unwrap_or_default()));
    lines.collect::<Vec<_>>().join("\n")
}

fn members<'a>(upper: &Upper<'a>, map: &str) -> &'a Map<String, Value> {
    upper.metadata.get(map).and_then(Value::as_object).unwrap_or(&NOTHING)
}
