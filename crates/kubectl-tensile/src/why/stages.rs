// SPDX-License-Identifier: Apache-2.0
//! The path of a pod, from what its clusters say: a stage for each who has a say.

use serde::Serialize;
use serde_json::Value;
use tensile_core::names;

/// One stage of the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Stage {
    /// Who has a say: upper scheduler, virtual node, lower scheduler, lower kubelet.
    #[serde(rename = "stage")]
    pub(super) who: &'static str,
    /// How far it is.
    pub(super) state: State,
    /// In words, mostly theirs.
    pub(super) detail: String,
}

/// How far a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum State {
    /// It is behind the pod.
    Done,
    /// The pod is here.
    Waiting,
    /// The pod does not get further by itself.
    Failed,
    /// The pod has not come here yet, or nobody tells.
    Unknown,
}

/// The path of `pod`, bound to `node` if that exists, with its `lower` pod if that is known.
pub(super) fn stages(pod: &Value, node: Option<&Value>, lower: Option<&Value>) -> Vec<Stage> {
    let stages = [
        ("upper scheduler", upper_scheduler(pod)),
        ("virtual node", virtual_node(pod, node, lower)),
        ("lower scheduler", lower_scheduler(pod, lower)),
        ("lower kubelet", kubelet(pod)),
    ];
    let mut path: Vec<Stage> = Vec::new();
    for (who, (state, detail)) in stages {
        // What comes after a stage that is not passed has not begun.
        let passed = path.iter().all(|stage| stage.state == State::Done);
        let (state, detail) = if passed { (state, detail) } else { (State::Unknown, String::new()) };
        path.push(Stage { who, state, detail });
    }
    path
}

fn upper_scheduler(pod: &Value) -> (State, String) {
    if let Some(node) = text(&pod["spec"]["nodeName"]) {
        return (State::Done, format!("bound to {node}"));
    }
    let gates: Vec<&str> = pod["spec"]["schedulingGates"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|gate| text(&gate["name"]))
        .collect();
    if !gates.is_empty() {
        return (State::Waiting, format!("held back by scheduling gates: {}", gates.join(", ")));
    }
    let scheduler = text(&pod["spec"]["schedulerName"]).unwrap_or("default-scheduler");
    match condition(pod, "PodScheduled", "False") {
        Some(said) => (State::Waiting, format!("{scheduler}: {}", message(said))),
        None => (State::Waiting, format!("{scheduler} has not looked at it yet")),
    }
}

fn virtual_node(pod: &Value, node: Option<&Value>, lower: Option<&Value>) -> (State, String) {
    let name = text(&pod["spec"]["nodeName"]).unwrap_or_default();
    let Some(node) = node else { return (State::Failed, format!("node {name} does not exist any more")) };
    if node["metadata"]["labels"][names::NODE_TYPE] != names::VIRTUAL_KUBELET {
        return (State::Failed, format!("{name} is no virtual node: nothing of this pod is in another cluster"));
    }
    if let Some(refused) = condition(pod, names::ACCEPTED, "False") {
        return (State::Waiting, format!("the lower cluster refuses it: {}", message(refused)));
    }
    if let Some(lower) = lower {
        let of = |member: &str| text(&lower["metadata"][member]).unwrap_or_default();
        return (State::Done, format!("runs below as {}/{}", of("namespace"), of("name")));
    }
    if let Some(ready) = condition(node, "Ready", "False").or_else(|| condition(node, "Ready", "Unknown")) {
        return (State::Waiting, format!("{name} is not ready: {}", message(ready)));
    }
    if text(&pod["status"]["startTime"]).is_some() || condition(pod, names::SCHEDULED, "False").is_some() {
        return (State::Done, "created below".to_owned());
    }
    match waiting(pod).next() {
        Some((container, reason, said)) => (State::Waiting, format!("{container}: {reason}: {said}")),
        None => (State::Waiting, "not created below yet".to_owned()),
    }
}

fn lower_scheduler(pod: &Value, lower: Option<&Value>) -> (State, String) {
    if let Some(node) = lower.and_then(|lower| text(&lower["spec"]["nodeName"])) {
        return (State::Done, format!("on {node}"));
    }
    match condition(pod, names::SCHEDULED, "False") {
        Some(said) => (State::Waiting, message(said).to_owned()),
        None if text(&pod["status"]["startTime"]).is_some() => (State::Done, "a lower node has it".to_owned()),
        None => (State::Waiting, "the lower scheduler has not looked at it yet".to_owned()),
    }
}

