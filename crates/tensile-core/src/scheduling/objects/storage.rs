// SPDX-License-Identifier: Apache-2.0
//! Claims, volumes, storage classes, and what storage drivers nodes have.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::super::label_selector::LabelSelector;
use super::super::labels::Labels;
use super::super::node_selector::{NodeSelector, Term};
use super::super::text::Text;
use super::{Written, or_default};
use crate::resources::{Quantity, ResourceName, ResourceVector};

/// How a volume may be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessMode {
    /// By one node.
    ReadWriteOnce,
    /// By many nodes that read.
    ReadOnlyMany,
    /// By many nodes.
    ReadWriteMany,
    /// By one pod.
    ReadWriteOncePod,
    /// One that this version does not know.
    Unknown,
}

fn access_modes(written: &[Box<str>]) -> Box<[AccessMode]> {
    let mode = |written: &str| match written {
        "ReadWriteOnce" => AccessMode::ReadWriteOnce,
        "ReadOnlyMany" => AccessMode::ReadOnlyMany,
        "ReadWriteMany" => AccessMode::ReadWriteMany,
        "ReadWriteOncePod" => AccessMode::ReadWriteOncePod,
        _ => AccessMode::Unknown,
    };
    written.iter().map(|written| mode(written)).collect()
}

/// A `PersistentVolumeClaim`.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of the API")]
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// The volume it names.
    pub volume: Option<Text>,
    /// The binding of claim and volume is complete.
    pub bound: bool,
    /// Its volume is gone.
    pub lost: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// Its class; `None` when it names none, which only a volume of no class serves.
    pub class: Option<Text>,
    /// How it is to be mounted.
    pub access: Box<[AccessMode]>,
    /// A block device is wanted, not a file system.
    pub block: bool,
    /// Bytes it asks for.
    pub storage: i64,
    /// Labels its volume must have.
    pub selector: LabelSelector,
    /// The node that its volume is made for.
    pub selected_node: Option<Text>,
}

/// A `PersistentVolume`.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Its name.
    pub name: Text,
    /// Its labels: older drivers say there where it can be mounted.
    pub labels: Labels,
    /// Bytes it holds.
    pub storage: i64,
    /// How it may be mounted.
    pub access: Box<[AccessMode]>,
    /// A block device, not a file system.
    pub block: bool,
    /// Its class.
    pub class: Option<Text>,
    /// The claim it is or will be bound to: namespace and name.
    pub claim: Option<(Text, Text)>,
    /// Nobody has it.
    pub available: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// Nodes it can be mounted on.
    pub nodes: NodeSelector,
    /// What its driver calls it.
    pub handle: Option<VolumeHandle>,
}

/// A volume as its driver knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeHandle {
    /// The driver.
    pub driver: Text,
    /// What the driver calls the volume.
    pub handle: Text,
}

/// A `StorageClass`.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageClass {
    /// Its name.
    pub name: Text,
    /// What makes its volumes; `kubernetes.io/no-provisioner` makes none.
    pub provisioner: Text,
    /// Volumes are bound when a pod is scheduled, not before.
    pub waits: bool,
    /// It is what a claim gets that names no class.
    pub default: bool,
    /// Nodes that its volumes can be made for; `None`: all.
    pub topologies: Option<NodeSelector>,
}

/// A `CSINode`.
#[derive(Clone, Debug, PartialEq)]
pub struct CsiNode {
    /// The node's name.
    pub name: Text,
    /// How many volumes of each driver it can mount, where there is a limit.
    pub limits: BTreeMap<Text, u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: Text,
    #[serde(default)]
    namespace: Text,
    #[serde(default)]
    labels: Labels,
    #[serde(default, deserialize_with = "or_default")]
    annotations: Annotations,
    deletion_timestamp: Option<de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "pv.kubernetes.io/bind-completed")]
    bind_completed: Option<de::IgnoredAny>,
    #[serde(rename = "volume.kubernetes.io/selected-node")]
    selected_node: Option<Text>,
    #[serde(rename = "volume.beta.kubernetes.io/storage-class")]
    class: Option<Text>,
    #[serde(rename = "storageclass.kubernetes.io/is-default-class")]
    default_class: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    #[serde(deserialize_with = "or_default")]
    requests: ResourceVector,
}

fn storage(list: &ResourceVector) -> i64 {
    super::super::amounts::units(list.get(&ResourceName::from("storage")).unwrap_or(0))
}

impl<'de> Deserialize<'de> for Claim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            volume_name: Option<Text>,
            storage_class_name: Option<Text>,
            #[serde(deserialize_with = "or_default")]
            access_modes: Vec<Box<str>>,
            volume_mode: Option<Box<str>>,
            #[serde(deserialize_with = "or_default")]
            resources: Resources,
            #[serde(deserialize_with = "or_default")]
            selector: LabelSelector,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            phase: Option<Box<str>>,
        }
        let Written::<Meta, Spec, Status> { metadata, spec, status } = Written::deserialize(deserializer)?;
        let volume = spec.volume_name.filter(|name| !name.is_empty());
        Ok(Self {
            namespace: metadata.namespace,
            name: metadata.name,
            bound: volume.is_some() && metadata.annotations.bind_completed.is_some(),
            volume,
            lost: status.phase.as_deref() == Some("Lost"),
            terminating: metadata.deletion_timestamp.is_some(),
            class: metadata.annotations.class.or(spec.storage_class_name).filter(|class| !class.is_empty()),
            access: access_modes(&spec.access_modes),
            block: spec.volume_mode.as_deref() == Some("Block"),
            storage: storage(&spec.resources.requests),
            selector: spec.selector,
            selected_node: metadata.annotations.selected_node.filter(|node| !node.is_empty()),
        })
    }
}

