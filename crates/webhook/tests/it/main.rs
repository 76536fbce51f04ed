// SPDX-License-Identifier: Apache-2.0
//! The webhook as an API server sees it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy sees only functions marked #[test] as tests"
)]

mod decisions;
mod exclusions;
mod fuzz;
mod http;
mod https;
mod migration;
mod properties;
mod selected;
mod tensile_kube;
mod unsupported;

use std::sync::LazyLock;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tensile_core::exclusion::Exclusions;
use webhook::mutate::{Known, Policy, decide};
use webhook::review::{Review, Verdict};
use webhook::selected_node::SelectedNodes;

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

/// An upper cluster of which nothing is known.
fn unknown() -> Known<'static> {
    static NONE: LazyLock<Exclusions> = LazyLock::new(Exclusions::default);
    static NOWHERE: LazyLock<SelectedNodes> = LazyLock::new(SelectedNodes::default);
    Known { exclusions: &NONE, selected: &NOWHERE, now: Timestamp::UNIX_EPOCH }
}

fn verdict_on(review: &Value, policy: &Policy) -> Verdict {
    let body = review.to_string();
    decide(&Review::read(body.as_bytes()).unwrap().request, policy, unknown())
}

/// What is decided on a pod that is created in namespace `default`.
fn on_create(pod: &Value, policy: &Policy) -> Verdict {
    verdict_on(&review("CREATE", "default", pod), policy)
}

/// The body that answers the review of this pod's creation.
fn answer_on_create(pod: &Value, policy: &Policy, known: Known<'_>) -> Vec<u8> {
    let body = review("CREATE", "default", pod).to_string();
    let review = Review::read(body.as_bytes()).unwrap();
    review.answer(&decide(&review.request, policy, known)).unwrap()
}

/// The object as an API server makes it from the answer.
fn patched(object: &Value, answer: &[u8]) -> Value {
    let answer: Value = serde_json::from_slice(answer).unwrap();
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    let mut object = object.clone();
    if let Some(patch) = answer["response"].get("patch") {
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        let ByteString(patch) = serde_json::from_value(patch.clone()).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
    }
    object
}

/// The pod as it is stored when it is created in namespace `default`.
fn admitted(pod: &Value, policy: &Policy) -> Value {
    patched(pod, &answer_on_create(pod, policy, unknown()))
}

/// A pod that opts in, with this spec.
fn virtual_pod(spec: &Value) -> Value {
    json!({"metadata": {"generateName": "p-", "labels": {"virtual-pod": "true"}}, "spec": spec})
}
