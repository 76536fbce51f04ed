// SPDX-License-Identifier: Apache-2.0
//! A pod as it would be in a lower cluster, taken apart into what decides where it fits.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::label_selector::{LabelSelector, PodTerm, WrittenTerm, or_default};
use super::labels::Labels;
use super::node_selector::{NodeSelector, Term};
use super::objects::{Amounts, LimitRange, Pod, Shape, Taint};
use super::quota_request::QuotaRequest;
use super::text::Text;
use crate::names;
use crate::placement::Malformed;
use crate::placement::selector::{self, HardConstraints};
use crate::pod::{LinkView, Refusal, lower_pod};
use crate::resources::pod_request;

/// What is to be said of a pod of which something is not known here: devices it claims, claims of storage that the lower
/// cluster does not have (yet).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// It fits, as far as that is concerned.
    #[default]
    Allow,
    /// It does not fit.
    Deny,
}

/// Why there is no question to ask. Displayed, it is a sentence for the pod's owner.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refused {
    /// virtual-node would not create it.
    #[error(transparent)]
    Translation(#[from] Refusal),
    /// A field has another shape than the API's.
    #[error("the pod cannot be read: {0}")]
    Malformed(String),
    /// It uses what is not modelled.
    #[error("the pod uses {0}, and whether there is any is not known here")]
    Unknown(&'static str),
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed.to_string())
    }
}

impl From<serde_json::Error> for Refused {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// A pod that looks for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What it would be for others and for its node.
    pub(super) shape: Arc<Shape>,
    /// What of its `spec` says what it requests: lower admission may add to it.
    asked: Arc<Value>,
    pub(super) priority: i32,
    /// What it is for quotas; `None` once it is created: they count it themselves.
    pub(super) quota: Option<QuotaRequest>,
    pub(super) node_name: Option<Text>,
    /// `nodeSelector` and required node affinity.
    pub(super) selector: NodeSelector,
    /// Preferred node affinity, with weights.
    pub(super) preferred: Vec<(i64, Term)>,
    pub(super) tolerations: Vec<Toleration>,
    /// Required pod affinity.
    pub(super) affinity: Vec<PodTerm>,
    /// Spread constraints that are not to be violated.
    pub(super) spread: Vec<Spread>,
    pub(super) unknown: Unknown,
}

/// A toleration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Toleration {
    key: Box<str>,
    operator: Box<str>,
    value: Box<str>,
    effect: Box<str>,
}

impl Toleration {
    pub(super) fn tolerates(&self, taint: &Taint) -> bool {
        let Self { key, operator, value, effect } = self;
        let toleration = crate::placement::selector::Toleration { key, operator, value, effect };
        toleration.covers(&taint.key, &taint.value, &taint.effect)
    }
}

/// A spread constraint with `whenUnsatisfiable: DoNotSchedule`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) max_skew: i64,
    pub(super) topology_key: Text,
    /// `None` matches no pod.
    pub(super) selector: Option<LabelSelector>,
    pub(super) min_domains: i64,
    /// Only nodes that the pod's selector matches are domains.
    pub(super) honor_affinity: bool,
    /// Only nodes whose taints the pod tolerates are domains.
    pub(super) honor_taints: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<Text>,
    #[serde(deserialize_with = "or_default")]
    affinity: Affinity,
    #[serde(deserialize_with = "or_default")]
    topology_spread_constraints: Vec<WrittenSpread>,
    #[serde(deserialize_with = "or_default")]
    resource_claims: Vec<IgnoredAny>,
    active_deadline_seconds: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    #[serde(deserialize_with = "or_default")]
    node_affinity: NodeAffinity,
    #[serde(deserialize_with = "or_default")]
    pod_affinity: PodAffinity,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "or_default")]
    preferred: Vec<Preferred>,
}

#[derive(Deserialize)]
struct Preferred {
    #[serde(default)]
    weight: i64,
    #[serde(default)]
    preference: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "or_default")]
    required: Vec<WrittenTerm>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenSpread {
    max_skew: i64,
    topology_key: Text,
    when_unsatisfiable: Box<str>,
    label_selector: Option<LabelSelector>,
    min_domains: Option<i64>,
    node_affinity_policy: Option<Box<str>>,
    node_taints_policy: Option<Box<str>>,
    #[serde(default, deserialize_with = "or_default")]
    match_label_keys: Vec<Text>,
}

