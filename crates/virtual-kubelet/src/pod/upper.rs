// SPDX-License-Identifier: Apache-2.0
//! The digest of a pod upstairs: what decisions about it need, and no more.

use std::{borrow::Cow, hash::Hasher};

use fnv::FnvHasher;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{PodId, status::Shown};
use crate::watched::{View, Watched};

/// A pod upstairs.
#[derive(Clone, Debug)]
pub(crate) struct UpperPod {
    pub(crate) id: PodId,
    /// Orders versions of one object. The API server promises comparable numbers since 1.35 and has always used them.
    pub(crate) resource_version: u64,
    pub(crate) generation: i64,
    /// The node it is bound to.
    pub(crate) node: Option<Box<str>>,
    /// Changes with whatever a running pod can take over.
    pub(crate) revision: u64,
    /// The grace period, in seconds, when it is being deleted.
    pub(crate) deleting: Option<i64>,
    /// Somebody watches its end (a Job counts its pods this way): the last status must be reported before it goes.
    pub(crate) finalizers: bool,
    /// Its status, as far as it is ours to write.
    pub(crate) shown: Shown,
    /// What its readiness gates say, when it has any.
    pub(crate) gates: Gates,
}

/// Readiness gates: conditions that others set upstairs and that `Ready` has to wait for (KEP-580).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gates {
    /// The pod has none.
    None,
    /// All are `True`.
    Passed,
    /// The kubelet's sentence about those that are not.
    Waiting(Box<str>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    #[serde(default)]
    generation: i64,
    #[serde(borrow)]
    deletion_timestamp: Option<&'a RawValue>,
    deletion_grace_period_seconds: Option<i64>,
    #[serde(borrow)]
    finalizers: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

/// The part of a spec that matters here. What may change after creation (`ValidatePodUpdate`, `ValidatePodResize`,
/// `ValidatePodEphemeralContainersUpdate`) stays text: that it differs matters, its meaning does not.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    node_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    readiness_gates: Vec<Gate<'a>>,
    #[serde(borrow, default)]
    containers: Vec<Container<'a>>,
    #[serde(borrow, default)]
    init_containers: Vec<Container<'a>>,
    #[serde(borrow)]
    ephemeral_containers: Option<&'a RawValue>,
    #[serde(borrow)]
    tolerations: Option<&'a RawValue>,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
    #[serde(borrow)]
    active_deadline_seconds: Option<&'a RawValue>,
    #[serde(borrow)]
    termination_grace_period_seconds: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gate<'a> {
    #[serde(borrow)]
    condition_type: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Container<'a> {
    #[serde(borrow)]
    image: Option<&'a RawValue>,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
}

impl View for UpperPod {
    type Kind = Pod;

    fn parse(raw: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            metadata: Meta<'a>,
            #[serde(borrow)]
            spec: Spec<'a>,
            #[serde(default)]
            status: serde_json::Map<String, serde_json::Value>,
        }
        let Object { metadata: meta, spec, status } = serde_json::from_str(raw)?;
        let gates: Vec<&str> = spec.readiness_gates.iter().map(|gate| gate.condition_type.as_ref()).collect();
        Ok(Self {
            id: PodId::new(&meta.namespace, &meta.name, &meta.uid),
            resource_version: meta.resource_version.parse().unwrap_or_default(),
            generation: meta.generation,
            revision: revision(&meta, &spec),
            deleting: meta.deletion_timestamp.map(|_| meta.deletion_grace_period_seconds.unwrap_or_default()),
            finalizers: meta.finalizers.is_some_and(|finalizers| !finalizers.is_empty()),
            gates: Gates::read(&gates, &status),
            shown: Shown::of(&status),
            node: spec.node_name.map(Into::into),
        })
    }
}

impl Gates {
    /// Kubernetes `pkg/kubelet/status/generate.go`, `GeneratePodReadyCondition`.
    fn read(gates: &[&str], status: &serde_json::Map<String, serde_json::Value>) -> Self {
        if gates.is_empty() {
            return Self::None;
        }
        let conditions = status.get("conditions").and_then(serde_json::Value::as_array);
        let waiting: Vec<String> = gates
            .iter()
            .filter_map(|gate| {
                let found = conditions?.iter().find(|condition| condition["type"] == *gate);
                match found.and_then(|condition| condition["status"].as_str()) {
                    Some("True") => None,
                    Some(other) => {
                        Some(format!("the status of pod readiness gate \"{gate}\" is not \"True\", but {other}"))
                    }
                    None => Some(format!("corresponding condition of pod readiness gate \"{gate}\" does not exist.")),
                }
            })
            .collect();
        match (conditions, waiting.is_empty()) {
            (Some(_), true) => Self::Passed,
            (Some(_), false) => Self::Waiting(waiting.join(", ").into()),
            (None, _) => Self::Waiting("the pod has no conditions yet".into()),
        }
    }
}

