// SPDX-License-Identifier: Apache-2.0
//! What a lower cluster can still take, recomputed from a snapshot of its nodes and of the pods that are not ours.
//!
//! Nothing is added up over time, so a repeated or missed event cannot make it drift, and nothing goes below zero:
//! tensile-kube kept a running balance that did, and a node with a negative capacity cannot even be registered.

use std::{borrow::Cow, cmp::Ordering, collections::BTreeSet};

use foldhash::{HashMap, HashMapExt};
use serde::Deserialize;

use crate::{
    names,
    resources::{PodRequestView, ResourceName, ResourceVector},
};

#[cfg(test)]
mod tests;

/// Taints by which a cluster's own machinery keeps ordinary pods off a node, whatever its workloads tolerate.
///
/// Any other taint is the owner's choice (`nvidia.com/gpu`, a team's name): pods that tolerate it may land there,
/// tolerations go down whole, so such a node counts.
const SYSTEM_TAINT_PREFIXES: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];
const SYSTEM_TAINTS: [&str; 3] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "ToBeDeletedByClusterAutoscaler"];

/// One pod of one thing, in thousandths.
const ONE_POD: i128 = 1000;

/// What of a lower node decides about capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowerNode {
    /// `metadata.name`.
    pub name: String,
    /// Condition Ready is True.
    pub ready: bool,
    /// Cordoned: `spec.unschedulable`.
    pub unschedulable: bool,
    /// Stands for a cluster itself: label `type=virtual-kubelet`.
    pub is_virtual: bool,
    /// Keys of the taints with effect `NoSchedule` or `NoExecute`.
    pub repelling_taints: Vec<String>,
    /// `status.allocatable`.
    pub allocatable: ResourceVector,
    /// `status.nodeInfo.operatingSystem`, empty when not reported.
    pub os: String,
    /// `status.nodeInfo.architecture`, empty when not reported.
    pub arch: String,
    /// `status.nodeInfo.kubeletVersion`, empty when not reported.
    pub kubelet_version: String,
}

/// A pod below that no link of ours made, and what it takes of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignPod {
    /// Name of the lower node.
    pub node: String,
    /// What it takes there.
    pub request: ResourceVector,
}

/// What the lower nodes that can take pods have to offer together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What they can still take.
    pub allocatable: ResourceVector,
    /// How many they are.
    pub nodes: usize,
    /// Their operating systems.
    pub os: BTreeSet<String>,
    /// Their architectures.
    pub arch: BTreeSet<String>,
    /// The oldest version among their kubelets: what a pod can count on wherever it lands.
    pub kubelet_version: Option<String>,
}

/// Sums up what the lower cluster can still take: per node that can take pods, its allocatable less what foreign pods
/// request there, never below zero for any resource. The order of nodes and pods does not matter.
///
/// A foreign pod also takes one of its node's `pods`; one on a node that does not count takes nothing.
pub fn capacity<'a>(
    nodes: impl IntoIterator<Item = &'a LowerNode>,
    foreign: impl IntoIterator<Item = &'a ForeignPod>,
) -> Totals {
    let mut taken: HashMap<&str, ResourceVector> = HashMap::new();
    for pod in foreign {
        let taken = taken.entry(&pod.node).or_default();
        taken.add_all(&pod.request);
        taken.add(ResourceName::PODS, ONE_POD);
    }
    let mut totals = Totals::default();
    let nothing = ResourceVector::new();
    for node in nodes.into_iter().filter(|node| node.takes_pods()) {
        let taken = taken.get(node.name.as_str()).unwrap_or(&nothing);
        totals.allocatable.add_all(&node.allocatable.less(taken));
        totals.nodes += 1;
        totals.os.extend(reported(&node.os));
        totals.arch.extend(reported(&node.arch));
        totals.kubelet_version = oldest(totals.kubelet_version.take(), reported(&node.kubelet_version));
    }
    totals
}

fn reported(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The older of two versions; any version is older than none.
fn oldest(a: Option<String>, b: Option<String>) -> Option<String> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if compare_versions(&a, &b) == Ordering::Greater { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// Orders `v1.9.3 < v1.34.1+k3s1`: by the numbers, then by the text so that the order is total.
fn compare_versions(a: &str, b: &str) -> Ordering {
    fn numbers(version: &str) -> impl Iterator<Item = u64> {
        let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>();
        version.trim_start_matches('v').split('.').take(3).map(move |part| digits(part).parse().unwrap_or(0))
    }
    numbers(a).cmp(numbers(b)).then_with(|| a.cmp(b))
}

impl LowerNode {
    /// Reads a node from its JSON text.
    ///
    /// # Errors
    /// When it has no name, or a member that decides has another shape than the API's.
    pub fn from_json(raw: &str) -> Result<Self, serde_json::Error> {
        let NodeView { metadata, spec, status } = serde_json::from_str(raw)?;
        let repels = |taint: &TaintView<'_>| matches!(&*taint.effect, "NoSchedule" | "NoExecute");
        Ok(Self {
            name: metadata.name.into_owned(),
            is_virtual: metadata.labels.and_then(|labels| labels.kind).as_deref() == Some(names::VIRTUAL_KUBELET),
            ready: status.conditions.iter().flatten().any(|known| known.kind == "Ready" && known.status == "True"),
            unschedulable: spec.unschedulable,
            repelling_taints: spec
                .taints
                .into_iter()
                .flatten()
                .filter(repels)
                .map(|taint| taint.key.into_owned())
                .collect(),
            allocatable: status.allocatable.unwrap_or_default(),
            os: status.node_info.operating_system.into_owned(),
            arch: status.node_info.architecture.into_owned(),
            kubelet_version: status.node_info.kubelet_version.into_owned(),
        })
    }

    /// Whether new pods may land here: Ready, not cordoned, not kept free by the cluster itself, and no virtual node
    /// (whose capacity is that of nodes elsewhere, perhaps even of this link).
    #[must_use]
    pub fn takes_pods(&self) -> bool {
        let kept_free = self.repelling_taints.iter().any(|key| {
            SYSTEM_TAINTS.contains(&key.as_str()) || SYSTEM_TAINT_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        });
        self.ready && !self.unschedulable && !self.is_virtual && !kept_free
    }
}

impl ForeignPod {
    /// Reads a pod from its JSON text; `None` when it takes nothing from any node: not bound yet, or finished.
    ///
    /// # Errors
    /// When a member that decides has another shape than the API's.
    pub fn from_json(raw: &str) -> Result<Option<Self>, serde_json::Error> {
        let pod = PodRequestView::parse(raw)?;
        Ok(pod.node().map(|node| Self { node: node.to_owned(), request: pod.placed() }))
    }
}

#[derive(Deserialize)]
struct NodeView<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    spec: Spec<'a>,
    #[serde(borrow, default)]
    status: Status<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    labels: Option<Labels<'a>>,
}

#[derive(Deserialize)]
struct Labels<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    unschedulable: bool,
    #[serde(borrow)]
    taints: Option<Vec<TaintView<'a>>>,
}

#[derive(Deserialize)]
struct TaintView<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    effect: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status<'a> {
    #[serde(borrow)]
    conditions: Option<Vec<Condition<'a>>>,
    allocatable: Option<ResourceVector>,
    #[serde(borrow)]
    node_info: NodeInfo<'a>,
}

#[derive(Deserialize)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo<'a> {
    #[serde(borrow)]
    operating_system: Cow<'a, str>,
    #[serde(borrow)]
    architecture: Cow<'a, str>,
    #[serde(borrow)]
    kubelet_version: Cow<'a, str>,
}
