// SPDX-License-Identifier: Apache-2.0
//! The virtual Node as raw JSON: how a lower cluster introduces itself upstairs.
//!
//! Times in conditions are left to whoever writes the Node: only there it is known when a condition changed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{capacity::Totals, features};
use crate::names;

#[cfg(test)]
mod tests;

/// What the operator decides about a virtual node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSettings {
    /// `metadata.name`, also its hostname label.
    pub name: String,
    /// The lower cluster's name, for label `clusterID`; none leaves the label out.
    pub cluster_id: Option<String>,
    /// Labels on top. They win over what is derived from the lower nodes, not over [`names::NODE_TYPE`] and the
    /// hostname, by which the rest of the system knows the node.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The taint that keeps ordinary pods away, or none (`--disable-taint`).
    pub taint: Option<Taint>,
    /// Where API servers reach the kubelet API.
    ///
    /// No `Hostname` is added: API servers prefer it by default, and a virtual node's name resolves nowhere.
    pub addresses: Vec<Address>,
    /// Port of the kubelet API, or none when it is not served.
    pub port: Option<u16>,
    /// Version of the lower API server, shown as kubelet version while no lower kubelet has told its own.
    pub version: String,
}

/// An address of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `InternalIP`, `ExternalIP`, `InternalDNS`, `ExternalDNS` or `Hostname`.
    pub kind: String,
    /// The address itself.
    pub address: String,
}

/// A taint of the virtual node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, may be empty.
    pub value: String,
    /// What it does to pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaintEffect {
    /// New ones stay away.
    NoSchedule,
    /// New ones stay away if they can.
    PreferNoSchedule,
    /// New ones stay away, those on the node are evicted.
    NoExecute,
}

/// Text that names no taint effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no taint effect: use NoSchedule, PreferNoSchedule or NoExecute")]
pub struct UnknownTaintEffect(String);

/// Whether the node can run pods, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It can.
    Ready,
    /// It cannot.
    NotReady {
        /// One word for programs, in CamelCase.
        reason: String,
        /// A sentence for people.
        message: String,
    },
}

impl Taint {
    /// The taint `virtual-kubelet.io/provider=<provider>:NoSchedule`.
    #[must_use]
    pub fn provider(provider: &str) -> Self {
        Self { key: names::PROVIDER_TAINT.into(), value: provider.into(), effect: TaintEffect::NoSchedule }
    }
}

impl TaintEffect {
    /// The effect's name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

impl std::str::FromStr for TaintEffect {
    type Err = UnknownTaintEffect;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute]
            .into_iter()
            .find(|effect| effect.as_str() == text)
            .ok_or_else(|| UnknownTaintEffect(text.to_owned()))
    }
}

/// The virtual Node: labels, taint, and a status that offers what the lower cluster can still take.
///
/// Capacity and allocatable are the same: what is not on offer is not this node's.
///
/// A label for operating system or architecture is set only when all lower nodes agree. A label has one value, and
/// with mixed nodes each value would be untrue for some: the pods that name an architecture carry that constraint
/// below (the stash), where each lower node has its own label, so they land without it. `status.nodeInfo` names all
/// of them, comma separated.
#[must_use]
pub fn build(settings: &NodeSettings, totals: &Totals, readiness: &Readiness) -> Value {
    let mut metadata = json!({"name": settings.name, "labels": labels(settings, totals)});
    if let (Some(metadata), false) = (metadata.as_object_mut(), settings.annotations.is_empty()) {
        metadata.insert("annotations".into(), text_map(&settings.annotations));
    }
    let resources = totals.allocatable.to_json();
    let mut status = json!({
        "capacity": resources,
        "allocatable": resources,
        "conditions": conditions(readiness),
        "addresses": settings.addresses.iter().map(Address::to_json).collect::<Vec<_>>(),
        "nodeInfo": {
            "operatingSystem": joined(&totals.os),
            "architecture": joined(&totals.arch),
            "kubeletVersion": totals.kubelet_version.as_ref().unwrap_or(&settings.version),
        },
    });
    if let (Some(status), Some(port)) = (status.as_object_mut(), settings.port) {
        // Port with a capital P: so it is in the API.
        status.insert("daemonEndpoints".into(), json!({"kubeletEndpoint": {"Port": port}}));
        if features::serves_websockets(&settings.version) {
            status.insert("declaredFeatures".into(), json!([features::WEBSOCKETS]));
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": settings.taint.iter().map(Taint::to_json).collect::<Vec<_>>()},
        "status": status,
    })
}

fn labels(settings: &NodeSettings, totals: &Totals) -> Value {
    let mut labels: BTreeMap<&str, &str> =
        BTreeMap::from([(names::NODE_ROLE, "agent"), (names::EXCLUDE_BALANCERS, "")]);
    for (values, keys) in [(&totals.os, names::OS_LABELS), (&totals.arch, names::ARCH_LABELS)] {
        if let (Some(value), 1) = (values.first(), values.len()) {
            labels.extend(keys.map(|key| (key, value.as_str())));
        }
    }
    labels.extend(settings.cluster_id.as_deref().map(|id| (names::CLUSTER_ID, id)));
    labels.extend(settings.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    labels.insert(names::NODE_TYPE, names::VIRTUAL_KUBELET);
    labels.insert(names::HOSTNAME, &settings.name);
    labels.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect()
}

fn text_map(map: &BTreeMap<String, String>) -> Value {
    map.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect::<Map<_, _>>().into()
}

fn joined(values: &BTreeSet<String>) -> String {
    values.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

fn conditions(readiness: &Readiness) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message});
    let ready = match readiness {
        Readiness::Ready => condition("Ready", "True", "KubeletReady", "the lower cluster takes pods"),
        Readiness::NotReady { reason, message } => condition("Ready", "False", reason, message),
    };
    // Pressure is a matter of single lower nodes; the cluster as a whole has none of its own.
    Value::from(vec![
        ready,
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "lower nodes watch their own memory"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "lower nodes watch their own disks"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "lower nodes watch their own processes"),
        condition("NetworkUnavailable", "False", "RouteCreated", "lower nodes have their own network"),
    ])
}

impl Address {
    fn to_json(&self) -> Value {
        json!({"type": self.kind, "address": self.address})
    }
}

impl Taint {
    fn to_json(&self) -> Value {
        json!({"key": self.key, "value": self.value, "effect": self.effect.as_str()})
    }
}
