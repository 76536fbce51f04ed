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
        upper_status(&lower_status(), &view),
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
        upper_status(&lower_status(), &StatusView { host_ip: "", show_pod_ips: false, foreign_containers: &[] });
    for member in ["podIP", "podIPs", "hostIP", "hostIPs"] {
        assert_eq!(status.get(member), None, "{member}");
    }
    assert_eq!(status["containerStatuses"].as_array().unwrap().len(), 2);
}

#[test]
fn a_pod_that_no_lower_kubelet_has_taken_in_has_no_host_yet() {
    let view = StatusView { host_ip: "10.0.0.1", show_pod_ips: true, foreign_containers: &[] };
    let unscheduled = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]});
    assert_eq!(upper_status(&unscheduled, &view), json!({"phase": "Pending", "conditions": []}));
}
