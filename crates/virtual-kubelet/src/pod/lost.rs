// SPDX-License-Identifier: Apache-2.0
//! The last status of a pod that its provider lost: nobody will report how it ended.

use serde_json::{Map, Value, json};

/// What a container exits with that was killed: its real exit code is lost (Kubernetes
/// `pkg/kubelet/status/status_manager.go`, `TerminatePod`).
const LOST: i64 = 137;

/// The last status of `upper` after the provider lost it, from the status it shows.
///
/// It succeeded if all its containers were seen to succeed and none would
/// have been started again; else it failed for `reason`, so that its controller replaces it. Containers whose end was not
/// seen count as killed for `reason`. `now` is RFC 3339.
pub(crate) fn lost(upper: &Value, reason: &str, message: &str, now: &str) -> Map<String, Value> {
    let last = upper["status"].as_object().cloned().unwrap_or_default();
    let spec = &upper["spec"];
    let succeeded = succeeded(spec, &last);

    let mut status = last.clone();
    status.insert("phase".to_owned(), json!(if succeeded { "Succeeded" } else { "Failed" }));
    if !succeeded {
        status.insert("reason".to_owned(), json!(reason));
        status.insert("message".to_owned(), json!(message));
    }
    for (list, statuses) in [
        ("initContainers", "initContainerStatuses"),
        ("containers", "containerStatuses"),
        ("ephemeralContainers", "ephemeralContainerStatuses"),
    ] {
        let ended: Vec<Value> = names(spec, list)
            .map(|(name, image)| ended(seen(&last, statuses, name), name, image, reason, message, now))
            .collect();
        if !ended.is_empty() {
            status.insert(statuses.to_owned(), Value::Array(ended));
        }
    }
    status.insert("conditions".to_owned(), Value::Array(conditions(&status, succeeded, now)));
    status
}

/// Whether every container ran to its end, with success, under a policy that lets it rest.
fn succeeded(spec: &Value, last: &Map<String, Value>) -> bool {
    let policy = |owner: &Value| owner.get("restartPolicy").and_then(Value::as_str).map(str::to_owned);
    let of_pod = policy(spec).unwrap_or_else(|| "Always".to_owned());
    let containers = list(spec, "containers");
    !containers.is_empty()
        && containers.iter().all(|container| {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let code = seen(last, "containerStatuses", name)
                .and_then(|status| status["state"]["terminated"]["exitCode"].as_i64());
            code == Some(0) && policy(container).unwrap_or_else(|| of_pod.clone()) != "Always"
        })
}

/// The status of a container that runs no more.
fn ended(seen: Option<&Value>, name: &str, image: &str, reason: &str, message: &str, now: &str) -> Value {
    let fresh = || json!({"name": name, "image": image, "imageID": "", "restartCount": 0});
    let mut status = seen.filter(|status| status.is_object()).cloned().unwrap_or_else(fresh);
    if status["state"]["terminated"].is_null() {
        let mut terminated = json!({"exitCode": LOST, "reason": reason, "message": message, "finishedAt": now});
        for (member, value) in
            [("startedAt", &status["state"]["running"]["startedAt"]), ("containerID", &status["containerID"])]
        {
            if !value.is_null() {
                terminated[member] = value.clone();
            }
        }
        status["state"] = json!({"terminated": terminated});
    }
    status["ready"] = json!(false);
    status["started"] = json!(false);
    status
}

