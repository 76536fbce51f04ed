// SPDX-License-Identifier: Apache-2.0
//! Plans, copies and names.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Action, Copy, Kind, Upper, Version, body, lower_name, plan, starts_renamed};
use crate::pod::LinkView;

fn link(node: &str) -> LinkView {
    LinkView { upper_cluster: "5e8e7a2c".to_owned(), virtual_node: node.to_owned(), ..LinkView::default() }
}

fn version(uid: &str, revision: &str) -> Version {
    Version { uid: uid.to_owned(), revision: revision.to_owned() }
}

fn copy_of(of: Version) -> Copy {
    Copy { name: "app".to_owned(), version: version("below", "900"), of }
}

#[test]
fn each_situation_has_its_one_next_step() {
    let present = Upper::Present(version("a", "2"));
    let (current, older, other) = (copy_of(version("a", "2")), copy_of(version("a", "1")), copy_of(version("b", "2")));
    for (upper, copy, wanted, expected) in [
        (&Upper::Unknown, None, true, Some(Action::Look)),
        (&Upper::Unknown, Some(&current), true, Some(Action::Look)),
        (&Upper::Absent, None, true, None),
        (&Upper::Absent, Some(&current), true, Some(Action::Delete)),
        (&present, None, true, Some(Action::Create)),
        (&present, Some(&current), true, None),
        (&present, Some(&older), true, Some(Action::Update)),
        (&present, Some(&other), true, Some(Action::Delete)),
        (&present, None, false, None),
        (&present, Some(&current), false, Some(Action::Delete)),
        (&Upper::Unknown, Some(&current), false, Some(Action::Delete)),
        (&Upper::Unknown, None, false, None),
    ] {
        assert_eq!(plan(upper, copy, wanted), expected, "{upper:?} {copy:?} {wanted}");
    }
}

fn secret() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "immutable": true,
        "metadata": {
            "name": "app", "namespace": "team", "uid": "a", "resourceVersion": "7", "labels": {"app": "x"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"},
            "ownerReferences": [{"uid": "o"}], "finalizers": ["f"], "managedFields": [{"manager": "kubectl"}],
        },
        "data": {"tls.key": "aHVudGVyMg=="},
    })
}

fn below(kind: Kind, upper: &Value, present: Option<&Copy>) -> (Value, Vec<String>) {
    let body = body(kind, &upper.to_string(), "app-below", present, &link("east")).unwrap();
    (serde_json::from_str(&body.text).unwrap(), body.dropped)
}

#[test]
fn a_copy_has_the_content_and_whose_it_is_and_nothing_else() {
    let (copy, dropped) = below(Kind::Secret, &secret(), None);
    assert_eq!(
        copy,
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "immutable": true,
            "metadata": {
                "name": "app-below", "namespace": "team",
                "labels": {"tensile.io/upper-cluster": "5e8e7a2c", "tensile.io/virtual-node": "east",
                    "tensile.io/upper-namespace": "team"},
                "annotations": {
                    "global": "true", "tensile.io/upper-name": "team/app", "tensile.io/upper-uid": "a",
                    "tensile.io/applied-revision": "7",
                },
            },
            "data": {"tls.key": "aHVudGVyMg=="},
        })
    );
    assert!(dropped.is_empty());
}

#[test]
fn a_replacement_names_exactly_what_it_replaces() {
    let (copy, _) = below(Kind::Secret, &secret(), Some(&copy_of(version("a", "6"))));
    assert_eq!((&copy["metadata"]["uid"], &copy["metadata"]["resourceVersion"]), (&json!("below"), &json!("900")));
}

#[test]
fn a_config_map_takes_its_binary_data_along() {
    let mut map = secret();
    map["kind"] = json!("ConfigMap");
    map["binaryData"] = json!({"b": "AAEC"});
    map.as_object_mut().unwrap().remove("type");
    let (copy, _) = below(Kind::ConfigMap, &map, None);
    assert_eq!((&copy["binaryData"], &copy["kind"]), (&json!({"b": "AAEC"}), &json!("ConfigMap")));
    assert_eq!(copy.get("type"), None);
}

