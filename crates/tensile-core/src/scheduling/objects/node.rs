// SPDX-License-Identifier: Apache-2.0
//! Nodes, reduced to what decides about fitting.

use serde::{Deserialize, Deserializer};

use super::super::amounts::{Amounts, units};
use super::super::labels::Labels;
use super::super::text::Text;
use super::{Written, or_default};
use crate::resources::{ResourceName, ResourceVector};
use crate::thin::Read::{self, Members, Whole};
use crate::thin::thin;

/// A node. Whether it is ready is not here: schedulers look at taints alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Text,
    /// Its labels.
    pub labels: Labels,
    /// Cordoned: `spec.unschedulable`.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Box<[Taint]>,
    /// `status.allocatable`, but for pods.
    pub allocatable: Amounts,
    /// How many pods it takes.
    pub pods: i64,
}

impl Node {
    /// Reads a node.
    ///
    /// # Errors
    /// When a member that counts has another shape than the API's.
    pub fn decode(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(thin(json, &READ).as_deref().unwrap_or(json))
    }
}

/// What is read of a node.
const READ: Read = Members(&[
    ("metadata", Members(&[("name", Whole), ("labels", Whole)])),
    ("spec", Members(&[("unschedulable", Whole), ("taints", Whole)])),
    ("status", Members(&[("allocatable", Whole)])),
]);

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
pub struct Taint {
    /// Its key.
    pub key: Box<str>,
    /// Its value, often empty.
    #[serde(default, deserialize_with = "or_default")]
    pub value: Box<str>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Box<str>,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Meta {
            name: Text,
            #[serde(default)]
            labels: Labels,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            #[serde(deserialize_with = "or_default")]
            unschedulable: bool,
            #[serde(deserialize_with = "or_default")]
            taints: Vec<Taint>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            #[serde(deserialize_with = "or_default")]
            allocatable: ResourceVector,
        }
        let Written::<Meta, Spec, Status> { metadata, spec, status } = Written::deserialize(deserializer)?;
        Ok(Self {
            name: metadata.name,
            labels: metadata.labels,
            unschedulable: spec.unschedulable,
            taints: spec.taints.into(),
            pods: units(status.allocatable.get(&ResourceName::PODS).unwrap_or(0)),
            allocatable: Amounts::of(&status.allocatable),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_read_and_what_it_lacks_is_empty() {
        let node: Node = serde_json::from_str(
            r#"{"metadata":{"name":"n","labels":{"zone":"a"},"managedFields":[{"x":1}]},
                "spec":{"unschedulable":true,"taints":[{"key":"k","effect":"NoSchedule"}]},
                "status":{"allocatable":{"cpu":"2","pods":"110"},"conditions":[]}}"#,
        )
        .unwrap();
        assert_eq!((&*node.name, node.labels.get("zone"), node.unschedulable), ("n", Some("a"), true));
        assert_eq!((node.allocatable.main, node.pods), ([2000, 0, 0], 110));
        assert_eq!(&*node.taints[0].key, "k");
        let bare: Node = serde_json::from_str(r#"{"metadata":{"name":"n","labels":null},"spec":null}"#).unwrap();
        assert_eq!((bare.pods, bare.taints.len()), (0, 0));
    }
}
