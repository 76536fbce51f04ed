//! Status on its way up, and at its end.

use serde_json::{Value, json};

use super::upper;
use crate::pod::{StatusView, gone_status, upper_status};

const NOW: &str = "2026-03-01T12:00:00Z";

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

fn running(policy: &str) -> (Value, Value) {
    let mut pod = upper();
    pod["spec"]["restartPolicy"] = json!(policy);
    let last = json!({
        "phase": "Running", "podIP": "10.1.0.9", "qosClass": "Burstable",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T11:00:05Z"},
            {"type": "ContainersReady", "status": "False", "lastTransitionTime": "2026-03-01T11:30:00Z"},
            {"type": "PodScheduled", "status": "True"},
            {"type": "Initialized", "status": "True"},
            {"type": "PodResizeInProgress", "status": "True"},
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
        ],
        "containerStatuses": [{"name": "main", "image": "web:1", "containerID": "cri://1", "ready": true, "restartCount": 2,
            "state": {"running": {"startedAt": "2026-03-01T11:00:04Z"}}}],
    });
    (pod, last)
}

#[test]
fn a_vanished_pod_that_was_running_has_failed_for_the_reason() {
    let (pod, last) = running("Always");
    let status = gone_status(Some(&last), &pod, "LowerPodDeleted", "deleted below", NOW);
    assert_eq!(
        status,
        json!({
            "phase": "Failed", "reason": "LowerPodDeleted", "message": "deleted below", "podIP": "10.1.0.9",
            "conditions": [
                {"type": "Initialized", "status": "True"},
                {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
                {"type": "Ready", "status": "False", "reason": "PodFailed", "lastTransitionTime": NOW},
                {"type": "ContainersReady", "status": "False", "reason": "PodFailed", "lastTransitionTime": "2026-03-01T11:30:00Z"},
                {"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": NOW},
            ],
            "containerStatuses": [{"name": "main", "image": "web:1", "containerID": "cri://1", "ready": false, "started": false,
                "restartCount": 2, "state": {"terminated": {"exitCode": 137, "reason": "LowerPodDeleted",
                    "message": "deleted below", "startedAt": "2026-03-01T11:00:04Z", "finishedAt": NOW, "containerID": "cri://1"}}}],
        })
    );
}

#[test]
fn a_pod_nothing_was_seen_of_has_a_status_for_every_container() {
    let mut pod = upper();
    pod["spec"]["initContainers"] = json!([{"name": "init", "image": "i"}]);
    let status = gone_status(None, &pod, "LowerPodDeleted", "", NOW);
    assert_eq!(status["phase"], "Failed");
    for list in ["initContainerStatuses", "containerStatuses"] {
        assert_eq!(status[list][0]["state"]["terminated"]["exitCode"], 137, "{list}");
        assert_eq!(status[list][0]["imageID"], "");
    }
}

#[test]
fn a_pod_without_containers_cannot_have_succeeded() {
    let status = gone_status(None, &json!({"spec": {"restartPolicy": "Never"}}), "LowerPodDeleted", "", NOW);
    assert_eq!(status["phase"], "Failed");
}

#[test]
fn how_a_vanished_pod_ended_follows_from_exit_codes_and_restart_policy() {
    for (policy, of_container, code, phase) in [
        ("Never", None, 0, "Succeeded"),
        ("OnFailure", None, 0, "Succeeded"),
        ("Always", None, 0, "Failed"),
        ("Never", None, 1, "Failed"),
        ("OnFailure", None, 1, "Failed"),
        ("Never", Some("Always"), 0, "Failed"),
        ("Always", Some("Never"), 0, "Succeeded"),
    ] {
        let (mut pod, mut last) = running(policy);
        if let Some(policy) = of_container {
            pod["spec"]["containers"][0]["restartPolicy"] = json!(policy);
        }
        last["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": code, "reason": "Seen"}});
        let status = gone_status(Some(&last), &pod, "LowerPodDeleted", "", NOW);
        assert_eq!(status["phase"], phase, "{policy} {of_container:?} {code}");
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["reason"], "Seen");
        assert_eq!(status.get("reason").is_none(), phase == "Succeeded");
    }
}

#[test]
fn a_finished_pod_stays_as_it_finished() {
    for phase in ["Succeeded", "Failed"] {
        let (pod, mut last) = running("Never");
        last["phase"] = json!(phase);
        assert_eq!(gone_status(Some(&last), &pod, "LowerPodDeleted", "", NOW), last);
    }
}
