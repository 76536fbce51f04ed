// SPDX-License-Identifier: Apache-2.0
//! The codec of the `clusterSelector` annotation: the placement fields that were taken off an upper pod.
//!
//! The format is tensile-kube's `ClustersNodeSelection`: `nodeSelector`, `affinity`, `tolerations`, in this order, empty
//! members omitted, encoded as Go's `encoding/json` would. Either project reads what the other wrote.
//!
//! # What is added, and what tensile-kube makes of it
//!
//! Three more members hold what the first three cannot say. Go's decoder ignores members it does not know, so
//! tensile-kube's virtual node still reads the annotation.
//!
//! - `requiredTerms`: the pod's required node affinity terms *whole*, present only where the kept half of a term decides
//!   which other half counts: `(clusterID=a AND gpu) OR (clusterID=b AND ssd)`. The upper pod then holds
//!   `clusterID=a OR clusterID=b`, and `affinity` holds `gpu OR ssd`. That is exactly what tensile-kube's own webhook
//!   would have stashed, hence its virtual node treats the pod no worse than before: with that project the pairing is
//!   lost, here `requiredTerms` keeps it. Storing the whole terms in `affinity` instead would have been shorter, but
//!   tensile-kube sends `affinity` down as it is, and no lower node carries the label `clusterID`.
//! - `preferredTerms`: the same for preferred terms.
//! - `topologySpreadConstraints`: the pod's constraints over topologies below the cluster level.
//!
//! tensile-kube restores `nodeSelector` and `tolerations` whole. It takes all of `affinity` if the upper pod has no
//! affinity left; otherwise only the node affinity: its required part, and its preferred part only if the upper pod has
//! no node affinity. So with tensile-kube's virtual node preferences may be lost next to kept required terms, as may
//! stashed pod (anti-)affinity. No hard node constraint is.

mod go_json;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::names;
use crate::placement::raw::{self, Malformed, Path};

/// What is stashed of a pod's placement. See the module's page for the format.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stash {
    /// Labels a lower node must have.
    pub node_selector: BTreeMap<String, String>,
    /// An `Affinity` of the core API, as far as it is decided below.
    pub affinity: Option<Value>,
    /// The pod's tolerations as its author wrote them.
    pub tolerations: Vec<Value>,
    /// `NodeSelectorTerm`s, whole; empty where `affinity` and the upper pod together say the same.
    pub required_terms: Vec<Value>,
    /// `PreferredSchedulingTerm`s, whole; empty where `affinity` alone says the same.
    pub preferred_terms: Vec<Value>,
    /// `TopologySpreadConstraint`s that are decided below.
    pub topology_spread: Vec<Value>,
    /// Members this version does not know. They are written again as they were read.
    pub other: BTreeMap<String, Value>,
}

/// Why an annotation is not a stash. It is never taken for "no constraints".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StashError {
    /// The text is not one JSON value.
    #[error("annotation {} is not JSON: {reason}", names::CLUSTER_SELECTOR)]
    NotJson {
        /// What the JSON parser says, with line and column.
        reason: String,
    },
    /// The text is JSON of another shape.
    #[error("annotation {name}: {0}", name = names::CLUSTER_SELECTOR)]
    Malformed(#[from] Malformed),
}

impl Stash {
    /// Reads an annotation, whoever wrote it. A `null` member counts as absent, as for Go.
    pub fn decode(text: &str) -> Result<Self, StashError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| StashError::NotJson { reason: error.to_string() })?;
        let root = Path::Root("");
        let mut members = raw::into_object(value, Path::Root("the value"))?;
        let selector = raw::take_object(&mut members, "nodeSelector", root)?.unwrap_or_default();
        Ok(Self {
            node_selector: raw::strings(selector, root.member("nodeSelector"))?,
            affinity: raw::take_object(&mut members, "affinity", root)?.map(Value::Object),
            tolerations: objects(&mut members, "tolerations")?,
            required_terms: objects(&mut members, "requiredTerms")?,
            preferred_terms: objects(&mut members, "preferredTerms")?,
            topology_spread: objects(&mut members, "topologySpreadConstraints")?,
            other: members.into_iter().collect(),
        })
    }

    /// The annotation's value: compact JSON, the same bytes for the same stash.
    pub fn encode(&self) -> String {
        let mut members: Map<String, Value> = self.other.clone().into_iter().collect();
        let selector =
            self.node_selector.iter().map(|(key, value)| (key.clone(), Value::from(value.clone()))).collect();
        raw::set_object(&mut members, "nodeSelector", selector);
        if let Some(affinity) = &self.affinity {
            members.insert("affinity".to_owned(), affinity.clone());
        }
        for (name, list) in [
            ("tolerations", &self.tolerations),
            ("requiredTerms", &self.required_terms),
            ("preferredTerms", &self.preferred_terms),
            ("topologySpreadConstraints", &self.topology_spread),
        ] {
            raw::set_list(&mut members, name, list.clone());
        }
        go_json::encode(&members)
    }

    /// The stash a pod carries, `None` if it carries none (no annotation, or an empty one, as in tensile-kube).
    pub fn of_pod(pod: &Value) -> Result<Option<Self>, StashError> {
        match pod.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(names::CLUSTER_SELECTOR)) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Self::decode(text).map(Some),
            Some(_) => Err(Path::Root("the value").must_be("a string").into()),
        }
    }
}

fn objects(members: &mut Map<String, Value>, name: &str) -> Result<Vec<Value>, Malformed> {
    let root = Path::Root("");
    let list = raw::take_list(members, name, root)?;
    match list.iter().position(|item| !item.is_object()) {
        Some(index) => Err(root.member(name).item(index).must_be("an object")),
        None => Ok(list),
    }
}
