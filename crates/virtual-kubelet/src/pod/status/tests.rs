// SPDX-License-Identifier: Apache-2.0
//! What counts as a difference, and what the patch does to an object.
#![allow(clippy::needless_pass_by_value, reason = "json!(..) as an argument reads best without &")]

use proptest::prelude::*;

use super::*;
use crate::watched::View;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn upper(spec: &Value, status: &Value) -> UpperPod {
    let pod = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": 3}, "spec": spec, "status": status});
    UpperPod::parse(&pod.to_string()).unwrap()
}

fn running() -> Value {
    json!({
        "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}],
        "containerStatuses": [{"name": "c", "ready": true, "restartCount": 0, "state": {"running": {}}}]
    })
}

#[test]
fn what_others_write_makes_no_difference() {
    let mut theirs = running();
    theirs["qosClass"] = json!("Burstable");
    theirs["conditions"].as_array_mut().unwrap().push(json!({"type": "PodScheduled", "status": "True"}));
    theirs["conditions"][0]["lastProbeTime"] = Value::Null;
    theirs["conditions"][0]["observedGeneration"] = json!(9);
    assert_eq!(Shown::of(&map(theirs)).hash, Shown::of(&map(running())).hash);
}

#[test]
fn each_change_of_ours_makes_a_difference() {
    let before = Shown::of(&map(running())).hash;
    for (pointer, value) in [
        ("/phase", json!("Failed")),
        ("/podIP", json!("10.0.0.2")),
        ("/conditions/0/status", json!("False")),
        ("/conditions/0/lastTransitionTime", json!("2026-01-01T00:00:02Z")),
        ("/containerStatuses/0/restartCount", json!(1)),
        ("/containerStatuses/0/ready", json!(false)),
    ] {
        let mut after = running();
        *after.pointer_mut(pointer).unwrap() = value;
        assert_ne!(Shown::of(&map(after)).hash, before, "{pointer}");
    }
}

#[test]
fn a_pod_with_a_start_time_has_started_and_a_pending_one_without_has_not() {
    assert!(Shown::of(&map(json!({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}))).started());
    assert!(!Shown::of(&map(json!({"phase": "Pending"}))).started());
    assert!(Shown::of(&map(json!({"phase": "Running"}))).started());
}

#[test]
fn ready_waits_for_the_gates_upstairs() {
    let gates = json!({"readinessGates": [{"conditionType": "g"}]});
    let waiting = desired(&map(running()), &upper(&gates, &json!({"conditions": []})));
    assert_eq!(waiting["conditions"][0]["status"], "False");
    assert_eq!(waiting["conditions"][0]["reason"], "ReadinessGatesNotReady");
    let passed = upper(&gates, &json!({"conditions": [{"type": "g", "status": "True"}]}));
    assert_eq!(desired(&map(running()), &passed)["conditions"][0]["status"], "True");
}

#[test]
fn conditions_of_others_are_neither_sent_nor_deleted() {
    let mut below = running();
    below["conditions"].as_array_mut().unwrap().push(json!({"type": "PodScheduled", "status": "True"}));
    below["conditions"].as_array_mut().unwrap().push(json!({"type": "example.com/Theirs", "status": "True"}));
    let upper = upper(&json!({}), &json!({}));
    let patch = patch(&desired(&map(below), &upper), &upper, false);
    let named: Vec<&str> =
        patch["status"]["conditions"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    assert_eq!(
        named,
        [
            "Ready",
            "PodResizePending",
            "PodResizeInProgress",
            "AllContainersRestarting",
            "virtual-kubelet.io/Scheduled",
            "virtual-kubelet.io/Accepted"
        ]
    );
}

#[test]
fn the_patch_names_the_uid_and_replaces_lists_of_addresses() {
    let upper = upper(&json!({}), &json!({}));
    let patch = patch(&desired(&map(running()), &upper), &upper, false);
    assert_eq!(patch["metadata"]["uid"], "u");
    assert_eq!(patch["status"]["podIPs"], json!([{"$patch": "replace"}, {"ip": "10.0.0.1"}]));
    assert_eq!(patch["status"]["observedGeneration"], 3);
    assert_eq!(patch["status"]["reason"], Value::Null, "what is gone below is cleared upstairs");
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn an_absent_member_equals_a_null_one(value in json_value(), name in "[A-Z]{1,3}") {
        let mut object = map(json!({"x": value}));
        let before = hash_of(&Value::Object(object.clone()));
        object.insert(name, Value::Null);
        prop_assert_eq!(hash_of(&Value::Object(object)), before);
    }

    #[test]
    fn no_status_of_any_shape_panics(status in json_value()) {
        if let Value::Object(status) = status {
            let upper = upper(&json!({}), &json!({}));
            let _patch = patch(&desired(&status, &upper), &upper, false);
            let _shown = Shown::of(&status);
        }
    }
}
