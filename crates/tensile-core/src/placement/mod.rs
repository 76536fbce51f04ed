// SPDX-License-Identifier: Apache-2.0
//! Where a pod may land: the split of its constraints between upper and lower cluster.
//!
//! [`split`] takes off an upper pod what only lower nodes can satisfy and puts it into the [`Stash`]; [`restore`] puts
//! together what the lower pod asks for, on a given virtual node. What always holds is *flat-cluster equivalence*: put
//! all lower nodes into one cluster, each with its own labels and taints plus the kept keys of its virtual node; a pod
//! may land on a lower node through split and restore if and only if that flat cluster's node selector, required node
//! affinity and tolerations allow it there.
//!
//! | Constraint | Upstairs | Below, on virtual node V |
//! |---|---|---|
//! | `nodeSelector` | kept keys | the other keys |
//! | required node affinity: terms tᵢ = Kᵢ AND Mᵢ | the Kᵢ; nothing if one is empty | the Mᵢ whose Kᵢ V matches; nothing if one is empty |
//! | preferred node affinity | Kᵢ, each with its weight | the Mᵢ whose Kᵢ V matches, each with its weight |
//! | `matchFields` | belong to Kᵢ: they name upper nodes | never |
//! | tolerations | all | all |
//! | pod anti-affinity, topology spread | topology keys of the cluster level | all others |
//! | pod affinity | the same, and for each other term "in the same cluster" | all others |
//! | members this build does not know | none | all |
//!
//! A constraint over a topology below the cluster level (such as `kubernetes.io/hostname`) would be judged upstairs by
//! clusters: one pod per cluster instead of one per node. Pods that must share a lower topology must share the cluster
//! first, so pod affinity leaves a term at the cluster level upstairs. With no cluster-level topology keys configured,
//! these constraints stay upstairs and are copied below unchanged, as tensile-kube does.
//!
//! [`Stash`]: crate::stash::Stash

mod node_affinity;
pub(crate) mod raw;
mod restore;
pub mod selector;
mod split;
mod term;
#[cfg(test)]
mod tests;
mod topology;

use std::collections::BTreeSet;

use serde_json::Value;

pub use self::raw::Malformed;
pub use self::restore::restore;
pub use self::split::{Split, split};
use crate::names;
use crate::stash::StashError;

/// The node label keys that upper scheduling decides on. Webhook and virtual nodes must be given the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptKeys {
    selector: BTreeSet<String>,
    topology: Vec<String>,
}

impl KeptKeys {
    /// Keeps these label keys, and takes them for the topologies of the cluster level too. Blank keys are passed over.
    pub fn new<K: AsRef<str>>(keys: impl IntoIterator<Item = K>) -> Self {
        let topology = trimmed(keys);
        Self { selector: topology.iter().cloned().collect(), topology }
    }

    /// What the flags `--ignore-selector-keys` and `--cluster-topology-keys` say, `None` where one is not given: one rule
    /// for webhook and virtual nodes, so that the same flags mean the same.
    pub fn of_flags(kept: Option<Vec<String>>, topology: Option<Vec<String>>) -> Result<Self, NoKeptKey> {
        let kept = kept.map_or_else(Self::default, Self::new);
        if kept.selector.is_empty() {
            return Err(NoKeptKey);
        }
        Ok(match topology {
            Some(topology) => kept.with_topology(topology),
            None => kept,
        })
    }

    /// The topology in which pods that must be together are kept together upstairs. `None`: constraints over topologies
    /// are left alone.
    pub fn cluster_key(&self) -> Option<&str> {
        self.topology.first().map(String::as_str)
    }

    /// Replaces the topology keys of the cluster level (`--cluster-topology-keys`). The first must be on every virtual
    /// node: pods that must be together are kept together by it. None: pod affinity, anti-affinity and topology spread
    /// are left alone.
    #[must_use]
    pub fn with_topology<K: AsRef<str>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.topology = trimmed(keys);
        self
    }

    /// Whether a text may speak of one of these keys. One that does not means the same on every virtual node.
    pub fn may_be_in(&self, text: &str) -> bool {
        self.selector.iter().chain(&self.topology).any(|key| text.contains(key.as_str()))
    }

    fn keeps(&self, key: &str) -> bool {
        self.selector.contains(key)
    }
}

impl Default for KeptKeys {
    fn default() -> Self {
        Self::new(names::DEFAULT_KEPT_KEYS)
    }
}

fn trimmed<K: AsRef<str>>(keys: impl IntoIterator<Item = K>) -> Vec<String> {
    let keys = keys.into_iter().map(|key| key.as_ref().trim().to_owned());
    keys.filter(|key| !key.is_empty()).collect()
}

/// Nothing would choose a cluster, and pods that must be together could not be kept so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("--ignore-selector-keys names no key: the upper scheduler needs one that tells clusters apart")]
pub struct NoKeptKey;

/// The placement fields of a pod's `spec`. `None`: the field is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// `spec.nodeSelector`
    pub node_selector: Option<Value>,
    /// `spec.affinity`
    pub affinity: Option<Value>,
    /// `spec.tolerations`
    pub tolerations: Option<Value>,
    /// `spec.topologySpreadConstraints`
    pub topology_spread: Option<Value>,
}

impl Placement {
    /// The fields as they are in a pod.
    pub fn of_pod(pod: &Value) -> Self {
        let field = |name| pod.get("spec").and_then(|spec| spec.get(name)).filter(|value| !value.is_null()).cloned();
        Self {
            node_selector: field("nodeSelector"),
            affinity: field("affinity"),
            tolerations: field("tolerations"),
            topology_spread: field("topologySpreadConstraints"),
        }
    }
}

/// Why a pod's constraints can be neither split nor restored. Each is a sentence for the pod's owner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The annotation cannot be read.
    #[error(transparent)]
    Stash(#[from] StashError),
    /// A field of the pod has the wrong type.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Pod and stash require different values of one label; no node has both.
    #[error(
        "nodeSelector requires {key}={spec}, annotation {} requires {key}={stashed}: no node has both",
        names::CLUSTER_SELECTOR
    )]
    Contradiction {
        /// The label.
        key: String,
        /// Its value in `spec.nodeSelector`.
        spec: String,
        /// Its value in the stash.
        stashed: String,
    },
    /// Pod and stash hold different values of a field this build does not know and so cannot combine.
    #[error(
        "{path} differs from what annotation {} holds, and how to combine them is not known",
        names::CLUSTER_SELECTOR
    )]
    Unmergeable {
        /// The field.
        path: String,
    },
    /// More node affinity terms than are worth comparing.
    #[error("the required node affinity has {count} terms, more than {limit}")]
    TooManyTerms {
        /// How many there are, after combining pod and stash.
        count: usize,
        /// How many are accepted.
        limit: usize,
    },
    /// The pod is bound to a virtual node its own constraints exclude.
    #[error("virtual node {node} is the wrong place for this pod: {reason}")]
    WrongVirtualNode {
        /// The virtual node.
        node: String,
        /// Which constraint excludes it.
        reason: String,
    },
}
