// SPDX-License-Identifier: Apache-2.0
//! What a pod says of other pods, where namespaces below are others than upstairs.

use serde_json::{Map, Value, json};

use crate::{names, pod::LinkView};

/// Where pods name other pods: required terms, and preferred ones, which have theirs one level deeper.
const TERMS: [(&str, Option<&str>); 2] = [
    ("requiredDuringSchedulingIgnoredDuringExecution", None),
    ("preferredDuringSchedulingIgnoredDuringExecution", Some("podAffinityTerm")),
];

/// A value of [`names::UPPER_NAMESPACE`] that no pod has.
const NOBODY: &str = "";

/// Makes pod affinity and spread constraints in `spec` of a pod of the upper namespace `own` mean below the pods that they
/// mean upstairs, and no others. What of them cannot be said below is added to `dropped`.
pub(crate) fn keep_apart(spec: &mut Map<String, Value>, own: &str, link: &LinkView, dropped: &mut Vec<String>) {
    if !link.namespaces.is_own() && !link.namespaces.is_shared() {
        return;
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else { continue };
        for (list, inner) in TERMS {
            let terms = affinity.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            let terms = terms.filter_map(|term| match inner {
                Some(inner) => term.get_mut(inner)?.as_object_mut(),
                None => term.as_object_mut(),
            });
            for term in terms {
                if !term_below(term, own, link) {
                    dropped.push(format!("spec.affinity.{kind}.{list}[].namespaceSelector"));
                }
            }
        }
    }
    if link.namespaces.is_shared() {
        let constraints = spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut).into_iter().flatten();
        for constraint in constraints.filter_map(Value::as_object_mut) {
            of_namespaces(constraint, &[own], link);
        }
    }
}

/// Returns whether all of it could be said.
fn term_below(term: &mut Map<String, Value>, own: &str, link: &LinkView) -> bool {
    let listed: Vec<String> = term
        .get("namespaces")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|namespace| namespace.as_str().map(str::to_owned))
        .collect();
    let selector = term.get("namespaceSelector").and_then(Value::as_object);
    // An empty one selects all namespaces: all of the upper cluster.
    let all = selector.is_some_and(|selector| selector.values().all(is_empty));
    let selects = selector.is_some();
    let some = selects && !all;
    if !link.namespaces.is_shared() {
        if !listed.is_empty() {
            let below: Vec<_> = listed.iter().map(|namespace| link.lower_namespace(namespace)).collect();
            term.insert("namespaces".to_owned(), json!(below));
        }
        if selects {
            require(term, names::UPPER_CLUSTER, &[&names::label_value(&link.upper_cluster)]);
        }
        return true;
    }
    term.remove("namespaces");
    term.remove("namespaceSelector");
    if all {
        require(term, names::UPPER_CLUSTER, &[&names::label_value(&link.upper_cluster)]);
    } else {
        let mut meant: Vec<&str> = listed.iter().map(String::as_str).collect();
        if meant.is_empty() && !some {
            meant.push(own);
        }
        // Which namespaces a selector means is known upstairs alone; those that are named stay meant.
        of_namespaces(term, &meant, link);
    }
    !some
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        other => other.is_null(),
    }
}

/// Only pods of these namespaces upstairs are meant; of none, if there are none.
fn of_namespaces(place: &mut Map<String, Value>, namespaces: &[&str], link: &LinkView) {
    require(place, names::UPPER_CLUSTER, &[&names::label_value(&link.upper_cluster)]);
    require(place, names::UPPER_NAMESPACE, if namespaces.is_empty() { &[NOBODY] } else { namespaces });
}

/// The selector of `place`, if there is one, also asks for one of these values.
fn require(place: &mut Map<String, Value>, key: &str, values: &[&str]) {
    let Some(Value::Object(selector)) = place.get_mut("labelSelector") else { return };
    let more = json!({ "key": key, "operator": "In", "values": values });
    match selector.get_mut("matchExpressions") {
        Some(Value::Array(expressions)) => expressions.push(more),
        _ => drop(selector.insert("matchExpressions".to_owned(), json!([more]))),
    }
}
