// SPDX-License-Identifier: Apache-2.0
//! The ConfigMaps and Secrets that a pod refers to, wherever the API lets it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{names, sync::Kind};

/// What a pod refers to, each object once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References(BTreeMap<(Kind, String), bool>);

impl References {
    /// Kind and name of each, and whether the pod can do without it.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &str, bool)> {
        self.0.iter().map(|((kind, name), optional)| (*kind, name.as_str(), *optional))
    }

    /// The pod refers to nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One that is optional here and required there is required.
    fn add(&mut self, kind: Kind, name: &str, optional: bool) {
        let known = self.0.entry((kind, name.to_owned())).or_insert(true);
        *known &= optional;
    }
}

impl FromIterator<(Kind, String)> for References {
    /// What cannot be done without.
    fn from_iter<T: IntoIterator<Item = (Kind, String)>>(all: T) -> Self {
        Self(all.into_iter().map(|reference| (reference, false)).collect())
    }
}

/// Names below of what a pod refers to, by kind and name upstairs. Noted on the lower pod, since only there it is known
/// which objects it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Names(BTreeMap<Kind, BTreeMap<String, String>>);

impl Names {
    /// Those noted on a lower pod, in annotation [`names::REFERENCES`]; none when there are none that can be read.
    #[must_use]
    pub fn noted(annotation: Option<&str>) -> Self {
        annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The object `upper` is called `lower` below.
    pub fn insert(&mut self, kind: Kind, upper: &str, lower: &str) {
        self.0.entry(kind).or_default().insert(upper.to_owned(), lower.to_owned());
    }

    /// Kind, name upstairs, and name below of each.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &str, &str)> {
        let all = self.0.iter();
        all.flat_map(|(kind, names)| names.iter().map(|(upper, lower)| (*kind, upper.as_str(), lower.as_str())))
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.values().all(BTreeMap::is_empty)
    }

    /// The name below of the object `upper`.
    #[must_use]
    pub fn get(&self, kind: Kind, upper: &str) -> Option<&str> {
        self.0.get(&kind)?.get(upper).map(String::as_str)
    }
}

/// What the spec of `pod`, or of a patch of one, refers to.
pub fn references(pod: &mut Value) -> References {
    let mut found = References::default();
    visit(pod, &mut |kind, name, optional| found.add(kind, name, optional));
    found
}

/// Makes the references of `pod`, or of a patch of one, those to the objects below.
pub fn rename(pod: &mut Value, names: &Names) {
    visit(pod, &mut |kind, name, _| {
        if let Some(below) = names.get(kind, name) {
            below.clone_into(name);
        }
    });
}

/// Notes `names` on a pod.
pub(super) fn note(pod: &mut Value, names: &Names) {
    if let (Some(Value::Object(annotations)), Ok(text)) =
        (pod.pointer_mut("/metadata/annotations"), serde_json::to_string(names))
    {
        annotations.insert(names::REFERENCES.to_owned(), Value::String(text));
    }
}

/// Where volumes name Secrets.
const SECRETS_OF_VOLUMES: &[&[&str]] = &[
    &["azureFile", "secretName"],
    &["cephfs", "secretRef", "name"],
    &["cinder", "secretRef", "name"],
    &["csi", "nodePublishSecretRef", "name"],
    &["flexVolume", "secretRef", "name"],
    &["iscsi", "secretRef", "name"],
    &["rbd", "secretRef", "name"],
    &["scaleIO", "secretRef", "name"],
    &["secret", "secretName"],
    &["storageos", "secretRef", "name"],
];

/// Called with kind, name and optionality of each reference.
type Seen<'a> = &'a mut dyn FnMut(Kind, &mut String, bool);

fn visit(pod: &mut Value, seen: Seen<'_>) {
    let Some(Value::Object(spec)) = pod.get_mut("spec") else { return };
    for secret in items(spec, "imagePullSecrets") {
        // A kubelet that does not find it tries to pull without (`pkg/kubelet/kubelet_pods.go`, `getPullSecretsForPod`).
        refer(secret, &["name"], Kind::Secret, Some(true), seen);
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items(spec, list) {
            let Value::Object(container) = container else { continue };
            for source in items(container, "envFrom") {
                refer(source, &["configMapRef", "name"], Kind::ConfigMap, None, seen);
                refer(source, &["secretRef", "name"], Kind::Secret, None, seen);
            }
            for variable in items(container, "env") {
                refer(variable, &["valueFrom", "configMapKeyRef", "name"], Kind::ConfigMap, None, seen);
                refer(variable, &["valueFrom", "secretKeyRef", "name"], Kind::Secret, None, seen);
            }
        }
    }
    for volume in items(spec, "volumes") {
        refer(volume, &["configMap", "name"], Kind::ConfigMap, None, seen);
        for path in SECRETS_OF_VOLUMES {
            refer(volume, path, Kind::Secret, None, seen);
        }
        if let Some(Value::Object(projected)) = volume.get_mut("projected") {
            for source in items(projected, "sources") {
                refer(source, &["configMap", "name"], Kind::ConfigMap, None, seen);
                refer(source, &["secret", "name"], Kind::Secret, None, seen);
            }
        }
    }
}

/// One reference, if there is one: `path` leads to the name, and what it is in says whether it is optional.
fn refer(place: &mut Value, path: &[&str], kind: Kind, optional: Option<bool>, seen: Seen<'_>) {
    let Some((member, path)) = path.split_last() else { return };
    let source = path.iter().try_fold(place, |place, member| place.get_mut(*member));
    let Some(Value::Object(source)) = source else { return };
    let optional = optional.unwrap_or_else(|| source.get("optional") == Some(&Value::Bool(true)));
    if let Some(Value::String(name)) = source.get_mut(*member).filter(|name| **name != "") {
        seen(kind, name, optional);
    }
}

/// The objects of a list.
fn items<'a>(parent: &'a mut Map<String, Value>, list: &str) -> impl Iterator<Item = &'a mut Value> {
    let items = parent.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    items.filter(|item| item.is_object())
}
