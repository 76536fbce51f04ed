// SPDX-License-Identifier: Apache-2.0
//! The decision: what is changed in which pod. Pure; the same question has the same answer.

use jiff::Timestamp;
use serde_json::{Map, Value};
use tensile_core::exclusion::{self, Exclusions, Subject};
use tensile_core::names;
use tensile_core::placement::{self, KeptKeys, Placement, PlacementError, Split};

use crate::pod::{Pod, Taken};
use crate::review::{Denial, Operation, Request, Verdict};
use crate::selected_node::{Choice, SelectedNodes};
use crate::tolerations::tolerate_node_loss;

/// Namespace whose pods keep the upper cluster itself alive; they are never touched.
const KUBE_SYSTEM: &str = "kube-system";

/// What the operator decides.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The keys upper scheduling decides on.
    pub kept: KeptKeys,
    /// How long pods tolerate the loss of their virtual node, in seconds; `None`: for ever.
    pub node_lost_seconds: Option<u32>,
    /// What virtual nodes take.
    pub taken: Taken,
    /// Deny pods that virtual nodes refuse instead of warning their author.
    pub deny_unsupported: bool,
    /// The scheduler of pods that name none.
    pub scheduler: Option<String>,
}

/// What is known of the upper cluster. It is kept up to date aside: no request waits for an API server.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Virtual nodes that pods of some owners shall not go to.
    pub exclusions: &'a Exclusions,
    /// Virtual nodes that claims were given to.
    pub selected: &'a SelectedNodes,
    /// The time by which exclusions end.
    pub now: Timestamp,
}

/// Decides on one request.
///
/// Only a pod that opts in is looked at, and only when it is created: everything else is allowed as it is, so that this
/// webhook cannot get in the way of what it does not know.
pub fn decide(request: &Request<'_>, policy: &Policy, known: Known<'_>) -> Verdict {
    let is_pod = request.kind.kind == "Pod" && request.kind.group.is_empty() && request.sub_resource.is_empty();
    let object = match request.object {
        Some(object) if is_pod && request.operation == "CREATE" && request.namespace != KUBE_SYSTEM => object,
        _ => return Verdict::Untouched,
    };
    let unreadable = |error: serde_json::Error| Denial {
        code: 400,
        reason: "BadRequest",
        message: format!("the pod cannot be read: {error}"),
    };
    let mut pod: Pod<'_> = match Pod::read(object) {
        Ok(pod) => pod,
        Err(error) => return Verdict::Denied(unreadable(error)),
    };
    // tensile-kube's descheduler creates pods that are split already and bear exclusions which must stay upstairs.
    let opts_out = pod.is_labelled(names::LEAVE_PLACEMENT) || pod.is_labelled(names::CREATED_BY_DESCHEDULER);
    if !pod.is_labelled(names::VIRTUAL_POD) || opts_out {
        return Verdict::Untouched;
    }
    let doubts = pod.doubts(policy.taken);
    let refused: Vec<&str> = doubts.iter().filter(|doubt| doubt.refused).map(|doubt| doubt.text.as_str()).collect();
    if policy.deny_unsupported && !refused.is_empty() {
        return Verdict::Denied(Denial { code: 403, reason: "Forbidden", message: refused.join("; ") });
    }
    let mut warnings: Vec<String> = doubts.into_iter().map(|doubt| doubt.text).collect();
    let original = match pod.placement() {
        Ok(original) => original,
        Err(error) => return Verdict::Denied(unreadable(error)),
    };
    let subjects = if known.exclusions.is_empty() { Vec::new() } else { pod.subjects(&request.namespace) };
    match split(&original, &subjects, policy, known) {
        Ok(split) => {
            let mut patch = patch(&pod, &original, split, policy);
            match known.selected.choose(&request.namespace, pod.claims()) {
                Choice::Free => patch.extend(schedule(&pod, policy)),
                Choice::Node(node) => {
                    patch.push(Operation::Add { path: "/spec/nodeName".to_owned(), value: node.into() });
                }
                Choice::Undecided(why) => {
                    patch.extend(schedule(&pod, policy));
                    warnings.push(why);
                }
            }
            Verdict::Changed { patch, warnings }
        }
        Err(error) => Verdict::Denied(Denial { code: 422, reason: "Invalid", message: error.to_string() }),
    }
}

/// Gives the pod the operator's scheduler, unless its author chose one, or a node.
fn schedule(pod: &Pod<'_>, policy: &Policy) -> Option<Operation> {
    let scheduler = policy.scheduler.as_deref().filter(|scheduler| pod.takes_scheduler(scheduler))?;
    Some(Operation::Add { path: "/spec/schedulerName".to_owned(), value: scheduler.into() })
}

/// The pod's constraints, and that it is kept off the nodes it is excluded from, divided.
fn split(pod: &Value, subjects: &[Subject<'_>], policy: &Policy, known: Known<'_>) -> Result<Split, PlacementError> {
    let excluded = known.exclusions.of(subjects, known.now);
    if excluded.is_empty() {
        return placement::split(pod, &policy.kept);
    }
    let mut pod = pod.clone();
    let mut affinity = pod["spec"].get("affinity").cloned();
    exclusion::exclude(&mut affinity, excluded)?;
    pod["spec"]["affinity"] = affinity.into();
    placement::split(&pod, &policy.kept)
}

/// The operations that turn the pod, whose placement is `original`, into the split one.
fn patch(pod: &Pod<'_>, original: &Value, split: Split, policy: &Policy) -> Vec<Operation> {
    let Split { mut upper, stash } = split;
    let tolerations = upper.tolerations.as_ref().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    upper.tolerations = Some(Value::Array(tolerate_node_loss(tolerations, policy.node_lost_seconds)));

    let mut operations = Vec::new();
    let stash = Value::String(stash.encode());
    if pod.metadata.annotations.is_none() {
        let annotations: Map<String, Value> = [(names::CLUSTER_SELECTOR.to_owned(), stash)].into_iter().collect();
        operations.push(Operation::Add { path: "/metadata/annotations".to_owned(), value: annotations.into() });
    } else if original["metadata"]["annotations"].get(names::CLUSTER_SELECTOR) != Some(&stash) {
        let path = format!("/metadata/annotations/{}", names::CLUSTER_SELECTOR);
        operations.push(Operation::Add { path, value: stash });
    }
    let before = Placement::of_pod(original);
    for (field, before, after) in [
        ("nodeSelector", before.node_selector, upper.node_selector),
        ("affinity", before.affinity, upper.affinity),
        ("tolerations", before.tolerations, upper.tolerations),
        ("topologySpreadConstraints", before.topology_spread, upper.topology_spread),
    ] {
        let path = format!("/spec/{field}");
        match (before, after) {
            (before, Some(after)) if before.as_ref() != Some(&after) => {
                operations.push(Operation::Add { path, value: after });
            }
            (Some(_), None) => operations.push(Operation::Remove { path }),
            _ => {}
        }
    }
    operations
}
