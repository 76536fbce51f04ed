// SPDX-License-Identifier: Apache-2.0
//! The pod that is made again: all that its author wrote, and nothing that the clusters added.

use serde_json::{Map, Value, json};

use crate::exclusion;
use crate::names;
use crate::placement::Malformed;

/// Members of `metadata` that are somebody's words about the pod, not the API server's.
const METADATA: [&str; 7] =
    ["name", "generateName", "namespace", "labels", "annotations", "ownerReferences", "finalizers"];

/// The pod as it can be made again. `ours`: virtual nodes that it was kept off when it was made, besides those that it says
/// itself; constraints of its author stay.
pub fn sanitized(pod: &Value, ours: &[&str]) -> Value {
    let mut meta = Map::new();
    for name in METADATA {
        if let Some(value) = pod["metadata"].get(name) {
            meta.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(Value::Array(finalizers)) = meta.get_mut("finalizers") {
        finalizers.retain(|name| name != names::MOVE);
        if finalizers.is_empty() {
            meta.remove("finalizers");
        }
    }
    let kept_off = pod["metadata"]["annotations"][names::KEPT_OFF].as_str().unwrap_or_default();
    let kept_off: Vec<String> = serde_json::from_str(kept_off).unwrap_or_default();
    if let Some(Value::Object(annotations)) = meta.get_mut("annotations") {
        annotations.remove(names::ORIGIN_UID);
        annotations.remove(names::KEPT_OFF);
        if annotations.is_empty() {
            meta.remove("annotations");
        }
    }
    let mut spec = pod["spec"].as_object().cloned().unwrap_or_default();
    for assigned in ["nodeName", "ephemeralContainers"] {
        spec.remove(assigned);
    }
    unmerge(&mut spec, &pod["metadata"]["labels"]);
    let mut made = json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec});
    let nodes: Vec<&str> = kept_off.iter().map(String::as_str).chain(ours.iter().copied()).collect();
    exclusion::lift_pod(&mut made, &nodes);
    made
}

/// The successor of the pod `origin`, kept off `nodes`, and held until its journal is closed.
pub fn placed(manifest: &Value, origin: &str, nodes: &[&str]) -> Result<Value, Malformed> {
    let mut pod = manifest.clone();
    let mut affinity = pod["spec"].get("affinity").cloned();
    exclusion::exclude(&mut affinity, nodes.iter().copied())?;
    if let Some(affinity) = affinity {
        pod["spec"]["affinity"] = affinity;
    }
    pod["metadata"]["annotations"][names::ORIGIN_UID] = origin.into();
    if !nodes.is_empty() {
        pod["metadata"]["annotations"][names::KEPT_OFF] = json!(nodes).to_string().into();
    }
    let finalizers = &mut pod["metadata"]["finalizers"];
    match finalizers {
        Value::Array(finalizers) => finalizers.push(names::MOVE.into()),
        other => *other = json!([names::MOVE]),
    }
    Ok(pod)
}

/// The same under a name that is free, to ask the API server whether it would take it.
pub fn checked(mut pod: Value) -> Value {
    if let Value::Object(meta) = &mut pod["metadata"] {
        meta.remove("name");
        meta.insert("generateName".to_owned(), "tensile-move-".into());
    }
    pod
}

/// Takes out keys whose values the API server has put into the selector already: it refuses to do so twice
/// (Kubernetes `pkg/registry/core/pod/strategy.go`, `applyMatchLabelKeysAndMismatchLabelKeys`).
fn unmerge(spec: &mut Map<String, Value>, labels: &Value) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else { continue };
        for list in
            ["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"]
        {
            for term in affinity.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                let term = if term["podAffinityTerm"].is_object() { &mut term["podAffinityTerm"] } else { term };
                unmerge_term(term, "matchLabelKeys", "In", labels);
                unmerge_term(term, "mismatchLabelKeys", "NotIn", labels);
            }
        }
    }
    for constraint in spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut).into_iter().flatten() {
        unmerge_term(constraint, "matchLabelKeys", "In", labels);
    }
}

fn unmerge_term(term: &mut Value, member: &str, operator: &str, labels: &Value) {
    let Some(keys) = term.get(member).and_then(Value::as_array) else { return };
    let expressions = term["labelSelector"]["matchExpressions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_merged = |key: &Value| {
        let value = key.as_str().and_then(|key| labels.get(key));
        // A key that the pod has no label of is passed over there.
        value.is_none_or(|value| expressions.contains(&json!({"key": key, "operator": operator, "values": [value]})))
    };
    if keys.iter().all(is_merged)
        && let Value::Object(members) = term
    {
        members.remove(member);
    }
}
