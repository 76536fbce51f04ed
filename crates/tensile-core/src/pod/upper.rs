// SPDX-License-Identifier: Apache-2.0
//! The upper pod as translation reads it.

use serde_json::{Map, Value};

use super::{LinkView, Refusal};
use crate::{
    names,
    placement::{self, Placement, PlacementError},
};

/// An upper pod that has what every pod has.
pub(super) struct Upper<'a> {
    pub(super) whole: &'a Value,
    pub(super) pod: &'a Map<String, Value>,
    pub(super) metadata: &'a Map<String, Value>,
    pub(super) spec: &'a Map<String, Value>,
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) uid: &'a str,
}

impl<'a> Upper<'a> {
    pub(super) fn read(whole: &'a Value) -> Result<Self, Refusal> {
        let pod = whole.as_object().ok_or_else(|| malformed("the object"))?;
        let metadata = object(pod, "metadata")?;
        let spec = object(pod, "spec")?;
        let text = |name: &str| match metadata.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.as_str()),
            _ => Err(malformed(&format!("metadata.{name}"))),
        };
        let (name, namespace, uid) = (text("name")?, text("namespace")?, text("uid")?);
        for list in ["containers", "initContainers", "ephemeralContainers", "volumes"] {
            match spec.get(list) {
                None | Some(Value::Null) => {}
                Some(Value::Array(items)) if items.iter().all(is_named) => {}
                Some(_) => return Err(malformed(&format!("spec.{list}"))),
            }
        }
        for map in ["labels", "annotations"] {
            if !matches!(metadata.get(map), None | Some(Value::Null | Value::Object(_))) {
                return Err(malformed(&format!("metadata.{map}")));
            }
        }
        Ok(Self { whole, pod, metadata, spec, name, namespace, uid })
    }

    /// A list of the spec; empty when it is absent.
    pub(super) fn list(&self, name: &str) -> &'a [Value] {
        self.spec.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Where the lower pod may land. Tolerations of the virtual node's own taint are of no use below.
    pub(super) fn placement(&self, link: &LinkView) -> Result<Placement, PlacementError> {
        let mut placement = placement::restore(self.whole, &link.node_labels, &link.virtual_node, &link.kept_keys)?;
        if let Some(Value::Array(tolerations)) = &mut placement.tolerations
            && !link.provider_taint_key.is_empty()
        {
            tolerations.retain(|toleration| toleration["key"] != link.provider_taint_key.as_str());
        }
        Ok(placement)
    }

    /// Its service account.
    pub(super) fn account(&self) -> &'a str {
        let named = self.spec.get("serviceAccountName").and_then(Value::as_str);
        named.filter(|name| !name.is_empty()).unwrap_or("default")
    }

    /// The text of the stash.
    pub(super) fn stash(&self) -> Option<&'a Value> {
        self.metadata.get("annotations")?.get(names::CLUSTER_SELECTOR)
    }
}

fn object<'a>(parent: &'a Map<String, Value>, name: &str) -> Result<&'a Map<String, Value>, Refusal> {
    parent.get(name).and_then(Value::as_object).ok_or_else(|| malformed(name))
}

fn is_named(item: &Value) -> bool {
    item.get("name").is_some_and(Value::is_string)
}

fn malformed(path: &str) -> Refusal {
    Refusal::Malformed(path.to_owned())
}
