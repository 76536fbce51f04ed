// SPDX-License-Identifier: Apache-2.0
//! The status of a pod that its provider refuses.

use serde_json::{Map, Value, json};

use super::{provider::Refused, status::ACCEPTED};

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
}
