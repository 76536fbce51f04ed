//! The webhook as an API server sees it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy sees only functions marked #[test] as tests"
)]

mod decisions;
mod http;
mod https;
mod properties;

use serde_json::{Value, json};
use webhook::mutate::{Policy, decide};
use webhook::review::{Operation, Review, Verdict};

/// The review of this operation on this pod.
fn review(operation: &str, namespace: &str, pod: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace, "operation": operation, "object": pod,
        },
    })
}

fn verdict_on(review: &Value, policy: &Policy) -> Verdict {
    let body = review.to_string();
    decide(&Review::read(body.as_bytes()).unwrap().request, policy)
}

/// What is decided on a pod that is created in namespace `default`.
fn on_create(pod: &Value, policy: &Policy) -> Verdict {
    verdict_on(&review("CREATE", "default", pod), policy)
}

/// The pod as the API server makes it from the verdict, by the rules of RFC 6902 for the two operations in use.
fn patched(pod: &Value, verdict: &Verdict) -> Value {
    let Verdict::Changed { patch, .. } = verdict else { panic!("{verdict:?}") };
    let mut pod = pod.clone();
    for operation in patch {
        let (Operation::Add { path, .. } | Operation::Remove { path }) = operation;
        let (parent, name) = path.rsplit_once('/').unwrap();
        let parent = pod.pointer_mut(parent).expect("the parent must exist").as_object_mut().unwrap();
        match operation {
            Operation::Add { value, .. } => drop(parent.insert(name.to_owned(), value.clone())),
            Operation::Remove { .. } => drop(parent.remove(name).expect("what is removed must exist")),
        }
    }
    pod
}

/// A pod that opts in, with this spec.
fn virtual_pod(spec: &Value) -> Value {
    json!({"metadata": {"generateName": "p-", "labels": {"virtual-pod": "true"}}, "spec": spec})
}
