// SPDX-License-Identifier: Apache-2.0
//! A cluster made of JSON, for tests.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{Answer, Change, Cluster, Gain, Kind, Question, Unknown};

/// Brings in an object.
pub(super) fn see(cluster: &mut Cluster, kind: Kind, object: &Value) -> Gain {
    cluster.apply(Change::Seen(kind.decode(&object.to_string()).unwrap()))
}

/// Takes an object away.
pub(super) fn lose(cluster: &mut Cluster, kind: Kind, object: &Value) -> Gain {
    cluster.apply(Change::Gone(kind.decode(&object.to_string()).unwrap()))
}

/// A cluster with these objects.
pub(super) fn cluster(objects: &[(Kind, Value)]) -> Cluster {
    let mut cluster = Cluster::default();
    for (kind, object) in objects {
        see(&mut cluster, *kind, object);
    }
    cluster
}

/// A node with 4 CPUs, 8 GiB and room for 10 pods, its name as a label, and more of `with` in it.
pub(super) fn node(name: &str, with: Value) -> (Kind, Value) {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    });
    merge(&mut node, with);
    (Kind::Node, node)
}

/// A pod of namespace `n` on a node, with `spec`.
pub(super) fn on(node: &str, name: &str, labels: Value, spec: Value) -> (Kind, Value) {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": labels},
        "spec": {"nodeName": node}, "status": {"phase": "Running"},
    });
    merge(&mut pod["spec"], spec);
    (Kind::Pod, pod)
}

/// One container that requests this.
pub(super) fn requests(requests: Value) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": requests}}]})
}

/// The question for a pod of namespace `n` with `spec`.
pub(super) fn question(labels: Value, spec: Value) -> Question {
    let pod = json!({"metadata": {"name": "new", "namespace": "n", "labels": labels}, "spec": spec});
    Question::of_lower(&pod, Unknown::Deny).unwrap()
}

/// The question for a pod of namespace `n` that requests this, for several pods.
pub(super) fn shared(amounts: Value) -> Arc<Question> {
    Arc::new(question(json!({}), requests(amounts)))
}

/// On which of these nodes the pod fits: it is asked about each alone.
pub(super) fn fitting(cluster: &Cluster, nodes: &[&str], labels: Value, spec: Value) -> Vec<String> {
    let fits = |node: &&&str| {
        let mut spec = spec.clone();
        spec["nodeName"] = json!(node);
        cluster.ask(&question(labels.clone(), spec)).fits()
    };
    nodes.iter().filter(fits).map(|node| (*node).to_owned()).collect()
}

/// Why it fits nowhere, and whether that can change.
pub(super) fn why(cluster: &Cluster, question: &Question) -> (String, bool) {
    match cluster.ask(question) {
        Answer::Refused { resolvable, why } => (why.to_string(), resolvable),
        Answer::Fits { node } => panic!("it fits on {node}"),
    }
}

/// Puts `more` into `value`, member by member.
pub(super) fn merge(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Object(known), Value::Object(more)) => {
            for (name, member) in more {
                merge(known.entry(name).or_insert(Value::Null), member);
            }
        }
        (value, more) => *value = more,
    }
}
