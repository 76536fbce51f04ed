// SPDX-License-Identifier: Apache-2.0
//! Tests of translation: what they share.

mod following;
mod going_down;
mod identity;
mod properties;
mod reference;
mod referring;
mod reporting;

use serde_json::{Value, json};

use super::{LinkView, LowerPod, Refusal, lower_pod};

/// A virtual node of cluster `east`.
fn link() -> LinkView {
    LinkView {
        upper_cluster: "5e8e7a2c".to_owned(),
        virtual_node: "east".to_owned(),
        node_labels: [("clusterID".to_owned(), "east".to_owned())].into(),
        ignored_labels: vec!["gang".to_owned()],
        provider_taint_key: "virtual-kubelet.io/provider".to_owned(),
        ..LinkView::default()
    }
}

/// A pod as an upper API server has it, in namespace `team`, with one container `main`.
fn upper() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-0", "namespace": "team", "uid": "upper-uid", "resourceVersion": "77", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"}, "annotations": {"note": "kept"},
        },
        "spec": {
            "nodeName": "east", "restartPolicy": "Always", "schedulerName": "default-scheduler", "priority": 0,
            "serviceAccountName": "robot", "serviceAccount": "robot", "enableServiceLinks": true,
            "containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    })
}

/// [`upper`] with the member at `pointer` set.
fn upper_with(pointer: &str, value: Value) -> Value {
    let mut pod = upper();
    set(&mut pod, pointer, value);
    pod
}

/// Sets the member at a JSON pointer, making objects on the way.
fn set(value: &mut Value, pointer: &str, new: Value) {
    let mut place = value;
    for step in pointer.split('/').skip(1) {
        place = match step.parse::<usize>() {
            Ok(index) if place.is_array() => &mut place[index],
            _ => &mut place[step.replace("~1", "/")],
        };
    }
    *place = new;
}

fn down(upper: &Value) -> LowerPod {
    lower_pod(upper, &link(), 7).unwrap()
}

fn refused(upper: &Value) -> Refusal {
    lower_pod(upper, &link(), 7).unwrap_err()
}
