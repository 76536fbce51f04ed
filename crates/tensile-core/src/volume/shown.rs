// SPDX-License-Identifier: Apache-2.0
//! The volume upstairs that shows one below.

use serde_json::{Value, json};

use super::{Claim, label, text};
use crate::{names, pod::LinkView};

/// Kubernetes' annotation by which its volume controller leaves deletion to who provisioned.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// The name of the volume upstairs that shows the one of `claim`.
#[must_use]
pub fn shown_name(claim: &Claim) -> String {
    format!("pvc-{}", claim.uid)
}

/// The claim of the volume called `name`, if that shows one; `claim` is its annotation.
#[must_use]
pub fn shown_claim(name: &str, claim: &str) -> Option<Claim> {
    super::claim_of(claim, name.strip_prefix("pvc-")?)
}

/// The virtual node of which `volume` shows a volume, as a label value; `None` when it is an ordinary one.
pub(super) fn shown_by(volume: &Value) -> Option<&str> {
    let shows = text(volume, "/spec/csi/driver") == Some(names::PROVISIONER);
    label(volume, names::VIRTUAL_NODE).filter(|_| shows)
}

/// The volume to create upstairs for `claim`, whose copy below is `lower`, with this capacity.
pub(super) fn volume(
    claim: &Claim,
    upper: &Value,
    lower: &Value,
    class: Option<&Value>,
    capacity: &str,
    link: &LinkView,
) -> Value {
    let (node, empty) = (&link.virtual_node, json!({}));
    let spec = upper.get("spec").unwrap_or(&empty);
    // The API's default for a class; without one, nobody said that data may go.
    let policy = class.map_or("Retain", |class| text(class, "/reclaimPolicy").unwrap_or("Delete"));
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": shown_name(claim),
            "labels": { names::VIRTUAL_NODE: names::label_value(node) },
            "annotations": {
                names::CLAIM: format!("{}/{}", claim.namespace, claim.name),
                PROVISIONED_BY: names::PROVISIONER,
            },
        },
        "spec": {
            "accessModes": spec.get("accessModes"),
            "capacity": { "storage": capacity },
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace, "name": claim.name, "uid": claim.uid,
            },
            "csi": {
                "driver": names::PROVISIONER,
                "volumeHandle": lower.pointer("/metadata/uid"),
                "volumeAttributes": {
                    "namespace": lower.pointer("/metadata/namespace"), "claim": lower.pointer("/metadata/name"),
                },
            },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{
                "matchExpressions": [{ "key": names::HOSTNAME, "operator": "In", "values": [node] }],
            }] } },
            "persistentVolumeReclaimPolicy": policy,
        },
    });
    for member in ["storageClassName", "volumeMode", "volumeAttributesClassName"] {
        if let Some(value) = spec.get(member) {
            volume["spec"][member] = value.clone();
        }
    }
    volume
}
