// SPDX-License-Identifier: Apache-2.0
//! What claims and volumes let pass and what not.

use serde_json::{Value, json};

use super::super::{Kind, Question, Unknown};
use super::scene::{cluster, fitting, merge, node, on, question, why};

fn mounting(claims: &[&str]) -> Value {
    let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    json!({"containers": [{"name": "c"}], "volumes": claims.iter().map(volume).collect::<Vec<_>>()})
}

fn claim(name: &str, with: Value) -> (Kind, Value) {
    let mut claim = json!({"metadata": {"name": name, "namespace": "n"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}});
    merge(&mut claim, with);
    (Kind::Claim, claim)
}

/// A claim that is bound to the volume of the same name.
fn bound(name: &str) -> (Kind, Value) {
    claim(
        name,
        json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": name}}),
    )
}

fn volume(name: &str, zone: &str, with: Value) -> (Kind, Value) {
    let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]);
    let mut volume = json!({"metadata": {"name": name}, "status": {"phase": "Available"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}});
    merge(&mut volume, with);
    (Kind::Volume, volume)
}

fn class(name: &str, mode: &str, provisioner: &str) -> (Kind, Value) {
    (Kind::StorageClass, json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}))
}

const NONE: &str = "kubernetes.io/no-provisioner";
const LATE: &str = "WaitForFirstConsumer";

/// Fits on which of two nodes in two zones.
fn fits(objects: Vec<(Kind, Value)>, claims: &[&str]) -> Vec<String> {
    let zone = |name: &str| node(name, json!({"metadata": {"labels": {"zone": name}}}));
    let mut all = vec![zone("a"), zone("b")];
    all.extend(objects);
    fitting(&cluster(&all), &["a", "b"], json!({}), mounting(claims))
}

#[test]
fn a_bound_volume_says_where() {
    assert_eq!(fits(vec![bound("v"), volume("v", "b", json!({}))], &["v"]), ["b"]);
    assert!(fits(vec![bound("v")], &["v"]).is_empty(), "the volume is not there");
    assert!(
        fits(vec![bound("v"), volume("v", "b", json!({})), bound("w"), volume("w", "a", json!({}))], &["v", "w"])
            .is_empty()
    );
}

#[test]
fn a_claim_that_is_not_bound_yet_waits_or_is_bound_with_the_node() {
    let none: [&str; 0] = [];
    let unbound = || claim("c", json!({}));
    let at_once = class("late", "Immediate", "driver");
    let (late, manual) = (class("late", LATE, "driver"), class("late", LATE, NONE));
    assert_eq!(fits(vec![unbound(), at_once], &["c"]), none);
    assert_eq!(fits(vec![unbound()], &["c"]), none, "its class is not there");
    assert_eq!(fits(vec![unbound(), late.clone()], &["c"]), ["a", "b"], "a volume is made");
    assert_eq!(fits(vec![unbound(), manual.clone()], &["c"]), none);
    assert_eq!(fits(vec![unbound(), manual.clone(), volume("v", "a", json!({}))], &["c"]), ["a"]);
    let selected = claim("c", json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "b"}}}));
    assert_eq!(fits(vec![selected, late.clone()], &["c"]), ["b"]);
    let (kind, mut zoned) = late;
    zoned["allowedTopologies"] = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]);
    assert_eq!(fits(vec![unbound(), (kind, zoned)], &["c"]), ["b"]);
    for gone in
        [json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), json!({"status": {"phase": "Lost"}})]
    {
        assert_eq!(fits(vec![claim("c", gone), class("late", LATE, "driver")], &["c"]), none);
    }
}

#[test]
fn a_volume_serves_a_claim_by_size_class_mode_and_labels() {
    let none: [&str; 0] = [];
    for (with, expected) in [
        (json!({}), ["a"].as_slice()),
        (json!({"spec": {"capacity": {"storage": "1Gi"}}}), &none),
        (json!({"spec": {"storageClassName": "other"}}), &none),
        (json!({"spec": {"accessModes": ["ReadOnlyMany"]}}), &none),
        (json!({"spec": {"volumeMode": "Block"}}), &none),
        (json!({"status": {"phase": "Released"}}), &none),
        (json!({"spec": {"claimRef": {"namespace": "n", "name": "other"}}}), &none),
        (json!({"spec": {"claimRef": {"namespace": "n", "name": "c"}}}), &["a"]),
    ] {
        let objects = vec![claim("c", json!({})), class("late", LATE, NONE), volume("v", "a", with.clone())];
        assert_eq!(fits(objects, &["c"]), expected, "{with}");
    }
    let picky = || claim("c", json!({"spec": {"selector": {"matchLabels": {"tier": "x"}}}}));
    let labelled = volume("v", "a", json!({"metadata": {"labels": {"tier": "x"}}}));
    assert_eq!(fits(vec![picky(), class("late", LATE, NONE), labelled], &["c"]), ["a"]);
    assert_eq!(fits(vec![picky(), class("late", LATE, NONE), volume("v", "a", json!({}))], &["c"]), none);
}

