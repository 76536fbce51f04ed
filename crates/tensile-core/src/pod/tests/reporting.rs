// SPDX-License-Identifier: Apache-2.0
//! Status on its way up.

use serde_json::{Value, json};

use crate::pod::{StatusView, upper_status};

fn lower_status() -> Value {
    json!({
        "phase": "Running", "qosClass": "Guaranteed", "nominatedNodeName": "n", "observedGeneration": 4,
        "startTime": "2026-03-01T11:00:00Z", "hostIP": "192.168.0.4", "hostIPs": [{"ip": "192.168.0.4"}],
        "podIP": "10.1.0.9", "podIPs": [{"ip": "10.1.0.9"}, {"ip": "fd00::9"}],
        "resourceClaimStatuses": [{"name": "c"}],
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "True", "observedGeneration": 4, "lastTransitionTime": "2026-03-01T11:00:05Z"},
            {"type": "example.com/Gate", "status": "True"},
            {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "wait"},
            {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"},
        ],
        "containerStatuses": [
            {"name": "main", "ready": true, "restartCount": 3, "state": {"running": {"startedAt": "2026-03-01T11:00:04Z"}},
             "lastState": {"terminated": {"exitCode": 1}}, "futureField": 1},
            {"name": "mesh", "ready": true, "restartCount": 0},
        ],
        "initContainerStatuses": [{"name": "init", "restartCount": 0}],
    })
}

#[test]
fn the_upper_status_is_the_kubelets_part_of_the_lower_one() {
    let view = StatusView { host_ip: "10.0.0.1", show_pod_ips: true, foreign_containers: &["mesh".to_owned()] };
    assert_eq!(
        upper_status(lower_status(), &view),
        json!({
            "phase": "Running", "startTime": "2026-03-01T11:00:00Z",
            "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}],
            "podIP": "10.1.0.9", "podIPs": [{"ip": "10.1.0.9"}, {"ip": "fd00::9"}],
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T11:00:05Z"},
                {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "wait"},
                {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"},
            ],
            "containerStatuses": [
                {"name": "main", "ready": true, "restartCount": 3, "state": {"running": {"startedAt": "2026-03-01T11:00:04Z"}},
                 "lastState": {"terminated": {"exitCode": 1}}, "futureField": 1},
            ],
            "initContainerStatuses": [{"name": "init", "restartCount": 0}],
        })
    );
}

#[test]
fn addresses_that_cannot_be_reached_are_not_shown() {
    let status =
        upper_status(lower_status(), &StatusView { host_ip: "", show_pod_ips: false, foreign_containers: &[] });
    for member in ["podIP", "podIPs", "hostIP", "hostIPs"] {
        assert_eq!(status.get(member), None, "{member}");
    }
    assert_eq!(status["containerStatuses"].as_array().unwrap().len(), 2);
}

#[test]
fn a_pod_that_no_lower_kubelet_has_taken_in_has_no_host_yet() {
    let view = StatusView { host_ip: "10.0.0.1", show_pod_ips: true, foreign_containers: &[] };
    let bound = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]});
    assert_eq!(upper_status(bound, &view), json!({"phase": "Pending", "conditions": []}));
}

#[test]
fn that_the_lower_scheduler_finds_no_node_is_told_in_its_own_words_and_since_when() {
    let told = json!({"status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available",
        "lastTransitionTime": "2026-03-01T11:00:00Z"});
    let (mut below, mut above) = (told.clone(), told);
    below["type"] = json!("PodScheduled");
    below["observedGeneration"] = json!(1);
    below["lastProbeTime"] = json!(null);
    above["type"] = json!("virtual-kubelet.io/Scheduled");
    let status = upper_status(json!({"phase": "Pending", "conditions": [below]}), &StatusView::default());
    assert_eq!(status, json!({"phase": "Pending", "conditions": [above]}));
}
