// SPDX-License-Identifier: Apache-2.0
//! What of a lower pod follows its upper pod after creation, and the record of what was last applied.
//!
//! A difference between an upper pod and its lower pod has two possible causes: somebody changed the upper one, which
//! must go down, or the lower API server's defaults, webhooks and operators changed the lower one (a registry mirror
//! rewrote an image, an injector added a label), which must stay, or the two clusters would undo one another's changes
//! for ever. So, as `kubectl apply` does, what was last applied is recorded on the lower pod: only what differs from
//! the *record* has changed upstairs, and only what is in the record may be removed below. Hashes are enough for that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::names;

/// The lists of containers whose images and resources may change.
pub(super) const LISTS: &[&str] = &["containers", "initContainers"];

/// The resources that can change in place (Kubernetes `ValidatePodResize`).
const RESIZABLE: &[&str] = &["cpu", "memory"];

/// Everything that may change on a running pod, by name: `T` is the value itself, or its hash in a record.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "T: Deserialize<'de>"))]
pub(super) struct Followed<T> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, T>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, T>,
    /// By list and name of the container: `containers/main`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) images: BTreeMap<String, T>,
    /// By container, if it is of one, and place: `containers/main/requests/cpu`, `limits/memory`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) resources: BTreeMap<String, T>,
    /// Of the spec, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) fields: BTreeMap<String, T>,
    /// By everything but `tolerationSeconds`, the one member that may change.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tolerations: BTreeMap<String, T>,
    /// Ephemeral containers, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) ephemeral: BTreeMap<String, T>,
    /// The stash cannot be followed, but that it changed must be noticed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stash: Option<T>,
}

impl<T> Default for Followed<T> {
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            images: BTreeMap::new(),
            resources: BTreeMap::new(),
            fields: BTreeMap::new(),
            tolerations: BTreeMap::new(),
            ephemeral: BTreeMap::new(),
            stash: None,
        }
    }
}

impl Followed<Value> {
    /// Reads metadata and spec of a lower pod, or of what one should be.
    pub(super) fn read(metadata: &Map<String, Value>, spec: &Map<String, Value>, stash: Option<&Value>) -> Self {
        let mut followed = Self {
            labels: members(metadata.get("labels")),
            annotations: members(metadata.get("annotations")),
            stash: stash.cloned(),
            ..Self::default()
        };
        for list in LISTS {
            for (name, container) in by_name(spec, list) {
                if let Some(image) = container.get("image") {
                    followed.images.insert(format!("{list}/{name}"), image.clone());
                }
                followed.read_resources(&format!("{list}/{name}/"), container.get("resources"));
            }
        }
        followed.read_resources("", spec.get("resources"));
        for field in ["activeDeadlineSeconds", "terminationGracePeriodSeconds"] {
            if let Some(value) = spec.get(field) {
                followed.fields.insert(field.to_owned(), value.clone());
            }
        }
        for toleration in items(spec, "tolerations") {
            followed.tolerations.insert(toleration_key(toleration), toleration.clone());
        }
        for (name, container) in by_name(spec, "ephemeralContainers") {
            followed.ephemeral.insert(name.to_owned(), container.clone());
        }
        followed
    }

    fn read_resources(&mut self, prefix: &str, resources: Option<&Value>) {
        for kind in ["requests", "limits"] {
            let Some(amounts) = resources.and_then(|resources| resources.get(kind)) else { continue };
            for name in RESIZABLE {
                if let Some(amount) = amounts.get(name) {
                    self.resources.insert(format!("{prefix}{kind}/{name}"), amount.clone());
                }
            }
        }
    }

    /// What is recorded of this.
    pub(super) fn hashes(&self) -> Followed<String> {
        let all = |values: &BTreeMap<String, Value>| {
            values.iter().map(|(name, value)| (name.clone(), names::fingerprint(value))).collect()
        };
        Followed {
            labels: all(&self.labels),
            annotations: all(&self.annotations),
            images: all(&self.images),
            resources: all(&self.resources),
            fields: all(&self.fields),
            tolerations: all(&self.tolerations),
            ephemeral: all(&self.ephemeral),
            stash: self.stash.as_ref().map(names::fingerprint),
        }
    }
}

impl Followed<String> {
    /// The record on a lower pod; `None` when there is none that can be read.
    pub(super) fn recorded(lower: &Value) -> Option<Self> {
        serde_json::from_str(lower.get("metadata")?.get("annotations")?.get(names::APPLIED)?.as_str()?).ok()
    }

    /// The record as an annotation.
    pub(super) fn to_text(&self) -> String {
        json!(self).to_string()
    }
}

/// The identity of a toleration.
pub(super) fn toleration_key(toleration: &Value) -> String {
    let mut identity = toleration.clone();
    if let Some(members) = identity.as_object_mut() {
        members.remove("tolerationSeconds");
    }
    names::fingerprint(&identity)
}

/// The items of a list of objects, with their names.
pub(super) fn by_name<'a>(spec: &'a Map<String, Value>, list: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    items(spec, list).iter().filter_map(|item| Some((item.get("name")?.as_str()?, item)))
}

/// A list of the spec; empty when it is absent.
pub(super) fn items<'a>(spec: &'a Map<String, Value>, list: &str) -> &'a [Value] {
    spec.get(list).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn members(map: Option<&Value>) -> BTreeMap<String, Value> {
    let members = map.and_then(Value::as_object).into_iter().flatten();
    members.map(|(name, value)| (name.clone(), value.clone())).collect()
}
