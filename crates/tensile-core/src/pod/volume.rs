// SPDX-License-Identifier: Apache-2.0
//! Volumes of the lower pod.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{LinkView, NOTHING, Refusal, claims, container, fields::Fields, upper::Upper};

/// Sources of a volume that mean below what they mean upstairs, or fail visibly there (a claim, a driver or a storage
/// class that is missing).
pub(super) const SOURCES: Fields = Fields {
    kept: &[
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "glusterfs",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "persistentVolumeClaim",
        "photonPersistentDisk",
        "portworxVolume",
        "projected",
        "quobyte",
        "rbd",
        "scaleIO",
        "secret",
        "storageos",
        "vsphereVolume",
    ],
    decided: &["name"],
};

/// Sources within a projected volume. The others are credentials that one cluster's kubelets and signers issue for one
/// cluster's API server: those of the lower cluster would be of no use, or of too much. [`TOKEN`] is one that can be had
/// upstairs.
pub(super) const PROJECTIONS: Fields = Fields { kept: &["configMap", "downwardAPI", "secret"], decided: &[] };

/// A token of the pod's service account.
const TOKEN: &str = "serviceAccountToken";

/// All labels of a pod, as a file shows them.
pub(super) const LABELS: &str = "metadata.labels";

/// Whether a file of the pod shows all its labels.
pub(super) fn shows_labels(upper: &Upper<'_>) -> bool {
    let volumes = upper.list("volumes").iter();
    let downward = volumes.flat_map(|volume| {
        let sources = volume.get("projected").and_then(|projected| projected.get("sources")?.as_array());
        std::iter::once(volume).chain(sources.into_iter().flatten()).filter_map(|source| source.get("downwardAPI"))
    });
    let mut items = downward.filter_map(|downward| downward.get("items")?.as_array()).flatten();
    items.any(|item| item.get("fieldRef").is_some_and(|field| field["fieldPath"] == LABELS))
}

/// The pod's volumes, but for the token volume that admission adds if pods have no service account below.
pub(super) fn lower(upper: &Upper<'_>, link: &LinkView, dropped: &mut Vec<String>) -> Result<Vec<Value>, Refusal> {
    let mut volumes = Vec::new();
    for volume in upper.list("volumes").iter().filter(|volume| link.identity.is_some() || !is_api_access(volume)) {
        volumes.push(Value::Object(volume_below(volume, upper, link, dropped)?));
    }
    Ok(volumes)
}

/// Names of the volumes that [`lower`] leaves out: mounts of them go as well.
pub(super) fn left_out<'a>(upper: &Upper<'a>, link: &LinkView) -> BTreeSet<&'a str> {
    let volumes = upper.list("volumes").iter();
    volumes.filter(|volume| link.identity.is_none() && is_api_access(volume)).map(name_of).collect()
}

/// The volume with a service account token that admission adds (Kubernetes
/// `plugin/pkg/admission/serviceaccount/admission.go`).
fn is_api_access(volume: &Value) -> bool {
    name_of(volume).starts_with("kube-api-access-") && volume.get("projected").is_some()
}

/// Whether the pod projects tokens only because admission added them.
pub(super) fn needs_no_token(upper: &Upper<'_>) -> bool {
    let asked_for = upper.list("volumes").iter().filter(|volume| !is_api_access(volume)).any(|volume| {
        let sources = volume.get("projected").and_then(|projected| projected.get("sources")?.as_array());
        sources.into_iter().flatten().any(|source| source.get(TOKEN).is_some())
    });
    upper.account() == "default"
        && upper.spec.get("automountServiceAccountToken") != Some(&Value::Bool(true))
        && !asked_for
}

fn volume_below(
    volume: &Value,
    upper: &Upper<'_>,
    link: &LinkView,
    dropped: &mut Vec<String>,
) -> Result<Map<String, Value>, Refusal> {
    let name = name_of(volume);
    let path = format!("spec.volumes[{name}]");
    let members = volume.as_object().unwrap_or(&NOTHING);

    let mut unknown = Vec::new();
    let mut below = SOURCES.sift(members, &path, &mut unknown);
    if below.is_empty() && !unknown.is_empty() {
        let found: Vec<&str> = members.keys().map(String::as_str).filter(|member| *member != "name").collect();
        return Err(Refusal::Volume { volume: name.to_owned(), source_names: found.join(", ") });
    }
    if link.refuse_host_path && below.contains_key("hostPath") {
        return Err(Refusal::HostPath(name.to_owned()));
    }
    if link.namespaces.is_shared() && !link.brings_claims && below.contains_key("persistentVolumeClaim") {
        return Err(Refusal::Claim(name.to_owned()));
    }
    dropped.append(&mut unknown);
    if link.brings_claims && below.remove("ephemeral").is_some() {
        below.insert("persistentVolumeClaim".to_owned(), claims::of_ephemeral(upper.name, name));
    }

    below.insert("name".to_owned(), Value::String(name.to_owned()));
    if let Some(downward) = below.get_mut("downwardAPI") {
        container::rewrite_items(downward, link);
    }
    if let Some(Value::Array(sources)) = below.get_mut("projected").and_then(|projected| projected.get_mut("sources")) {
        *sources = projections(sources, &path, link, dropped);
    }
    Ok(below)
}

fn projections(sources: &[Value], path: &str, link: &LinkView, dropped: &mut Vec<String>) -> Vec<Value> {
    let mut below = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        if let Some(token) = source.get(TOKEN).filter(|_| link.identity.is_some()) {
            below.push(json!({TOKEN: token}));
            continue;
        }
        let path = format!("{path}.projected.sources[{index}]");
        let mut source = PROJECTIONS.sift(source.as_object().unwrap_or(&NOTHING), &path, dropped);
        if let Some(downward) = source.get_mut("downwardAPI") {
            container::rewrite_items(downward, link);
        }
        if !source.is_empty() {
            below.push(Value::Object(source));
        }
    }
    below
}

fn name_of(volume: &Value) -> &str {
    volume.get("name").and_then(Value::as_str).unwrap_or_default()
}
