// SPDX-License-Identifier: Apache-2.0
//! What of a lower cluster goes when a virtual node leaves it for good: all that it made, and nothing else.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{pod::LinkView, sync, volume::is_ours};

/// What becomes of an object that the link made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes.
    Remove,
    /// It stays, for this reason.
    Keep(String),
}

/// Whether the claim below goes: `volume` is what it is bound to. Data goes only by the hand of whoever owns it.
#[must_use]
pub fn claim(claim: &Value, volume: Option<&Value>, link: &LinkView) -> Verdict {
    let bound = claim.pointer("/spec/volumeName").and_then(Value::as_str).filter(|name| !name.is_empty());
    match (bound, volume) {
        (None, _) => Verdict::Remove,
        // Carried down with its claim: the data is the upper cluster's, and stays.
        (Some(_), Some(volume)) if is_ours(volume, link) && is_retained(volume) => Verdict::Remove,
        (Some(name), _) => {
            Verdict::Keep(format!("its volume {name} has data; delete it yourself when nobody needs it"))
        }
    }
}

/// Whether the volume below, which the link carried there, goes.
#[must_use]
pub fn volume(volume: &Value) -> Verdict {
    if is_retained(volume) {
        Verdict::Remove
    } else {
        Verdict::Keep("its policy is not Retain any more: its data would go as well".to_owned())
    }
}

fn is_retained(volume: &Value) -> bool {
    volume.pointer("/spec/persistentVolumeReclaimPolicy").and_then(Value::as_str) == Some("Retain")
}

/// Whether an object in a namespace that the link made is a reason to keep the namespace: neither the link's own, nor made by
/// the cluster for whatever namespace it is, nor owned by one of `gone` (UIDs of objects that go).
#[must_use]
pub fn keeps_namespace(kind: &str, object: &Value, gone: &BTreeSet<String>) -> bool {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let uid = metadata["uid"].as_str().unwrap_or_default();
    let of_every_namespace = match kind {
        "ServiceAccount" => name == "default",
        "ConfigMap" => name == sync::ROOT_CA,
        // Told of others, or made of Services.
        "Event" | "Endpoints" | "PodMetrics" => true,
        _ => false,
    };
    let owners = metadata["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
    let is_derived =
        !owners.is_empty() && owners.iter().all(|owner| owner["uid"].as_str().is_some_and(|uid| gone.contains(uid)));
    !(of_every_namespace || gone.contains(uid) || is_derived)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn link() -> LinkView {
        LinkView { upper_cluster: "up".to_owned(), virtual_node: "east".to_owned(), ..LinkView::default() }
    }

    fn ours() -> Value {
        json!({ "tensile.io/upper-cluster": "up", "tensile.io/virtual-node": "east" })
    }

    #[test]
    fn a_claim_with_data_stays_unless_the_data_is_the_upper_clusters() {
        let bound = json!({ "spec": { "volumeName": "pv" } });
        let volume = |labels: Value, policy: &str| json!({ "metadata": { "labels": labels }, "spec": { "persistentVolumeReclaimPolicy": policy } });
        assert_eq!(claim(&json!({ "spec": {} }), None, &link()), Verdict::Remove);
        assert_eq!(claim(&bound, Some(&volume(ours(), "Retain")), &link()), Verdict::Remove);
        for volume in [None, Some(volume(json!({}), "Retain")), Some(volume(ours(), "Delete"))] {
            assert!(matches!(claim(&bound, volume.as_ref(), &link()), Verdict::Keep(_)), "{volume:?}");
        }
        assert_eq!(super::volume(&volume(ours(), "Retain")), Verdict::Remove);
        assert!(matches!(super::volume(&volume(ours(), "Delete")), Verdict::Keep(_)));
    }

    #[test]
    fn a_namespace_stays_for_what_others_have_in_it() {
        let gone: BTreeSet<String> = ["s-1".to_owned()].into();
        let object = |name: &str, uid: &str| json!({ "metadata": { "name": name, "uid": uid } });
        let derived = json!({ "metadata": { "name": "web-x", "uid": "e", "ownerReferences": [{ "uid": "s-1" }] } });
        for (kind, object, keeps) in [
            ("ServiceAccount", object("default", "a"), false),
            ("ServiceAccount", object("builder", "a"), true),
            ("ConfigMap", object("kube-root-ca.crt", "a"), false),
            ("ConfigMap", object("theirs", "a"), true),
            ("Event", object("x", "a"), false),
            ("Service", object("web", "s-1"), false),
            ("EndpointSlice", derived, false),
            ("Deployment", object("theirs", "d"), true),
        ] {
            assert_eq!(keeps_namespace(kind, &object, &gone), keeps, "{kind} {object}");
        }
    }
}
