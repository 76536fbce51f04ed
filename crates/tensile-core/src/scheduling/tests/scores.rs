// SPDX-License-Identifier: Apache-2.0
//! How good a place is, how many fit, and which node is chosen.

use serde_json::{Value, json};

use super::super::{Cluster, Mode, Question, Uid, Weights};
use super::scene::{cluster, merge, node, on, question, requests, shared};

fn cpu(cpu: &str) -> Question {
    question(json!({}), requests(json!({"cpu": cpu, "memory": "1Gi"})))
}

fn score(cluster: &Cluster, question: &Question, weights: Weights) -> u8 {
    cluster.score(question, &cluster.ask(question), &weights)
}

fn room(nodes: usize) -> Cluster {
    let nodes: Vec<_> = (0..nodes).map(|number| node(&format!("n{number}"), json!({}))).collect();
    cluster(&nodes)
}

#[test]
fn spread_prefers_room_and_binpack_does_not() {
    let only = |mode| Weights { mode, headroom: 1, tightness: 0, stranding: 0, preferred: 0 };
    let (small, large) = (room(1), room(40));
    assert!(score(&small, &cpu("1"), only(Mode::Spread)) < score(&large, &cpu("1"), only(Mode::Spread)));
    assert!(score(&small, &cpu("1"), only(Mode::Binpack)) > score(&large, &cpu("1"), only(Mode::Binpack)));
    assert_eq!(score(&small, &cpu("1"), only(Mode::Balanced)), score(&large, &cpu("1"), only(Mode::Balanced)));
    assert_eq!(score(&small, &cpu("9"), only(Mode::Spread)), 0, "it does not fit");
}

#[test]
fn a_tight_place_and_a_preferred_one_score_higher() {
    let weights =
        |tightness, preferred| Weights { mode: Mode::Spread, headroom: 0, tightness, stranding: 0, preferred };
    let taken = |cpu: &str| {
        cluster(&[node("a", json!({})), on("a", "p", json!({}), requests(json!({"cpu": cpu, "memory": "6Gi"})))])
    };
    assert!(score(&taken("3"), &cpu("1"), weights(1, 0)) > score(&taken("1"), &cpu("1"), weights(1, 0)));

    let likes = json!([{"weight": 50, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]);
    let mut spec = requests(json!({}));
    merge(&mut spec, json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": likes}}}));
    let liking = question(json!({}), spec);
    let labelled = cluster(&[node("a", json!({"metadata": {"labels": {"disk": "ssd"}}}))]);
    assert_eq!(score(&labelled, &liking, weights(0, 1)), 10);
    assert_eq!(score(&room(1), &liking, weights(0, 1)), 0);
}

#[test]
fn weights_are_read_from_a_file_and_a_wrong_name_is_refused() {
    let weights: Weights = serde_json::from_value(json!({"mode": "binpack", "tightness": 9})).unwrap();
    assert_eq!(weights, Weights { mode: Mode::Binpack, tightness: 9, ..Weights::default() });
    assert!(serde_json::from_value::<Weights>(json!({"tightnes": 9})).is_err());
}

#[test]
fn capacity_is_what_fits_on_the_nodes_together() {
    let fragments: Vec<_> = (0..80)
        .map(|number| node(&format!("n{number}"), json!({"status": {"allocatable": {"cpu": "100m"}}})))
        .collect();
    let fragmented = cluster(&fragments);
    assert_eq!(fragmented.capacity(&cpu("1"), 100), 0, "eight CPUs in crumbs");
    assert_eq!(fragmented.capacity(&cpu("50m"), 1_000), 160);
    assert_eq!(fragmented.capacity(&cpu("50m"), 100), 100, "no more is counted than asked");
    assert_eq!(room(2).capacity(&question(json!({}), requests(json!({}))), 100), 20, "as many as pods are allowed");
}

#[test]
fn replicas_that_matter_to_one_another_are_counted_together() {
    let zone = |name: &str, zone: &str| node(name, json!({"metadata": {"labels": {"zone": zone}}}));
    let cluster = cluster(&[zone("a", "1"), zone("b", "1"), zone("c", "2")]);
    let selector = json!({"matchLabels": {"app": "web"}});
    let asked = |more: Value| {
        let mut spec = requests(json!({"cpu": "1"}));
        merge(&mut spec, more);
        question(json!({"app": "web"}), spec)
    };
    let apart = |key: &str| {
        asked(json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"topologyKey": key, "labelSelector": selector}]}}}))
    };
    assert_eq!(cluster.capacity(&apart("kubernetes.io/hostname"), 99), 3);
    assert_eq!(cluster.capacity(&apart("zone"), 99), 2);
    let together = asked(json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": "zone", "labelSelector": selector}]}}}));
    assert_eq!(cluster.capacity(&together, 99), 8, "all in the zone of the first");
    let spread = asked(json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]}));
    assert_eq!(cluster.capacity(&spread, 99), 9, "four in the small zone, one more in the other");
}

#[test]
fn a_pod_on_its_way_is_put_where_the_scheduler_would() {
    let soft = json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}});
    let mut cluster = cluster(&[
        node("tainted", soft),
        node("busy", json!({})),
        node("idle", json!({})),
        on("busy", "p", json!({}), requests(json!({"cpu": "2", "memory": "4Gi"}))),
    ]);
    assert!(cluster.assume(Uid::of("u"), &shared(json!({"cpu": "1"}))));
    let on = |name: &str, cpu: &str| {
        let mut spec = requests(json!({"cpu": cpu}));
        spec["nodeName"] = json!(name);
        question(json!({}), spec)
    };
    assert!(cluster.ask(&on("tainted", "4")).fits(), "soft taints are avoided");
    assert!(cluster.ask(&on("busy", "2")).fits());
    assert!(!cluster.ask(&on("idle", "4")).fits(), "the least used node was taken");
}