impl WrittenSpread {
    fn hard(self, labels: &Labels) -> Option<Spread> {
        (&*self.when_unsatisfiable == "DoNotSchedule").then(|| Spread {
            max_skew: self.max_skew,
            topology_key: self.topology_key,
            selector: self.label_selector.map(|selector| selector.and_like(&self.match_label_keys, labels, true)),
            min_domains: self.min_domains.unwrap_or(1),
            honor_affinity: self.node_affinity_policy.as_deref() != Some("Ignore"),
            honor_taints: self.node_taints_policy.as_deref() == Some("Honor"),
        })
    }
}

/// What admission of every cluster adds: a pod stays for a while on a node that fails.
const ADDED_TOLERATIONS: [&str; 2] = [names::NODE_NOT_READY, names::NODE_UNREACHABLE];

impl Question {
    /// The question for `upper`, as virtual-node would create it below `link`.
    ///
    /// # Errors
    /// When it would not be created there, or uses what is not known and `unknown` says to refuse that.
    pub fn of(upper: &Value, link: &LinkView, unknown: Unknown) -> Result<Self, Refused> {
        Self::of_lower(&lower_pod(upper, link, 0)?.pod, unknown)
    }

    /// The question for a pod as it is in the lower cluster.
    ///
    /// # Errors
    /// When it cannot be read, or uses what is not known and `unknown` says to refuse that.
    pub fn of_lower(pod: &Value, unknown: Unknown) -> Result<Self, Refused> {
        let nothing = Value::Null;
        let json = pod.get("spec").unwrap_or(&nothing);
        let read = Pod::deserialize(pod)?;
        let spec = Option::<Spec>::deserialize(json)?.unwrap_or_default();
        if !spec.resource_claims.is_empty() && unknown == Unknown::Deny {
            return Err(Refused::Unknown("resource claims"));
        }
        let empty = Map::new();
        let hard = HardConstraints::of_spec(json.as_object().unwrap_or(&empty))?;
        let tolerations = hard.tolerations.iter().map(Toleration::of);
        let added = ADDED_TOLERATIONS.iter().map(|key| Toleration::added(key));
        let shape = read.shape;
        let affinity = spec.affinity.pod_affinity.required.into_iter();
        let affinity: Vec<PodTerm> = affinity.map(|term| PodTerm::of(term, &shape.namespace, &shape.labels)).collect();
        let spread = spec.topology_spread_constraints.into_iter();
        let mut preferred = Vec::new();
        for term in spec.affinity.node_affinity.preferred {
            preferred.extend(Term::read(&term.preference)?.map(|read| (term.weight.clamp(0, 100), read)));
        }
        Ok(Self {
            quota: Some(QuotaRequest {
                terminating: spec.active_deadline_seconds.is_some(),
                crosses_namespaces: affinity
                    .iter()
                    .chain(&shape.anti_affinity)
                    .any(|term| term.leaves(&shape.namespace)),
                ..QuotaRequest::of(json)?
            }),
            priority: read.priority,
            node_name: spec.node_name.filter(|name| !name.is_empty()),
            selector: NodeSelector::of_pod(&hard),
            preferred,
            tolerations: tolerations.chain(added).collect(),
            affinity,
            spread: spread.filter_map(|constraint| constraint.hard(&shape.labels)).collect(),
            unknown,
            asked: Arc::new(asked(json)),
            shape: Arc::new(shape),
        })
    }