#[test]
fn the_token_of_a_service_account_is_plain_data_below() {
    let mut token = secret();
    token["type"] = json!("kubernetes.io/service-account-token");
    assert_eq!(below(Kind::Secret, &token, None).0["type"], "Opaque");
}

#[test]
fn a_member_that_is_not_known_here_is_dropped_and_told() {
    let mut newer = secret();
    newer["fooData"] = json!({});
    let (copy, dropped) = below(Kind::Secret, &newer, None);
    assert_eq!(copy.get("fooData"), None);
    assert_eq!(dropped, ["fooData"]);
}

#[test]
fn an_object_without_metadata_is_an_error_that_does_not_quote_it() {
    for text in ["", "7", "{}", r#"{"metadata":"hunter2"}"#, r#"{"metadata":{"name":"hunter2"}}"#] {
        let error = body(Kind::Secret, text, "app", None, &link("east")).unwrap_err().to_string();
        assert!(!error.contains("hunter2") || text.contains("\"hunter2\"}"), "{error}");
    }
}

#[test]
fn only_the_certificate_of_the_cluster_is_renamed_from_the_start() {
    let east = link("east");
    assert!(starts_renamed(Kind::ConfigMap, "kube-root-ca.crt", &east));
    assert!(!starts_renamed(Kind::Secret, "kube-root-ca.crt", &east) && !starts_renamed(Kind::ConfigMap, "app", &east));
    let shared = LinkView { namespaces: "single:all".parse().unwrap(), ..east };
    assert!(starts_renamed(Kind::ConfigMap, "app", &shared), "others share the namespace");
}

proptest! {
    /// A name of the API server's own rule (RFC 1123 subdomain), never that of another object, link or cluster.
    #[test]
    fn a_new_name_is_a_name_and_nobody_elses(name in "[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", other in "[a-z0-9]{1,9}") {
        let below = lower_name("team", &name, &link("east"));
        let part = |part: &str| !part.is_empty() && !part.starts_with('-') && !part.ends_with('-');
        if name.split('.').all(part) {
            prop_assert!(below.len() <= 253 && below.split('.').all(part), "{}", below);
        }
        prop_assert_eq!(&below, &lower_name("team", &name, &link("east")));
        prop_assert_ne!(&below, &name);
        prop_assert_ne!(&below, &lower_name("team", &name, &link("west")));
        prop_assert_ne!(&below, &lower_name("other", &name, &link("east")));
        if other != name {
            prop_assert_ne!(&below, &lower_name("team", &other, &link("east")));
        }
    }

    /// However the two sides stand, doing what is planned ends, with the copy as it should be.
    #[test]
    fn what_is_planned_leads_to_what_is_wanted(
        there in any::<bool>(), wanted in any::<bool>(), seen in 0..3, kept in 0..4_usize,
    ) {
        let truth = there.then(|| version("a", "2"));
        let mut upper = match seen {
            0 => Upper::Unknown,
            1 if there => Upper::Unknown,
            1 => Upper::Absent,
            _ => truth.clone().map_or(Upper::Unknown, Upper::Present),
        };
        let kept = [None, Some(("a", "2")), Some(("a", "1")), Some(("z", "2"))][kept];
        let mut copy = kept.map(|(uid, revision)| copy_of(version(uid, revision)));
        let mut steps = 0;
        while let Some(action) = plan(&upper, copy.as_ref(), wanted) {
            steps += 1;
            prop_assert!(steps < 5);
            match action {
                Action::Look => upper = truth.clone().map_or(Upper::Absent, Upper::Present),
                Action::Create | Action::Update => copy = truth.clone().map(copy_of),
                Action::Delete => copy = None,
            }
        }
        prop_assert_eq!(copy.map(|copy| copy.of), truth.filter(|_| wanted));
    }
}