impl<'de> Deserialize<'de> for Volume {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            #[serde(deserialize_with = "or_default")]
            capacity: BTreeMap<Box<str>, Quantity>,
            #[serde(deserialize_with = "or_default")]
            access_modes: Vec<Box<str>>,
            volume_mode: Option<Box<str>>,
            storage_class_name: Option<Text>,
            claim_ref: Option<Reference>,
            #[serde(deserialize_with = "or_default")]
            node_affinity: Affinity,
            csi: Option<Csi>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Affinity {
            required: Value,
        }
        #[derive(Deserialize)]
        struct Reference {
            #[serde(default)]
            namespace: Text,
            #[serde(default)]
            name: Text,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Csi {
            driver: Text,
            volume_handle: Text,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            phase: Option<Box<str>>,
        }
        let Written::<Meta, Spec, Status> { metadata, spec, status } = Written::deserialize(deserializer)?;
        let capacity = spec.capacity.get("storage").map_or(0, |storage| storage.units());
        Ok(Self {
            name: metadata.name,
            labels: metadata.labels,
            storage: super::super::amounts::clamped(capacity),
            access: access_modes(&spec.access_modes),
            block: spec.volume_mode.as_deref() == Some("Block"),
            class: metadata.annotations.class.or(spec.storage_class_name).filter(|class| !class.is_empty()),
            claim: spec.claim_ref.map(|claim| (claim.namespace, claim.name)),
            available: status.phase.as_deref() == Some("Available"),
            terminating: metadata.deletion_timestamp.is_some(),
            nodes: NodeSelector::of_node_selector(&spec.node_affinity.required).map_err(de::Error::custom)?,
            handle: spec.csi.map(|csi| VolumeHandle { driver: csi.driver, handle: csi.volume_handle }),
        })
    }
}

impl<'de> Deserialize<'de> for StorageClass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Class {
            metadata: Meta,
            #[serde(default)]
            provisioner: Text,
            volume_binding_mode: Option<Box<str>>,
            #[serde(default, deserialize_with = "or_default")]
            allowed_topologies: Vec<Topology>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Topology {
            #[serde(default, deserialize_with = "or_default")]
            match_label_expressions: Vec<Expression>,
        }
        #[derive(Deserialize)]
        struct Expression {
            key: Box<str>,
            #[serde(default, deserialize_with = "or_default")]
            values: Vec<Box<str>>,
        }
        let written = Class::deserialize(deserializer)?;
        let term = |topology: Topology| {
            let expressions = topology.match_label_expressions.into_iter();
            Term::of_labels(expressions.map(|expression| (expression.key, expression.values.into())))
        };
        let terms: Vec<Term> = written.allowed_topologies.into_iter().map(term).collect();
        Ok(Self {
            name: written.metadata.name,
            provisioner: written.provisioner,
            waits: written.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            default: written.metadata.annotations.default_class.as_deref() == Some("true"),
            topologies: (!terms.is_empty()).then(|| NodeSelector::of_terms(terms)),
        })
    }
}

impl<'de> Deserialize<'de> for CsiNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            #[serde(deserialize_with = "or_default")]
            drivers: Vec<Driver>,
        }
        #[derive(Deserialize)]
        struct Driver {
            name: Text,
            #[serde(default, deserialize_with = "or_default")]
            allocatable: Allocatable,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Allocatable {
            count: Option<u32>,
        }
        let Written::<Meta, Spec, de::IgnoredAny> { metadata, spec, .. } = Written::deserialize(deserializer)?;
        let limit = |driver: Driver| Some((driver.name, driver.allocatable.count?));
        Ok(Self { name: metadata.name, limits: spec.drivers.into_iter().filter_map(limit).collect() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_bound_when_the_binding_is_complete() {
        let claim = |annotations: Value| -> Claim {
            serde_json::from_str(
                &json!({"metadata": {"name": "c", "namespace": "n", "annotations": annotations},
                "spec": {"volumeName": "v", "storageClassName": "fast", "accessModes": ["ReadWriteOncePod", "New"],
                    "resources": {"requests": {"storage": "1Ki"}}}, "status": {"phase": "Bound"}})
                .to_string(),
            )
            .unwrap()
        };
        assert!(!claim(json!(null)).bound);
        let bound = claim(json!({"pv.kubernetes.io/bind-completed": "yes"}));
        assert!(bound.bound && !bound.lost);
        assert_eq!((bound.class.as_deref(), bound.storage), (Some("fast"), 1024));
        assert_eq!(&*bound.access, &[AccessMode::ReadWriteOncePod, AccessMode::Unknown]);
    }

    #[test]
    fn the_limits_of_drivers_are_read_where_there_are_any() {
        let node: CsiNode = serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"drivers": [
            {"name": "a", "nodeID": "n", "topologyKeys": null, "allocatable": {"count": 3}},
            {"name": "b", "nodeID": "n", "allocatable": null}, {"name": "c", "nodeID": "n"}]}}))
        .unwrap();
        assert_eq!(node.limits, BTreeMap::from([("a".into(), 3)]));
    }
}