/// The conditions of a pod that has ended (Kubernetes `pkg/kubelet/status/generate.go`).
fn conditions(status: &Map<String, Value>, succeeded: bool, now: &str) -> Vec<Value> {
    let reason = if succeeded { "PodCompleted" } else { "PodFailed" };
    let before = status.get("conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let find = |kind: &str| before.iter().find(|condition| condition["type"] == kind);
    let mut conditions: Vec<Value> = before
        .iter()
        .filter(|condition| condition["type"] == "DisruptionTarget" || condition["type"] == "Initialized")
        .cloned()
        .collect();
    for kind in ["Ready", "ContainersReady", "PodReadyToStartContainers"] {
        let since = find(kind)
            .filter(|condition| condition["status"] == "False")
            .map(|condition| &condition["lastTransitionTime"]);
        let mut condition = json!({
            "type": kind,
            "status": "False",
            "lastTransitionTime": since.and_then(Value::as_str).unwrap_or(now),
        });
        if kind != "PodReadyToStartContainers" {
            condition["reason"] = json!(reason);
        }
        conditions.push(condition);
    }
    conditions
}

fn seen<'a>(last: &'a Map<String, Value>, statuses: &str, name: &str) -> Option<&'a Value> {
    last.get(statuses)?.as_array()?.iter().find(|status| status["name"] == name)
}

fn names<'a>(spec: &'a Value, containers: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    list(spec, containers).iter().filter_map(|container| {
        Some((container.get("name")?.as_str()?, container.get("image").and_then(Value::as_str).unwrap_or_default()))
    })
}

fn list<'a>(spec: &'a Value, name: &str) -> &'a [Value] {
    spec.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-03-01T12:00:00Z";

    fn running(policy: &str) -> Value {
        json!({"spec": {"restartPolicy": policy, "containers": [{"name": "main", "image": "web:1"}]}, "status": {
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
        }})
    }

    #[test]
    fn a_vanished_pod_that_was_running_has_failed_for_the_reason() {
        let status = lost(&running("Always"), "PodLost", "deleted below", NOW);
        assert_eq!(
            Value::Object(status),
            json!({
                "phase": "Failed", "reason": "PodLost", "message": "deleted below", "podIP": "10.1.0.9",
                "qosClass": "Burstable",
                "conditions": [
                    {"type": "Initialized", "status": "True"},
                    {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
                    {"type": "Ready", "status": "False", "reason": "PodFailed", "lastTransitionTime": NOW},
                    {"type": "ContainersReady", "status": "False", "reason": "PodFailed", "lastTransitionTime": "2026-03-01T11:30:00Z"},
                    {"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": NOW},
                ],
                "containerStatuses": [{"name": "main", "image": "web:1", "containerID": "cri://1", "ready": false, "started": false,
                    "restartCount": 2, "state": {"terminated": {"exitCode": 137, "reason": "PodLost",
                        "message": "deleted below", "startedAt": "2026-03-01T11:00:04Z", "finishedAt": NOW, "containerID": "cri://1"}}}],
            })
        );
    }

    #[test]
    fn a_pod_nothing_was_seen_of_has_a_status_for_every_container() {
        let pod =
            json!({"spec": {"containers": [{"name": "main"}], "initContainers": [{"name": "init", "image": "i"}]}});
        let status = lost(&pod, "PodLost", "", NOW);
        assert_eq!(status["phase"], "Failed");
        for list in ["initContainerStatuses", "containerStatuses"] {
            assert_eq!(status[list][0]["state"]["terminated"]["exitCode"], 137, "{list}");
            assert_eq!(status[list][0]["imageID"], "");
        }
    }

    #[test]
    fn a_pod_without_containers_cannot_have_succeeded() {
        let status = lost(&json!({"spec": {"restartPolicy": "Never"}}), "PodLost", "", NOW);
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
            let mut pod = running(policy);
            if let Some(policy) = of_container {
                pod["spec"]["containers"][0]["restartPolicy"] = json!(policy);
            }
            pod["status"]["containerStatuses"][0]["state"] =
                json!({"terminated": {"exitCode": code, "reason": "Seen"}});
            let status = lost(&pod, "PodLost", "", NOW);
            assert_eq!(status["phase"], phase, "{policy} {of_container:?} {code}");
            assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["reason"], "Seen");
            assert_eq!(status.get("reason").is_none(), phase == "Succeeded");
        }
    }
}
