//! The last status of a pod whose lower copy vanished.

use serde_json::{Map, Value, json};

use super::{NOTHING, status};

/// What a container exits with that was killed: its real exit code is lost (Kubernetes
/// `pkg/kubelet/status/status_manager.go`, `TerminatePod`).
const LOST: i64 = 137;

/// The last status of `upper` after its lower pod vanished, from the `last` status that was seen of it.
///
/// A pod that had finished stays as it finished. It succeeded if all its containers were seen to succeed and none would
/// have been started again; else it failed for `reason`, so that its controller replaces it. Containers whose end was not
/// seen count as killed for `reason`. `now` is RFC 3339.
#[must_use]
pub fn gone_status(last: Option<&Value>, upper: &Value, reason: &str, message: &str, now: &str) -> Value {
    let last = last.and_then(Value::as_object).unwrap_or(&NOTHING);
    if matches!(last.get("phase").and_then(Value::as_str), Some("Succeeded" | "Failed")) {
        return Value::Object(last.clone());
    }
    let spec = upper.get("spec").unwrap_or(&Value::Null);
    let succeeded = succeeded(spec, last);

    let mut status = status::written_by_kubelet(last);
    for member in ["podIP", "podIPs", "hostIP", "hostIPs"] {
        if let Some(address) = last.get(member) {
            status.insert(member.to_owned(), address.clone());
        }
    }
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
            .map(|(name, image)| ended(seen(last, statuses, name), name, image, reason, message, now))
            .collect();
        if !ended.is_empty() {
            status.insert(statuses.to_owned(), Value::Array(ended));
        }
    }
    status.insert("conditions".to_owned(), Value::Array(conditions(&status, succeeded, now)));
    Value::Object(status)
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