    /// The question for the pod with the default amounts of its namespace, where its containers say nothing.
    pub(super) fn with_defaults<'r>(&self, ranges: impl Iterator<Item = &'r LimitRange>) -> Self {
        let mut asked = Value::clone(&self.asked);
        for range in ranges {
            for list in ["containers", "initContainers"] {
                let containers = asked.get_mut(list).and_then(Value::as_array_mut);
                containers.into_iter().flatten().for_each(|container| range.complete(container));
            }
        }
        // What was read once, with amounts that were read too, is read again.
        let Ok((request, quota)) = pod_request(&asked).and_then(|request| Ok((request, QuotaRequest::of(&asked)?)))
        else {
            return self.clone();
        };
        let mut shape = Shape::clone(&self.shape);
        shape.request = Amounts::of(&request);
        let quota = self.quota.as_ref().map(|known| QuotaRequest {
            terminating: known.terminating,
            crosses_namespaces: known.crosses_namespaces,
            ..quota
        });
        Self { shape: Arc::new(shape), asked: Arc::new(asked), quota, ..self.clone() }
    }

    /// Whether other pods that come may make it fit.
    #[must_use]
    pub fn wants_company(&self) -> bool {
        !self.affinity.is_empty() || !self.spread.is_empty()
    }

    /// Whether more decides about a node than what is left on it of resources.
    pub(super) fn is_particular(&self) -> bool {
        let Shape { ports, anti_affinity, claims, disks, .. } = &*self.shape;
        let alone = ports.is_empty() && anti_affinity.is_empty() && claims.is_empty() && disks.is_empty();
        self.wants_company() || !alone
    }

    /// The topologies in which it wants to be near others.
    pub(super) fn near(&self) -> impl Iterator<Item = &Text> {
        self.affinity.iter().map(|term| &term.topology_key)
    }

    /// The topologies over which it spreads, or in which it keeps apart from others.
    pub(super) fn apart(&self) -> impl Iterator<Item = &Text> {
        let kept = self.shape.anti_affinity.iter().map(|term| &term.topology_key);
        kept.chain(self.spread.iter().map(|constraint| &constraint.topology_key))
    }

    /// Whether both keep near and apart from the same pods.
    pub(super) fn keeps_company_like(&self, other: &Self) -> bool {
        self.affinity == other.affinity
            && self.spread == other.spread
            && self.shape.anti_affinity == other.shape.anti_affinity
            && self.shape.namespace == other.shape.namespace
    }

    /// The namespace it would be in.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.shape.namespace
    }
}

impl Toleration {
    fn of(read: &selector::Toleration<'_>) -> Self {
        Self {
            key: read.key.into(),
            operator: read.operator.into(),
            value: read.value.into(),
            effect: read.effect.into(),
        }
    }

    fn added(key: &str) -> Self {
        Self { key: key.into(), operator: "Exists".into(), value: "".into(), effect: "NoExecute".into() }
    }
}

/// The members of a `spec` that say what it requests.
fn asked(spec: &Value) -> Value {
    let part = |member: &str| spec.get(member).cloned().unwrap_or_default();
    let containers = |list: &str| -> Vec<Value> {
        let containers = spec.get(list).and_then(Value::as_array).into_iter().flatten();
        let part = |container: &Value| json!({ "restartPolicy": container.get("restartPolicy"), "resources": container.get("resources") });
        containers.map(part).collect()
    };
    json!({ "containers": containers("containers"), "initContainers": containers("initContainers"),
        "overhead": part("overhead"), "resources": part("resources") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(spec: &Value) -> Question {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "labels": {"app": "a"}}, "spec": spec});
        Question::of_lower(&pod, Unknown::Allow).unwrap()
    }

    #[test]
    fn what_lower_admission_adds_is_tolerated() {
        let taint = |effect: &str| Taint { key: names::NODE_NOT_READY.into(), value: "".into(), effect: effect.into() };
        let question = question(&json!({}));
        let tolerated = |effect| question.tolerations.iter().any(|toleration| toleration.tolerates(&taint(effect)));
        assert!(tolerated("NoExecute"));
        assert!(!tolerated("NoSchedule"));
    }

    #[test]
    fn soft_constraints_do_not_count_and_resource_claims_are_decided_by_the_flag() {
        let spread = |when: &str| json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when});
        let question =
            question(&json!({"topologySpreadConstraints": [spread("DoNotSchedule"), spread("ScheduleAnyway")]}));
        assert_eq!(question.spread.len(), 1);
        assert!(question.wants_company());
        let pod = json!({"metadata": {}, "spec": {"resourceClaims": [{"name": "gpu"}]}});
        assert!(Question::of_lower(&pod, Unknown::Allow).is_ok());
        assert!(matches!(Question::of_lower(&pod, Unknown::Deny), Err(Refused::Unknown(_))));
    }

    #[test]
    fn an_upper_pod_is_asked_about_as_virtual_node_would_create_it() {
        let link = LinkView {
            upper_cluster: "upper".to_owned(),
            virtual_node: "east".to_owned(),
            node_labels: [("clusterID".to_owned(), "east".to_owned())].into(),
            ..LinkView::default()
        };
        let upper = |cluster: &str| {
            json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {
            "nodeName": "east", "nodeSelector": {"clusterID": cluster, "disk": "ssd"},
            "containers": [{"name": "c", "image": "i"}]}})
        };
        let question = Question::of(&upper("east"), &link, Unknown::Allow).unwrap();
        assert_eq!(question.node_name, None, "the upper node's name never leaks");
        assert_eq!(question.shape.labels.get("virtual-pod"), Some("true"));
        assert!(matches!(Question::of(&upper("west"), &link, Unknown::Allow), Err(Refused::Translation(_))));
    }
}
