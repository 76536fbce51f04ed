// SPDX-License-Identifier: Apache-2.0
//! tensile-kube's two rules, written anew from what they do: how its webhook annotates a pod, and what its virtual node
//! makes of an annotated pod. The reference for pods that come from there or go there; also where the rules are wrong.

use serde_json::{Map, Value, json};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const LOSS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// What its webhook leaves of a pod. Without node selector, affinity and tolerations, that is the pod.
pub(super) fn annotated(mut pod: Value, kept: &[&str]) -> Value {
    let spec = pod["spec"].as_object_mut().unwrap();
    if ["nodeSelector", "affinity", "tolerations"].iter().all(|field| !spec.contains_key(*field)) {
        return pod;
    }
    let mut stash = Map::new();
    if let Some(Value::Object(selector)) = spec.remove("nodeSelector") {
        let (stays, goes): (Map<_, _>, Map<_, _>) =
            selector.into_iter().partition(|(key, _)| kept.contains(&key.as_str()));
        for (place, part) in [(&mut *spec, stays), (&mut stash, goes)] {
            if !part.is_empty() {
                place.insert("nodeSelector".to_owned(), part.into());
            }
        }
    }
    if let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| move_terms(affinity, kept)) {
        stash.insert("affinity".to_owned(), affinity);
    }
    let tolerations = spec.get("tolerations").cloned();
    if let Some(tolerations) = tolerations.clone() {
        stash.insert("tolerations".to_owned(), tolerations);
    }
    spec.insert("tolerations".to_owned(), tolerate_loss(tolerations.as_ref()));
    pod["metadata"]["annotations"]["clusterSelector"] = json!(Value::Object(stash).to_string());
    pod
}

/// Takes what is not about kept keys out of the required terms, each term by itself, and drops those of which nothing
/// stays: what was an alternative that any cluster could meet is then no alternative any more.
fn move_terms(affinity: &mut Value, kept: &[&str]) -> Option<Value> {
    let node_affinity = affinity.get_mut("nodeAffinity")?.as_object_mut()?;
    let terms = node_affinity.get_mut(REQUIRED)?["nodeSelectorTerms"].as_array_mut()?;
    let mut moved = Vec::new();
    for term in terms.iter_mut().filter_map(Value::as_object_mut) {
        let mut of_term = Map::new();
        for list in ["matchExpressions", "matchFields"] {
            let Some(Value::Array(requirements)) = term.remove(list) else { continue };
            let is_kept = |requirement: &Value| kept.iter().any(|key| requirement["key"] == *key);
            let (stays, goes): (Vec<_>, Vec<_>) = requirements.into_iter().partition(is_kept);
            for (place, part) in [(&mut *term, stays), (&mut of_term, goes)] {
                if !part.is_empty() {
                    place.insert(list.to_owned(), part.into());
                }
            }
        }
        if !of_term.is_empty() {
            moved.push(Value::Object(of_term));
        }
    }
    terms.retain(|term| *term != json!({}));
    if terms.is_empty() {
        node_affinity.remove(REQUIRED);
    }
    (!moved.is_empty()).then(|| json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": moved}}}))
}

fn tolerate_loss(tolerations: Option<&Value>) -> Value {
    let for_ever = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
    let given = tolerations.and_then(Value::as_array).into_iter().flatten();
    let mut result: Vec<Value> = given
        .map(|toleration| match LOSS.iter().find(|key| toleration["key"] == **key) {
            Some(key) => for_ever(key),
            None => toleration.clone(),
        })
        .collect();
    for key in LOSS {
        if !result.iter().any(|toleration| toleration["key"] == key) {
            result.push(for_ever(key));
        }
    }
    result.into()
}

/// The placement fields of the pod that its virtual node creates below, as a `spec`.
pub(super) fn restored(pod: &Value) -> Value {
    let mut spec = json!({});
    let stash: Option<Value> =
        pod["metadata"]["annotations"]["clusterSelector"].as_str().map(|text| serde_json::from_str(text).unwrap());
    let mut affinity = pod["spec"].get("affinity").cloned();
    match (&stash, &mut affinity) {
        (Some(stash), None) => affinity = stash.get("affinity").cloned(),
        (Some(stash), Some(affinity)) => match (stash["affinity"].get("nodeAffinity"), affinity.get("nodeAffinity")) {
            (Some(stashed), Some(_)) => set(&mut affinity["nodeAffinity"], REQUIRED, stashed.get(REQUIRED).cloned()),
            (stashed, _) => set(affinity, "nodeAffinity", stashed.cloned()),
        },
        (None, Some(affinity)) if affinity.get("nodeAffinity").is_some() => {
            set(&mut affinity["nodeAffinity"], REQUIRED, None);
        }
        (None, _) => {}
    }
    set(&mut spec, "affinity", affinity);
    for field in ["nodeSelector", "tolerations"] {
        set(&mut spec, field, stash.as_ref().and_then(|stash| stash.get(field)).cloned());
    }
    spec
}

fn set(object: &mut Value, name: &str, value: Option<Value>) {
    let members = object.as_object_mut().unwrap();
    match value {
        Some(value) => drop(members.insert(name.to_owned(), value)),
        None => drop(members.remove(name)),
    }
}