fn kubelet(pod: &Value) -> (State, String) {
    let status = &pod["status"];
    match text(&status["phase"]) {
        Some("Succeeded") => return (State::Done, "all containers ended well".to_owned()),
        Some("Failed") => {
            let said = [&status["reason"], &status["message"]].into_iter().filter_map(text).collect::<Vec<_>>();
            let said = if said.is_empty() { "a container failed".to_owned() } else { said.join(": ") };
            return (State::Failed, said);
        }
        _ => {}
    }
    if let Some((container, reason, said)) = waiting(pod).next() {
        let stuck = reason.contains("BackOff") || reason.starts_with("Err") || reason.contains("Error");
        let state = if stuck { State::Failed } else { State::Waiting };
        return (
            state,
            [container, reason, said].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": "),
        );
    }
    match condition(pod, "Ready", "False") {
        Some(said) => (State::Waiting, format!("running, not ready: {}", message(said))),
        None if condition(pod, "Ready", "True").is_some() => (State::Done, "running and ready".to_owned()),
        None => (State::Waiting, "no container has been started yet".to_owned()),
    }
}

/// Containers that wait: name, reason, message.
fn waiting(pod: &Value) -> impl Iterator<Item = (&str, &str, &str)> {
    let lists = ["initContainerStatuses", "containerStatuses"].into_iter();
    let all = lists.flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    all.filter_map(|container| {
        let waiting = &container["state"]["waiting"];
        let reason = text(&waiting["reason"])?;
        Some((text(&container["name"])?, reason, text(&waiting["message"]).unwrap_or_default()))
    })
}

fn condition<'a>(object: &'a Value, kind: &str, is: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind && condition["status"] == is)
}

fn message(condition: &Value) -> &str {
    text(&condition["message"]).or_else(|| text(&condition["reason"])).unwrap_or("no reason given")
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> Value {
        json!({
            "metadata": { "name": "east", "labels": { "type": "virtual-kubelet" } },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        })
    }

    #[allow(clippy::needless_pass_by_value, reason = "made for the call")]
    fn bound(status: Value) -> Value {
        json!({ "spec": { "nodeName": "east" }, "status": status })
    }

    /// The first stage that is not behind the pod.
    fn at(path: &[Stage]) -> Option<(&'static str, State, &str)> {
        let stage = path.iter().find(|stage| stage.state != State::Done)?;
        Some((stage.who, stage.state, &stage.detail))
    }

    #[test]
    fn each_stage_says_what_a_pod_waits_for() {
        let no_room = json!([{ "type": "PodScheduled", "status": "False", "message": "0/3 nodes are available" }]);
        let refused =
            json!([{ "type": "virtual-kubelet.io/Accepted", "status": "False", "message": "exceeded quota" }]);
        let stuck =
            json!([{ "type": "virtual-kubelet.io/Scheduled", "status": "False", "message": "Insufficient cpu" }]);
        let pulls =
            json!([{ "name": "main", "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no" } } }]);
        let lower = json!({ "metadata": { "namespace": "a", "name": "b" }, "spec": { "nodeName": "n1" } });
        let cases = [
            (
                json!({ "spec": {}, "status": { "conditions": no_room } }),
                None,
                ("upper scheduler", State::Waiting, "default-scheduler: 0/3 nodes are available"),
            ),
            (
                json!({ "spec": { "schedulingGates": [{ "name": "quota" }] } }),
                None,
                ("upper scheduler", State::Waiting, "held back by scheduling gates: quota"),
            ),
            (
                bound(json!({ "conditions": refused })),
                None,
                ("virtual node", State::Waiting, "the lower cluster refuses it: exceeded quota"),
            ),
            (bound(json!({})), None, ("virtual node", State::Waiting, "not created below yet")),
            (bound(json!({ "conditions": stuck })), None, ("lower scheduler", State::Waiting, "Insufficient cpu")),
            (
                bound(json!({ "startTime": "2026-01-02T03:04:05Z", "containerStatuses": pulls })),
                Some(&lower),
                ("lower kubelet", State::Failed, "main: ImagePullBackOff: no"),
            ),
            (
                bound(json!({ "phase": "Failed", "reason": "Evicted", "startTime": "t" })),
                Some(&lower),
                ("lower kubelet", State::Failed, "Evicted"),
            ),
        ];
        for (pod, lower, expected) in cases {
            assert_eq!(at(&stages(&pod, Some(&node()), lower)), Some(expected), "{pod}");
        }
    }

    #[test]
    fn a_pod_that_runs_has_every_stage_behind_it() {
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let pod = bound(json!({ "phase": "Running", "startTime": "t", "conditions": ready }));
        let lower = json!({ "metadata": { "namespace": "a", "name": "b" }, "spec": { "nodeName": "n1" } });
        let path = stages(&pod, Some(&node()), Some(&lower));
        let details: Vec<&str> = path.iter().map(|stage| stage.detail.as_str()).collect();
        assert_eq!(details, ["bound to east", "runs below as a/b", "on n1", "running and ready"]);
        assert!(path.iter().all(|stage| stage.state == State::Done));
    }

    #[test]
    fn a_pod_on_an_ordinary_node_is_not_ours() {
        let ordinary = json!({ "metadata": { "name": "east" } });
        let path = stages(&bound(json!({})), Some(&ordinary), None);
        assert_eq!(path[1].state, State::Failed);
        assert!(path[1].detail.contains("is no virtual node"), "{path:?}");
    }
}
