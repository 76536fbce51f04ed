// SPDX-License-Identifier: Apache-2.0
//! The claim below.

use serde_json::{Map, Value, json};

use super::Claim;
use crate::{
    names,
    pod::{LinkView, fields::Fields},
};

/// What of a claim goes down. A data source is refused before.
const SPEC: Fields = Fields {
    kept: &["accessModes", "resources", "selector", "volumeAttributesClassName", "volumeMode"],
    decided: &["dataSource", "dataSourceRef", "storageClassName", "volumeName"],
};

/// The volume that a claim below is to get.
pub(super) enum Source<'a> {
    /// One of this class; none for the default one.
    Class(Option<&'a str>),
    /// This one.
    Volume(&'a str),
}

/// The claim below for `upper`, under its first name; members that do not go down are added to `dropped`.
pub(super) fn lower(
    upper: &Value,
    claim: &Claim,
    source: &Source<'_>,
    link: &LinkView,
    dropped: &mut Vec<String>,
) -> Value {
    let empty = Map::new();
    let mut spec = SPEC.sift(upper.get("spec").and_then(Value::as_object).unwrap_or(&empty), "spec", dropped);
    match source {
        Source::Class(class) => {
            if let Some(class) = class {
                spec.insert("storageClassName".to_owned(), json!(class));
            }
        }
        // No class: nobody but us has a say in which volume it gets.
        Source::Volume(volume) => {
            spec.remove("selector");
            spec.insert("storageClassName".to_owned(), json!(""));
            spec.insert("volumeName".to_owned(), json!(volume));
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": first_name(claim, link),
            "namespace": link.lower_namespace(&claim.namespace),
            "labels": link.marks(&claim.namespace),
            "annotations": {
                names::GLOBAL: names::TRUE,
                names::UPPER_NAME: format!("{}/{}", claim.namespace, claim.name),
                names::UPPER_UID: claim.uid,
            },
        },
        "spec": spec,
    })
}

/// What the claim below is called when its own name is taken there: by somebody else, or by an earlier claim of the name
/// whose volume is kept.
#[must_use]
pub fn lower_name(claim: &Claim, link: &LinkView) -> String {
    names::hashed(&claim.name, &format!("{}/{}/{}", link.upper_cluster, link.virtual_node, claim.uid))
}

/// What the claim below is called, unless that name is taken.
#[must_use]
pub fn first_name(claim: &Claim, link: &LinkView) -> String {
    if link.namespaces.is_shared() { lower_name(claim, link) } else { claim.name.clone() }
}

/// `object` by another name.
#[must_use]
pub fn named(mut object: Value, name: &str) -> Value {
    object["metadata"]["name"] = json!(name);
    object
}
