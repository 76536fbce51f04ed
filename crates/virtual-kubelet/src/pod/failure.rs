//! Statuses that no provider reports: of a pod that it refuses, and of one that it lost.

use serde_json::{Map, Value, json};

use super::{provider::Refused, status::ACCEPTED};

/// Exit code and reason that a kubelet gives a container whose end nobody saw (`pkg/kubelet/kubelet_pods.go`).
const UNSEEN_EXIT_CODE: i64 = 137;
const UNSEEN_REASON: &str = "ContainerStatusUnknown";

/// The status of a pod that the provider does not take: every container waits, with the reason.
pub(crate) fn refused(upper: &Value, refused: &Refused, now: &str) -> Map<String, Value> {
    let waiting = |container: &Value| {
        json!({
            "name": container["name"], "image": container["image"], "imageID": "", "ready": false, "restartCount": 0,
            "started": false, "state": {"waiting": {"reason": refused.reason, "message": refused.message}},
        })
    };
    let mut status = Map::new();
    status.insert("phase".to_owned(), json!("Pending"));
    for (containers, statuses) in [("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")] {
        if let Some(list) = upper["spec"][containers].as_array() {
            status.insert(statuses.to_owned(), list.iter().map(waiting).collect());
        }
    }
    status.insert("conditions".to_owned(), json!([not_accepted(upper, refused, now)]));
    status
}

/// The status of a pod that runs, but of which the provider does not take a change.
pub(crate) fn change_refused(upper: &Value, refused: &Refused, now: &str) -> Map<String, Value> {
    let mut status = upper["status"].as_object().cloned().unwrap_or_default();
    let others = conditions(upper).iter().filter(|condition| condition["type"] != ACCEPTED).cloned();
    let conditions: Value = others.chain([not_accepted(upper, refused, now)]).collect();
    status.insert("conditions".to_owned(), conditions);
    status
}

/// The condition that tells of a refusal; it keeps its time while it stays `False`.
fn not_accepted(upper: &Value, refused: &Refused, now: &str) -> Value {
    let before = conditions(upper).iter().find(|condition| condition["type"] == ACCEPTED);
    let since =
        before.filter(|condition| condition["status"] == "False").map(|condition| &condition["lastTransitionTime"]);
    json!({
        "type": ACCEPTED, "status": "False", "reason": refused.reason, "message": refused.message,
        "lastTransitionTime": since.cloned().unwrap_or_else(|| json!(now)),
    })
}

fn conditions(upper: &Value) -> &[Value] {
    upper["status"]["conditions"].as_array().map_or(&[], Vec::as_slice)
}

/// The last status of a pod that the provider no longer has: containers whose end was seen keep it, all others count
/// as killed. The pod succeeded only if every container was seen to, and none would have been restarted.
pub(crate) fn lost(upper: &Value, reason: &str, message: &str, now: &str) -> Map<String, Value> {
    let mut status = upper["status"].as_object().cloned().unwrap_or_default();
    let ended = |container: &Value| -> Value {
        let mut container = container.clone();
        if container["state"]["terminated"].is_null() {
            container["state"] = json!({"terminated": {
                "exitCode": UNSEEN_EXIT_CODE, "reason": UNSEEN_REASON, "message": message, "finishedAt": now,
                "startedAt": container["state"]["running"]["startedAt"], "containerID": container["containerID"],
            }});
        }
        container["ready"] = json!(false);
        container["started"] = json!(false);
        container
    };
    for statuses in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        if let Some(list) = status.get(statuses).and_then(Value::as_array) {
            let list: Value = list.iter().map(ended).collect();
            status.insert(statuses.to_owned(), list);
        }
    }
    let succeeded = upper["spec"]["restartPolicy"] != "Always"
        && status.get("containerStatuses").and_then(Value::as_array).is_some_and(|list| {
            !list.is_empty() && list.iter().all(|container| container["state"]["terminated"]["exitCode"] == 0)
        });
    if succeeded {
        status.insert("phase".to_owned(), json!("Succeeded"));
    } else {
        status.insert("phase".to_owned(), json!("Failed"));
        status.insert("reason".to_owned(), json!(reason));
        status.insert("message".to_owned(), json!(message));
    }
    let conditions: Value =
        ["Ready", "ContainersReady"].iter().map(|name| not_ready(upper, name, succeeded, now)).collect();
    status.insert("conditions".to_owned(), conditions);
    status
}

fn not_ready(upper: &Value, name: &str, succeeded: bool, now: &str) -> Value {
    let before = conditions(upper).iter().find(|condition| condition["type"] == name);
    let since =
        before.filter(|condition| condition["status"] == "False").map(|condition| &condition["lastTransitionTime"]);
    json!({
        "type": name, "status": "False", "reason": if succeeded { "PodCompleted" } else { "PodFailed" },
        "lastTransitionTime": since.cloned().unwrap_or_else(|| json!(now)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn a_refused_pod_waits_with_the_backends_own_words() {
        let upper = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        let no = Refused { reason: "QuotaExceeded", message: "exceeded quota: team-a".to_owned() };
        let status = refused(&upper, &no, NOW);
        assert_eq!(status["phase"], "Pending");
        assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["message"], "exceeded quota: team-a");
        assert_eq!(status["conditions"][0]["status"], "False");
        assert!(!status.contains_key("startTime"), "it has not started");
    }

    #[test]
    fn a_refusal_that_goes_on_keeps_the_time_it_began() {
        let upper = json!({"status": {"conditions": [
            {"type": ACCEPTED, "status": "False", "lastTransitionTime": "2025-01-01T00:00:00Z"}]}});
        let no = Refused { reason: "X", message: String::new() };
        assert_eq!(not_accepted(&upper, &no, NOW)["lastTransitionTime"], "2025-01-01T00:00:00Z");
    }

    #[test]
    fn a_lost_pod_that_was_running_has_failed() {
        let upper = json!({"spec": {"restartPolicy": "Always"}, "status": {"phase": "Running", "startTime": "t",
            "containerStatuses": [{"name": "c", "ready": true, "state": {"running": {"startedAt": "s"}}}]}});
        let status = lost(&upper, "PodLost", "gone", NOW);
        assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("PodLost")));
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 137);
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["startedAt"], "s");
        assert_eq!(status["containerStatuses"][0]["ready"], false);
        assert_eq!(status["startTime"], "t");
    }

    #[test]
    fn a_lost_pod_whose_containers_were_all_seen_to_succeed_has_succeeded_unless_they_restart() {
        for (policy, phase) in [("Never", "Succeeded"), ("OnFailure", "Succeeded"), ("Always", "Failed")] {
            let upper = json!({"spec": {"restartPolicy": policy}, "status": {"containerStatuses": [
                {"name": "c", "state": {"terminated": {"exitCode": 0}}}]}});
            assert_eq!(lost(&upper, "PodLost", "gone", NOW)["phase"], phase, "{policy}");
        }
    }
}
