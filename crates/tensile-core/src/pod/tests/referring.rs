// SPDX-License-Identifier: Apache-2.0
//! Which objects a pod refers to, and that it refers to others of the same content below.

use serde_json::{Value, json};

use super::{down, set, upper, upper_with};
use crate::{
    pod::{Names, lower_pod},
    sync::Kind,
};

/// Every place of the API that names a ConfigMap or a Secret: where, what, the pointer to its name below, whether the
/// pod can do without it.
fn places() -> Vec<(&'static str, Value, Kind, &'static str, bool)> {
    use Kind::{ConfigMap, Secret};
    let container = |member: &str, value: Value| json!([{"name": "main", "image": "i", member: value}]);
    let volume = |source: &str, value: Value| json!([{"name": "v", source: value}]);
    let reference = |source: &str, member: &str| volume(source, json!({member: {"name": "x"}, "driver": "d"}));
    vec![
        ("imagePullSecrets", json!([{"name": "x"}]), Secret, "/0/name", true),
        (
            "containers",
            container("envFrom", json!([{"configMapRef": {"name": "x"}}])),
            ConfigMap,
            "/0/envFrom/0/configMapRef/name",
            false,
        ),
        (
            "containers",
            container("envFrom", json!([{"secretRef": {"name": "x", "optional": true}}])),
            Secret,
            "/0/envFrom/0/secretRef/name",
            true,
        ),
        (
            "containers",
            container("env", json!([{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}}])),
            ConfigMap,
            "/0/env/0/valueFrom/configMapKeyRef/name",
            false,
        ),
        (
            "initContainers",
            container(
                "env",
                json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k", "optional": false}}}]),
            ),
            Secret,
            "/0/env/0/valueFrom/secretKeyRef/name",
            false,
        ),
        ("volumes", volume("configMap", json!({"name": "x", "optional": true})), ConfigMap, "/0/configMap/name", true),
        ("volumes", volume("secret", json!({"secretName": "x"})), Secret, "/0/secret/secretName", false),
        (
            "volumes",
            volume("projected", json!({"sources": [{"configMap": {"name": "x"}}]})),
            ConfigMap,
            "/0/projected/sources/0/configMap/name",
            false,
        ),
        (
            "volumes",
            volume("projected", json!({"sources": [{"downwardAPI": {}}, {"secret": {"name": "x", "optional": true}}]})),
            Secret,
            "/0/projected/sources/1/secret/name",
            true,
        ),
        (
            "volumes",
            volume("azureFile", json!({"secretName": "x", "shareName": "s"})),
            Secret,
            "/0/azureFile/secretName",
            false,
        ),
        ("volumes", reference("csi", "nodePublishSecretRef"), Secret, "/0/csi/nodePublishSecretRef/name", false),
        ("volumes", reference("cephfs", "secretRef"), Secret, "/0/cephfs/secretRef/name", false),
        ("volumes", reference("cinder", "secretRef"), Secret, "/0/cinder/secretRef/name", false),
        ("volumes", reference("flexVolume", "secretRef"), Secret, "/0/flexVolume/secretRef/name", false),
        ("volumes", reference("iscsi", "secretRef"), Secret, "/0/iscsi/secretRef/name", false),
        ("volumes", reference("rbd", "secretRef"), Secret, "/0/rbd/secretRef/name", false),
        ("volumes", reference("scaleIO", "secretRef"), Secret, "/0/scaleIO/secretRef/name", false),
        ("volumes", reference("storageos", "secretRef"), Secret, "/0/storageos/secretRef/name", false),
    ]
}

#[test]
fn every_place_that_names_an_object_is_found_and_renamed() {
    for (member, value, kind, pointer, optional) in places() {
        let mut lower = down(&upper_with(&format!("/spec/{member}"), value));
        let found: Vec<_> = lower.references.iter().collect();
        assert_eq!(found, [(kind, "x", optional)], "{member} {pointer}");

        let mut names = Names::default();
        let other = if kind == Kind::Secret { Kind::ConfigMap } else { Kind::Secret };
        names.insert(other, "x", "wrong");
        names.insert(kind, "x", "x-below");
        lower.rename(&names);
        assert_eq!(lower.pod["spec"][member].pointer(pointer), Some(&json!("x-below")), "{member} {pointer}");
    }
}

#[test]
fn what_is_required_in_one_place_is_required() {
    let mut pod = upper_with("/spec/imagePullSecrets", json!([{"name": "x"}]));
    set(&mut pod, "/spec/volumes", json!([{"name": "v", "secret": {"secretName": "x"}}]));
    assert_eq!(down(&pod).references.iter().collect::<Vec<_>>(), [(Kind::Secret, "x", false)]);
}

#[test]
fn what_stays_up_refers_to_nothing_and_neither_does_an_empty_name() {
    let pod = upper_with(
        "/spec/volumes",
        json!([
            {"name": "kube-api-access-x", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}},
            {"name": "e", "configMap": {"name": ""}},
        ]),
    );
    assert!(down(&pod).references.is_empty());
    assert!(down(&upper()).references.is_empty());
}

#[test]
fn the_names_are_noted_on_the_lower_pod_and_read_again() {
    let mut lower = down(&upper_with("/spec/imagePullSecrets", json!([{"name": "x"}])));
    let mut names = Names::default();
    names.insert(Kind::Secret, "x", "x-below");
    lower.rename(&names);
    let noted = lower.pod["metadata"]["annotations"]["tensile.io/references"].as_str().unwrap();
    assert_eq!(noted, r#"{"secrets":{"x":"x-below"}}"#);
    assert_eq!(Names::noted(Some(noted)), names);
    for unreadable in [None, Some(""), Some("[]"), Some(r#"{"pods":{}}"#)] {
        assert!(Names::noted(unreadable).is_empty(), "{unreadable:?}");
    }
}

#[test]
fn a_pod_that_refers_to_nothing_gets_no_note() {
    let mut lower = down(&upper());
    lower.rename(&Names::default());
    assert_eq!(lower.pod["metadata"]["annotations"].get("tensile.io/references"), None);
}

/// The names are not part of what follows the upper pod: an update leaves them alone.
#[test]
fn an_update_does_not_take_the_names_away() {
    let pod = upper_with("/spec/imagePullSecrets", json!([{"name": "x"}]));
    let mut lower = lower_pod(&pod, &super::link(), 1).unwrap();
    let mut names = Names::default();
    names.insert(Kind::Secret, "x", "x-below");
    lower.rename(&names);
    let update = crate::pod::update(&pod, &lower.pod, &super::link(), 1).unwrap();
    assert_eq!(update.patches, []);
}
