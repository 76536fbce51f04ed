// SPDX-License-Identifier: Apache-2.0
//! A volume of the upper cluster on its way down with its claim.

use serde_json::{Map, Value, json};

use super::{Claim, Problem, text};
use crate::{names, placement::restore, pod::LinkView};

/// What is decided of a volume; everything else, its source above all, goes down as it is.
const DECIDED: &[&str] = &["claimRef", "nodeAffinity", "persistentVolumeReclaimPolicy", "storageClassName"];

/// A Secret that a volume names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What the volume `upper` is called below.
#[must_use]
pub fn carried_name(upper: &Value, link: &LinkView) -> String {
    let (name, uid) = (text(upper, "/metadata/name"), text(upper, "/metadata/uid"));
    let whose = format!("{}/{}/{}", link.upper_cluster, link.virtual_node, uid.unwrap_or_default());
    names::hashed(name.unwrap_or_default(), &whose)
}

/// The volume to create below for `upper`, for the claim below of `claim`.
pub(super) fn volume(claim: &Claim, upper: &Value, lower_claim: &str, link: &LinkView) -> Result<Value, Problem> {
    let name = text(upper, "/metadata/name").unwrap_or_default();
    let empty = Map::new();
    let given = upper.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    if link.refuse_host_path && ["hostPath", "local"].iter().any(|source| given.contains_key(*source)) {
        return Err(Problem::HostPath(name.to_owned()));
    }
    let kept = given.iter().filter(|(member, _)| !DECIDED.contains(&member.as_str()));
    let mut spec: Map<String, Value> = kept.map(|(member, value)| (member.clone(), value.clone())).collect();
    if let Some(affinity) = node_affinity(name, given, link)? {
        spec.insert("nodeAffinity".to_owned(), affinity);
    }
    spec.insert("persistentVolumeReclaimPolicy".to_owned(), json!("Retain"));
    spec.insert("storageClassName".to_owned(), json!(""));
    spec.insert(
        "claimRef".to_owned(),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": link.lower_namespace(&claim.namespace), "name": lower_claim,
        }),
    );
    Ok(json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": carried_name(upper, link),
            "labels": link.owner(),
            "annotations": {
                names::GLOBAL: names::TRUE,
                names::UPPER_NAME: name,
                names::UPPER_UID: upper.pointer("/metadata/uid"),
                names::CLAIM: format!("{}/{}", claim.namespace, claim.name),
            },
        },
        "spec": spec,
    }))
}

/// The node affinity below: as a pod's required one, its terms that hold for this virtual node, without the keys that were
/// decided upstairs.
fn node_affinity(volume: &str, spec: &Map<String, Value>, link: &LinkView) -> Result<Option<Value>, Problem> {
    let Some(required) = spec.get("nodeAffinity").and_then(|affinity| affinity.get("required")) else {
        return Ok(None);
    };
    let pod = json!({ "spec": { "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
    } } } });
    let placement = restore(&pod, &link.node_labels, &link.virtual_node, &link.kept_keys);
    let placement =
        placement.map_err(|error| Problem::Excluded { volume: volume.to_owned(), reason: error.to_string() })?;
    let below = placement
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.pointer("/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution").cloned());
    Ok(below.map(|required| json!({ "required": required })))
}

/// The Secrets that the source of a volume names, each with its place.
fn references(volume: &mut Value) -> Vec<&mut Map<String, Value>> {
    let sources = volume.get_mut("spec").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut);
    let members = sources.filter_map(Value::as_object_mut).flat_map(|source| source.iter_mut());
    let named = members.filter(|(member, _)| *member == "secretRef" || member.ends_with("SecretRef"));
    named.filter_map(|(_, reference)| reference.as_object_mut()).collect()
}

/// The Secrets that a volume names, for those who attach, mount or expand it.
#[must_use]
pub fn secrets(volume: &Value) -> Vec<SecretRef> {
    let mut volume = volume.clone();
    let mut found: Vec<SecretRef> = references(&mut volume)
        .into_iter()
        .filter_map(|reference| {
            let text = |member| reference.get(member)?.as_str().map(str::to_owned);
            Some(SecretRef { namespace: text("namespace")?, name: text("name")? })
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// `volume` with its Secrets called as they are below: `below` tells the place of each.
#[must_use]
pub fn with_secrets(mut volume: Value, below: impl Fn(&SecretRef) -> Option<SecretRef>) -> Value {
    for reference in references(&mut volume) {
        let text = |member: &str| reference.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
        let secret = SecretRef { namespace: text("namespace"), name: text("name") };
        if let Some(SecretRef { namespace, name }) = below(&secret) {
            reference.insert("namespace".to_owned(), json!(namespace));
            reference.insert("name".to_owned(), json!(name));
        }
    }
    volume
}
