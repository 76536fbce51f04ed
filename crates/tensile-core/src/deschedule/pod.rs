// SPDX-License-Identifier: Apache-2.0
//! The digest of an upper pod: what decisions about moving it need, and no more.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::exclusion::{self, Subject};
use crate::names;
use crate::placement::selector::{HardConstraints, Node, Taint};
use crate::resources::{ResourceVector, pod_request};

use super::node::VirtualNode;

/// An upper pod.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own, and any may hold with any other")]
pub struct Pod {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
    /// The version this was read from: a number, as API servers have them (KEP-5504).
    pub resource_version: u64,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// The controller that makes it again.
    pub owner: Option<Arc<Owner>>,
    /// Its index there: ordinal or completion index.
    pub index: Option<Arc<str>>,
    /// How many times that index failed, where the Job counts it.
    pub index_failures: u32,
    /// When it was made.
    pub created: Timestamp,
    /// Its phase.
    pub phase: Phase,
    /// It is being deleted.
    pub deleting: bool,
    /// It was evicted.
    pub evicted: bool,
    /// It is deleted, and nothing of it runs any more: its kubelet said how it ended, and only finalizers keep it.
    pub ended: bool,
    /// It bears the finalizer [`names::MOVE`].
    pub kept: bool,
    /// UID of the bare pod that it was made of ([`names::ORIGIN_UID`]).
    pub origin: Option<Arc<str>>,
    /// A kubelet has taken it in.
    pub started: bool,
    /// It serves.
    pub ready: bool,
    /// The lower scheduler finds no node for it.
    pub unschedulable: Option<Box<Trouble>>,
    /// The lower cluster does not take it.
    pub refused: Option<Box<Trouble>>,
    /// The upper scheduler finds no node for it.
    pub unbound: Option<Box<Trouble>>,
    /// It shows that it fits nowhere else ([`names::PLACEABLE`]).
    pub unplaceable: bool,
    /// Who schedules it, if that is not the default scheduler.
    pub scheduler: Option<Arc<str>>,
    /// Restarts of its containers.
    pub restarts: u32,
    /// Restarts of its init containers.
    pub init_restarts: u32,
    /// What its status and its containers give as reasons, such as `CrashLoopBackOff`.
    pub reasons: Box<[Arc<str>]>,
    /// Its priority.
    pub priority: i32,
    /// It is another kubelet's own (a mirror pod).
    pub mirror: bool,
    /// It has a persistent volume claim.
    pub claims: bool,
    /// It has an `emptyDir` or `hostPath`.
    pub local_storage: bool,
    /// What it asks for; nothing, if that cannot be read.
    pub requests: Arc<ResourceVector>,
    /// What of its spec says where it may go, as JSON.
    pub(super) constraints: Option<Arc<str>>,
}

/// A pod's controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Such as `apps/v1`.
    pub api_version: Arc<str>,
    /// Such as `ReplicaSet`.
    pub kind: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
}

/// A condition that is `False`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Since when.
    pub since: Timestamp,
    /// In the words of who said it.
    pub message: Arc<str>,
}

/// `status.phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers have been started.
    Pending,
    /// At least one container runs.
    Running,
    /// All ended well.
    Succeeded,
    /// All ended, one of them badly.
    Failed,
    /// Anything else.
    Unknown,
}

impl Phase {
    /// As the API writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}

impl Pod {
    /// Reads a pod. `None`: it lacks what tells one pod from another, and nothing is done about it.
    pub fn read(pod: &Value) -> Option<Self> {
        let (meta, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(Arc::<str>::from);
        let volumes = || spec["volumes"].as_array().into_iter().flatten();
        let has = |kind: &str| volumes().any(|volume| !volume[kind].is_null());
        let index = names::POD_INDEXES.iter().find_map(|label| text(&meta["labels"][*label]));
        let failures = meta["annotations"][JOB_INDEX_FAILURES].as_str();
        Some(Self {
            namespace: text(&meta["namespace"])?,
            name: text(&meta["name"])?,
            uid: text(&meta["uid"])?,
            resource_version: meta["resourceVersion"].as_str()?.parse().ok()?,
            created: meta["creationTimestamp"].as_str()?.parse().ok()?,
            node: text(&spec["nodeName"]),
            owner: owner(meta).map(Arc::new),
            index,
            index_failures: failures.and_then(|count| count.parse().ok()).unwrap_or_default(),
            phase: phase(status),
            deleting: !meta["deletionTimestamp"].is_null(),
            evicted: condition(status, "DisruptionTarget", "True")
                .is_some_and(|condition| condition["reason"] == "EvictionByEvictionAPI"),
            ended: !meta["deletionTimestamp"].is_null()
                && meta["deletionGracePeriodSeconds"] == 0
                // Nobody tells the end of one that is bound nowhere.
                && (!spec["nodeName"].is_string() || matches!(phase(status), Phase::Succeeded | Phase::Failed)),
            kept: meta["finalizers"].as_array().is_some_and(|all| all.iter().any(|name| name == names::MOVE)),
            origin: text(&meta["annotations"][names::ORIGIN_UID]),
            started: status["startTime"].is_string(),
            ready: condition(status, "Ready", "True").is_some(),
            unschedulable: condition(status, names::SCHEDULED, "False")
                .filter(|condition| no_place(condition))
                .and_then(trouble),
            refused: condition(status, names::ACCEPTED, "False").and_then(trouble),
            unbound: condition(status, "PodScheduled", "False")
                .filter(|condition| no_place(condition))
                .and_then(trouble),
            unplaceable: condition(status, names::PLACEABLE, "False").is_some(),
            scheduler: text(&spec["schedulerName"]).filter(|name| &**name != "default-scheduler"),
            restarts: restarts(&status["containerStatuses"]),
            init_restarts: restarts(&status["initContainerStatuses"]),
            reasons: reasons(status),
            priority: spec["priority"].as_i64().and_then(|value| value.try_into().ok()).unwrap_or_default(),
            mirror: !meta["annotations"]["kubernetes.io/config.mirror"].is_null(),
            claims: has("persistentVolumeClaim"),
            local_storage: has("emptyDir") || has("hostPath"),
            requests: Arc::new(pod_request(spec).unwrap_or_default()),
            constraints: constraints(spec).map(|constraints| constraints.to_string().into()),
        })
    }

    /// Whether its author's constraints allow it on the node. What cannot be read allows nothing: it stays where it is.
    /// `borne`: an exclusion of ours from this node was laid on it when it was made; the next one need not have it.
    pub fn may_go_to(&self, name: &str, node: &VirtualNode, borne: bool) -> bool {
        let Some(mut spec) = self.constrained_spec() else { return false };
        if borne {
            let mut affinity = spec.remove("affinity");
            exclusion::lift(&mut affinity, [name]);
            spec.extend(affinity.map(|affinity| ("affinity".to_owned(), affinity)));
        }
        let Ok(constraints) = HardConstraints::of_spec(&spec) else { return false };
        constraints.select(Node { name, labels: &node.labels }) && constraints.untolerated(&node.taints).is_none()
    }

    /// The first of these taints that it does not tolerate. One whose tolerations cannot be read tolerates all: it stays.
    pub(super) fn untolerated<'t>(&self, mut taints: impl Iterator<Item = &'t Taint>) -> Option<&'t Taint> {
        let spec = self.constrained_spec()?;
        let tolerations = HardConstraints::of_spec(&spec).ok()?.tolerations;
        taints.find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
    }