#[test]
fn two_claims_need_two_volumes() {
    let claims = || vec![claim("c", json!({})), claim("d", json!({})), class("late", LATE, NONE)];
    let mut one = claims();
    one.push(volume("v", "a", json!({})));
    assert!(fits(one.clone(), &["c", "d"]).is_empty());
    one.push(volume("w", "a", json!({})));
    assert_eq!(fits(one, &["c", "d"]), ["a"]);
}

#[test]
fn what_is_not_known_is_decided_by_the_flag() {
    let cluster = cluster(&[node("a", json!({}))]);
    let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": mounting(&["c"])});
    assert!(cluster.ask(&Question::of_lower(&pod, Unknown::Allow).unwrap()).fits());
    assert_eq!(why(&cluster, &question(json!({}), mounting(&["c"]))), ("claim c is not there".to_owned(), false));
}

#[test]
fn zones_of_volumes_count_where_nodes_have_any() {
    let zone = |name: &str, labels: Value| node(name, json!({"metadata": {"labels": labels}}));
    let nodes = [
        zone("now", json!({"topology.kubernetes.io/zone": "1"})),
        zone("before", json!({"failure-domain.beta.kubernetes.io/zone": "1"})),
        zone("other", json!({"topology.kubernetes.io/zone": "2"})),
        zone("silent", json!({})),
    ];
    let fits = |key: &str, value: &str| {
        let mut all = nodes.to_vec();
        let (kind, mut volume) = volume("v", "", json!({"metadata": {"labels": {key: value}}}));
        volume["spec"]["nodeAffinity"] = json!(null);
        all.extend([bound("v"), (kind, volume)]);
        fitting(&cluster(&all), &["now", "before", "other", "silent"], json!({}), mounting(&["v"]))
    };
    assert_eq!(fits("topology.kubernetes.io/zone", "1"), ["now", "silent"]);
    assert_eq!(fits("failure-domain.beta.kubernetes.io/zone", "1"), ["now", "before", "silent"]);
    assert_eq!(fits("topology.kubernetes.io/zone", "1__2"), ["now", "other", "silent"]);
    assert_eq!(fits("topology.kubernetes.io/region", "1"), ["silent"]);
}

#[test]
fn a_claim_for_one_pod_is_for_one_pod() {
    let alone = || {
        let (kind, mut claim) = bound("v");
        claim["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
        (kind, claim)
    };
    let taken = on("b", "p", json!({}), mounting(&["v"]));
    assert_eq!(fits(vec![alone(), volume("v", "a", json!({}))], &["v"]), ["a"]);
    assert!(fits(vec![alone(), volume("v", "a", json!({})), taken.clone()], &["v"]).is_empty());
    assert_eq!(fits(vec![bound("v"), volume("v", "a", json!({})), taken], &["v"]), ["a"]);
    let cluster = cluster(&[node("a", json!({})), alone(), volume("v", "", json!({"spec": {"nodeAffinity": null}}))]);
    assert_eq!(cluster.capacity(&question(json!({}), mounting(&["v"])), 9), 1);
}

#[test]
fn disks_are_shared_by_readers_only() {
    let disk = |read_only: bool| json!({"containers": [], "volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "d", "readOnly": read_only}}]});
    let cluster =
        |read_only| cluster(&[node("a", json!({})), node("b", json!({})), on("a", "p", json!({}), disk(read_only))]);
    assert_eq!(fitting(&cluster(false), &["a", "b"], json!({}), disk(true)), ["b"]);
    assert_eq!(fitting(&cluster(true), &["a", "b"], json!({}), disk(true)), ["a", "b"]);
}

#[test]
fn a_node_mounts_so_many_volumes_of_a_driver() {
    let csi = |name: &str| {
        volume(name, "", json!({"spec": {"nodeAffinity": null, "csi": {"driver": "d", "volumeHandle": name}}}))
    };
    let limit = |count: u32| {
        (
            Kind::CsiNode,
            json!({"metadata": {"name": "a"}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": count}}]}}),
        )
    };
    let scene = |count| {
        vec![limit(count), bound("v"), csi("v"), bound("w"), csi("w"), on("a", "p", json!({}), mounting(&["v"]))]
    };
    assert_eq!(fits(scene(1), &["w"]), ["b"], "a node without a limit passes");
    assert_eq!(fits(scene(1), &["v"]), ["a", "b"], "a volume that is there already counts once");
    assert_eq!(fits(scene(2), &["w"]), ["a", "b"]);
    // One that is still to be made counts by its class.
    let late = vec![claim("c", json!({})), class("late", LATE, "d")];
    assert_eq!(fits([scene(1), late.clone()].concat(), &["c"]), ["b"]);
    assert_eq!(fits([scene(2), late].concat(), &["c"]), ["a", "b"]);
}
