// SPDX-License-Identifier: Apache-2.0
//! What split and restore do with pods, by example; properties over generated pods are in [`flat_cluster`].

mod flat_cluster;
mod restored;
mod splits;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{KeptKeys, Split};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The pod as the webhook would leave it.
fn with_split(pod: &Value, split: &Split) -> Value {
    let mut pod = pod.clone();
    for (field, value) in [
        ("nodeSelector", &split.upper.node_selector),
        ("affinity", &split.upper.affinity),
        ("tolerations", &split.upper.tolerations),
        ("topologySpreadConstraints", &split.upper.topology_spread),
    ] {
        match value {
            Some(value) => pod["spec"][field] = value.clone(),
            None => drop(pod["spec"].as_object_mut().unwrap().remove(field)),
        }
    }
    pod["metadata"]["annotations"]["clusterSelector"] = json!(split.stash.encode());
    pod
}

fn kept() -> KeptKeys {
    KeptKeys::default()
}

fn pod(spec: &Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

fn stashed_pod(spec: &Value, stash: &str) -> Value {
    json!({"metadata": {"name": "p", "annotations": {"clusterSelector": stash}}, "spec": spec})
}

fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// `key in (value)`
fn is(key: &str, value: &str) -> Value {
    json!({"key": key, "operator": "In", "values": [value]})
}

/// A term of these expressions.
fn term(expressions: &[Value]) -> Value {
    json!({"matchExpressions": expressions})
}

/// An affinity that requires one of these terms.
fn one_of(terms: &[Value]) -> Value {
    json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
}