    fn constrained_spec(&self) -> Option<Map<String, Value>> {
        serde_json::from_str(self.constraints.as_deref().unwrap_or("{}")).ok()
    }

    /// Whose pods are excluded when it is moved: those of its own index, where it keeps one.
    pub fn subject(&self) -> Subject<'_> {
        let bare = Subject::Bare { namespace: &self.namespace, name: &self.name };
        self.subjects().pop().unwrap_or(bare)
    }

    /// Whose pod it is.
    pub(super) fn subjects(&self) -> Vec<Subject<'_>> {
        let owner = self.owner.as_ref().map(|owner| &*owner.uid);
        Subject::of_pod(owner, self.index.as_deref(), &self.namespace, &self.name)
    }

    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether it has ended.
    pub fn finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }
}

/// Kubernetes' annotation with the number of failures of a pod's index (`batch/v1`, `JobIndexFailureCountAnnotation`).
const JOB_INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

fn owner(meta: &Value) -> Option<Owner> {
    let owner = meta["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)?;
    let text = |member: &str| owner[member].as_str().map(Arc::<str>::from);
    Some(Owner {
        api_version: text("apiVersion")?,
        kind: text("kind")?,
        name: text("name")?,
        uid: text("uid").filter(|uid| !uid.is_empty())?,
    })
}

fn phase(status: &Value) -> Phase {
    match status["phase"].as_str() {
        Some("Pending") => Phase::Pending,
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        _ => Phase::Unknown,
    }
}

fn condition<'a>(status: &'a Value, kind: &str, is: &str) -> Option<&'a Value> {
    let conditions = status["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind && condition["status"] == is)
}

/// A scheduler looked for a place and found none; one that was held back by a gate has not been looked at.
fn no_place(condition: &Value) -> bool {
    condition["reason"] == "Unschedulable" || condition["reason"] == "SchedulerError"
}

fn trouble(condition: &Value) -> Option<Box<Trouble>> {
    let since = condition["lastTransitionTime"].as_str()?.parse().ok()?;
    let said = [&condition["message"], &condition["reason"]].into_iter().find_map(Value::as_str).unwrap_or_default();
    Some(Box::new(Trouble { since, message: said.into() }))
}

fn restarts(statuses: &Value) -> u32 {
    let counts = statuses.as_array().into_iter().flatten().filter_map(|status| status["restartCount"].as_u64());
    counts.fold(0, |sum: u32, count| sum.saturating_add(count.try_into().unwrap_or(u32::MAX)))
}

fn reasons(status: &Value) -> Box<[Arc<str>]> {
    let containers = ["initContainerStatuses", "containerStatuses"].into_iter();
    let containers = containers.flat_map(|list| status[list].as_array().into_iter().flatten());
    let waiting = containers.flat_map(|container| [&container["state"]["waiting"], &container["state"]["terminated"]]);
    let all = [&status["reason"]].into_iter().chain(waiting.map(|state| &state["reason"]));
    all.filter_map(Value::as_str).filter(|reason| !reason.is_empty()).map(Arc::from).collect()
}

/// The members of a spec by which nodes are filtered.
fn constraints(spec: &Value) -> Option<Value> {
    let mut kept = Map::new();
    for member in ["nodeSelector", "tolerations"] {
        if !spec[member].is_null() {
            kept.insert(member.to_owned(), spec[member].clone());
        }
    }
    if !spec["affinity"]["nodeAffinity"].is_null() {
        kept.insert("affinity".to_owned(), json!({ "nodeAffinity": spec["affinity"]["nodeAffinity"] }));
    }
    (!kept.is_empty()).then(|| kept.into())
}