/// A number for the text of everything that a running pod can take over. FNV: it is written into clusters and must
/// mean the same to the next build.
fn revision(meta: &Meta<'_>, spec: &Spec<'_>) -> u64 {
    let mut hasher = FnvHasher::default();
    let mut add = |text: Option<&RawValue>| {
        hasher.write(text.map_or("", RawValue::get).as_bytes());
        hasher.write_u8(0);
    };
    add(meta.labels);
    add(meta.annotations);
    for container in spec.init_containers.iter().chain(&spec.containers) {
        add(container.image);
        add(container.resources);
    }
    add(spec.ephemeral_containers);
    add(spec.tolerations);
    add(spec.resources);
    add(spec.active_deadline_seconds);
    add(spec.termination_grace_period_seconds);
    hasher.finish()
}

/// Takes an upper pod from a watch or an answer apart.
pub(crate) fn digest(object: Watched<UpperPod>) -> Option<(UpperPod, Box<RawValue>)> {
    match object.view {
        Ok(pod) => Some((pod, object.raw)),
        Err(malformed) => {
            tracing::error!(error = %malformed, "an object was passed over");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(labels: &str, spec: &str, status: &str) -> UpperPod {
        let text = format!(
            r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u","resourceVersion":"12","generation":2,"labels":{labels}}},
                "spec":{{"nodeName":"v","containers":[{{"name":"c","image":"i:1","resources":{{}}}}]{spec}}},"status":{status}}}"#
        );
        UpperPod::parse(&text).unwrap()
    }

    #[test]
    fn a_status_change_is_not_a_new_revision_and_a_label_change_is() {
        let before = pod("{}", "", "{}");
        assert_eq!(before.revision, pod("{}", "", r#"{"phase":"Running"}"#).revision);
        assert_ne!(before.revision, pod(r#"{"a":"b"}"#, "", "{}").revision);
    }

    #[test]
    fn every_changeable_member_of_the_spec_makes_a_new_revision() {
        let before = pod("{}", "", "{}");
        for member in [
            r#","ephemeralContainers":[{"name":"debug"}]"#,
            r#","tolerations":[{"operator":"Exists"}]"#,
            r#","activeDeadlineSeconds":5"#,
            r#","terminationGracePeriodSeconds":1"#,
            r#","resources":{"requests":{"cpu":"1"}}"#,
            r#","initContainers":[{"name":"i","image":"x"}]"#,
        ] {
            assert_ne!(before.revision, pod("{}", member, "{}").revision, "{member}");
        }
    }

    #[test]
    fn a_gate_is_passed_only_by_a_true_condition() {
        let gates = r#","readinessGates":[{"conditionType":"g"}]"#;
        assert_eq!(pod("{}", "", "{}").gates, Gates::None);
        assert!(matches!(pod("{}", gates, "{}").gates, Gates::Waiting(_)));
        assert!(matches!(
            pod("{}", gates, r#"{"conditions":[{"type":"g","status":"False"}]}"#).gates,
            Gates::Waiting(_)
        ));
        assert_eq!(pod("{}", gates, r#"{"conditions":[{"type":"g","status":"True"}]}"#).gates, Gates::Passed);
    }

    #[test]
    fn a_pod_without_a_uid_is_malformed_and_not_guessed() {
        assert!(UpperPod::parse(r#"{"metadata":{"name":"a","namespace":"n"},"spec":{},"status":{}}"#).is_err());
    }

    #[test]
    fn a_pod_that_is_being_deleted_has_its_grace() {
        let text = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds":7,"finalizers":["x"]},"spec":{},"status":{}}"#;
        let pod = UpperPod::parse(text).unwrap();
        assert_eq!((pod.deleting, pod.finalizers), (Some(7), true));
    }
}
