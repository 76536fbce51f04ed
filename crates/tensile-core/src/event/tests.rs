// SPDX-License-Identifier: Apache-2.0
//! Events on their way up.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{About, message::renamed, upper_event, upper_name};

const POD: About<'_> = About { namespace: "team", name: "web-0", uid: "upper-uid" };

fn lower() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {
            "name": "web-0.17f2", "namespace": "team", "uid": "e", "resourceVersion": "812",
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{}],
        },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "web-0", "uid": "lower-uid",
            "resourceVersion": "800", "fieldPath": "spec.containers{main}",
        },
        "reason": "BackOff", "message": "Back-off restarting failed container", "type": "Warning",
        "source": { "component": "kubelet", "host": "lower-1" },
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:05:00Z", "count": 7,
        "eventTime": null, "reportingComponent": "kubelet", "reportingInstance": "lower-1",
        "related": { "kind": "Node", "name": "lower-1" },
    })
}

#[test]
fn an_event_is_about_the_upper_pod_and_tells_the_rest_as_it_is() {
    assert_eq!(
        upper_event(&lower(), &POD, &[], "east").unwrap(),
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "name": upper_name(&POD, "web-0.17f2"), "namespace": "team",
                "labels": { "tensile.io/virtual-node": "east" },
                "annotations": { "tensile.io/applied-revision": "812" },
            },
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "web-0", "uid": "upper-uid",
                "fieldPath": "spec.containers{main}",
            },
            "reason": "BackOff", "message": "Back-off restarting failed container", "type": "Warning",
            "source": { "component": "kubelet", "host": "lower-1" },
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:05:00Z", "count": 7,
            "reportingComponent": "kubelet", "reportingInstance": "lower-1",
        })
    );
}

#[test]
fn one_lower_event_is_one_upper_event_and_another_pod_has_others() {
    let (mut later, first) = (lower(), upper_event(&lower(), &POD, &[], "east").unwrap());
    later["count"] = json!(8);
    later["metadata"]["resourceVersion"] = json!("900");
    let later = upper_event(&later, &POD, &[], "east").unwrap();
    assert_eq!(later["metadata"]["name"], first["metadata"]["name"]);
    assert_eq!(
        (&later["count"], &later["metadata"]["annotations"]["tensile.io/applied-revision"]),
        (&json!(8), &json!("900"))
    );
    assert_ne!(upper_name(&About { uid: "other", ..POD }, "web-0.17f2"), upper_name(&POD, "web-0.17f2"));
    assert_ne!(upper_name(&POD, "web-0.17f3"), upper_name(&POD, "web-0.17f2"));
}

#[test]
fn what_is_not_an_event_is_none() {
    for text in ["7", "{}", r#"{"metadata":7}"#, r#"{"metadata":{"name":"a"}}"#] {
        assert_eq!(upper_event(&serde_json::from_str(text).unwrap(), &POD, &[], "east"), None, "{text}");
    }
}

#[test]
fn names_are_replaced_where_they_stand_by_themselves() {
    let names = [("app-01".to_owned(), "app".to_owned()), ("app-02".to_owned(), "app.x".to_owned())];
    for (below, above) in [
        (r#"configmap "app-01" not found"#, r#"configmap "app" not found"#),
        ("team/app-01: no key. See app-02.", "team/app: no key. See app.x."),
        ("app-01", "app"),
        ("my-app-01 app-011 app-01.x x.app-01 APP-01 app-01_", "my-app-01 app-011 app-01.x x.app-01 APP-01 app-01_"),
        ("", ""),
        ("ü app-01ü … app-01…", "ü app-01ü … app…"),
    ] {
        assert_eq!(renamed(below, &names), above);
    }
}

proptest! {
    #[test]
    fn a_text_without_the_names_stays_as_it_is(text in ".{0,60}") {
        prop_assert_eq!(renamed(&text, &[("no-such-name-0123".to_owned(), "x".to_owned())]), text);
    }
}
