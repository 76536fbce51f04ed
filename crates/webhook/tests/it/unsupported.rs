// SPDX-License-Identifier: Apache-2.0
//! What cannot work on a virtual node: the author is warned of just what virtual nodes refuse, or denied it.

use serde_json::{Value, json};
use tensile_core::pod::{LinkView, lower_pod};
use webhook::mutate::Policy;
use webhook::pod::Taken;
use webhook::review::{Denial, Verdict};

use super::{on_create, virtual_pod};

fn with(spec: &Value) -> Value {
    let mut pod = virtual_pod(spec);
    pod["metadata"]["name"] = json!("p");
    pod["metadata"]["namespace"] = json!("default");
    pod["metadata"]["uid"] = json!("u");
    pod
}

fn of_owner(kind: &str) -> Value {
    let mut pod = with(&json!({}));
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": "d", "uid": "u", "controller": true}]);
    pod
}

fn host_path() -> Value {
    with(&json!({"volumes": [{"name": "logs", "hostPath": {"path": "/var/log"}}]}))
}

fn pods() -> Vec<Value> {
    vec![
        with(&json!({})),
        of_owner("DaemonSet"),
        of_owner("ReplicaSet"),
        with(&json!({"hostNetwork": true})),
        with(&json!({"hostPID": true})),
        with(&json!({"hostIPC": true})),
        with(&json!({"hostNetwork": false})),
        with(&json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]})),
        with(&json!({"resourceClaims": []})),
        with(&json!({"volumes": [{"name": "data", "emptyDir": {}}, {"name": "all", "configMap": {"name": "c"}}]})),
        host_path(),
    ]
}

#[test]
fn what_virtual_nodes_refuse_is_denied_and_nothing_else() {
    for (host_namespaces, no_host_path) in [(false, false), (true, false), (false, true), (true, true)] {
        let taken = Taken { host_namespaces, no_host_path };
        let strict = Policy { taken, deny_unsupported: true, ..Policy::default() };
        let lenient = Policy { taken, ..Policy::default() };
        let link =
            LinkView { allow_host_namespaces: host_namespaces, refuse_host_path: no_host_path, ..LinkView::default() };
        for pod in pods() {
            let refused = lower_pod(&pod, &link, 1).is_err();
            let denied = matches!(on_create(&pod, &strict), Verdict::Denied(Denial { code: 403, .. }));
            assert_eq!(denied, refused, "{taken:?} {pod}");
            let Verdict::Changed { warnings, .. } = on_create(&pod, &lenient) else { panic!("{pod}") };
            assert!(!refused || !warnings.is_empty(), "{taken:?} {pod}");
        }
    }
}

#[test]
fn each_doubt_is_a_sentence_of_its_own() {
    let mut pod = of_owner("DaemonSet");
    pod["spec"] = json!({
        "hostNetwork": true, "hostPID": true, "hostIPC": true,
        "resourceClaims": [{"name": "gpu"}],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "logs", "hostPath": {"path": "/var/log"}}],
    });
    let refused = [
        "pods of a DaemonSet do not run on virtual nodes",
        "spec.hostNetwork: virtual nodes refuse it",
        "spec.hostPID: virtual nodes refuse it",
        "spec.hostIPC: virtual nodes refuse it",
        "spec.resourceClaims: virtual nodes refuse it, lower nodes cannot serve these claims",
    ];
    let path = "volume \"logs\": hostPath is a path of whichever lower node the pod lands on";
    let Verdict::Changed { warnings, .. } = on_create(&pod, &Policy::default()) else { panic!() };
    assert_eq!(warnings, [&refused[..], &[path]].concat());

    let policy = Policy { deny_unsupported: true, ..Policy::default() };
    let denial = Denial { code: 403, reason: "Forbidden", message: refused.join("; ") };
    assert_eq!(on_create(&pod, &policy), Verdict::Denied(denial));
}

#[test]
fn a_path_of_the_node_is_warned_of_but_not_denied_where_virtual_nodes_take_it() {
    let policy = Policy { deny_unsupported: true, ..Policy::default() };
    let Verdict::Changed { warnings, .. } = on_create(&host_path(), &policy) else { panic!() };
    assert_eq!(warnings.len(), 1);
}
