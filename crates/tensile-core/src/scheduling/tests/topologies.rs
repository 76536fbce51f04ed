// SPDX-License-Identifier: Apache-2.0
//! Pods that want to be near others, apart from them, or spread: case by case.

use serde_json::{Value, json};

use super::super::Kind;
use super::scene::{cluster, fitting, merge, node, on, requests};

fn plain() -> Value {
    requests(json!({}))
}

fn with(mut spec: Value, more: Value) -> Value {
    merge(&mut spec, more);
    spec
}

fn zones() -> Vec<(Kind, Value)> {
    let zone = |name: &str, zone: &str| node(name, json!({"metadata": {"labels": {"zone": zone}}}));
    let (kind, mut bare) = node("bare", json!({}));
    bare["metadata"]["labels"] = json!({});
    vec![zone("a1", "a"), zone("a2", "a"), zone("b1", "b"), (kind, bare)]
}

const ZONED: [&str; 4] = ["a1", "a2", "b1", "bare"];

fn web(node: &str, name: &str) -> (Kind, Value) {
    on(node, name, json!({"app": "web"}), plain())
}

#[test]
fn pods_are_spread_over_domains() {
    let constraint = |more: Value| {
        let mut constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}});
        merge(&mut constraint, more);
        json!({"topologySpreadConstraints": [constraint]})
    };
    let mut objects = zones();
    objects.extend([web("a1", "1"), web("bare", "2")]);
    let cluster = cluster(&objects);
    let fits = |labels: Value, more: Value| fitting(&cluster, &ZONED, labels, with(plain(), more));
    let web_labels = || json!({"app": "web"});
    assert_eq!(fits(web_labels(), constraint(json!({}))), ["b1"]);
    assert_eq!(fits(web_labels(), constraint(json!({"maxSkew": 2}))), ["a1", "a2", "b1"]);
    assert_eq!(fits(json!({}), constraint(json!({}))), ["a1", "a2", "b1"], "it does not count itself");
    assert_eq!(fits(web_labels(), constraint(json!({"minDomains": 3}))), ["b1"], "too few domains: the least is none");
    let soft = constraint(json!({"whenUnsatisfiable": "ScheduleAnyway"}));
    assert_eq!(fits(web_labels(), soft), ZONED);
    // The empty selector counts nobody but the pod itself, none at all not even that.
    assert_eq!(fits(web_labels(), constraint(json!({"labelSelector": {"matchLabels": null}}))), ["a1", "a2", "b1"]);
    assert_eq!(fits(web_labels(), constraint(json!({"labelSelector": null}))), ["a1", "a2", "b1"]);

    // Only nodes that the pod may go to are domains, unless it says otherwise.
    let in_a = with(constraint(json!({})), json!({"nodeSelector": {"zone": "a"}}));
    assert_eq!(fits(web_labels(), in_a), ["a1", "a2"]);
    let ignoring = with(constraint(json!({"nodeAffinityPolicy": "Ignore"})), json!({"nodeSelector": {"zone": "a"}}));
    assert!(fits(web_labels(), ignoring).is_empty());
}

#[test]
fn pods_that_end_and_those_of_others_are_not_spread() {
    let constraint = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]});
    let (kind, mut ending) = web("a1", "1");
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let (_, mut other) = web("a1", "2");
    other["metadata"]["namespace"] = json!("other");
    let mut objects = zones();
    objects.extend([(kind, ending), (kind, other)]);
    let fits = fitting(&cluster(&objects), &ZONED, json!({"app": "web"}), with(plain(), constraint));
    assert_eq!(fits, ["a1", "a2", "b1"]);
}

#[test]
fn match_label_keys_take_the_pods_own_values() {
    let constraint = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}, "matchLabelKeys": ["hash"]}]});
    let mut objects = zones();
    objects.push(on("a1", "1", json!({"hash": "old"}), plain()));
    let cluster = cluster(&objects);
    let spec = with(plain(), constraint);
    assert_eq!(fitting(&cluster, &ZONED, json!({"hash": "new"}), spec.clone()), ["a1", "a2", "b1"]);
    assert_eq!(fitting(&cluster, &ZONED, json!({"hash": "old"}), spec), ["b1"]);
}

fn affinity(kind: &str, terms: Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn near_web(more: Value) -> Value {
    let mut term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}});
    merge(&mut term, more);
    term
}

#[test]
fn affinity_wants_all_terms_of_one_pod_and_the_first_may_go_anywhere() {
    let with_web = |extra: Vec<(Kind, Value)>| {
        let mut objects = zones();
        objects.extend(extra);
        cluster(&objects)
    };
    let spec = |terms: Value| with(plain(), affinity("podAffinity", terms));
    let empty = with_web(vec![]);
    let one = json!([near_web(json!({}))]);
    assert_eq!(fitting(&empty, &ZONED, json!({"app": "web"}), spec(one.clone())), ["a1", "a2", "b1"]);
    assert!(
        fitting(&empty, &ZONED, json!({"app": "db"}), spec(one.clone())).is_empty(),
        "it is none of those it wants"
    );

    let cluster = with_web(vec![web("a1", "1")]);
    assert_eq!(fitting(&cluster, &ZONED, json!({"app": "db"}), spec(one)), ["a1", "a2"]);
    let two = json!([near_web(json!({})), {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]);
    assert_eq!(fitting(&cluster, &ZONED, json!({"app": "web"}), spec(two)), ["a1"]);
    let split = json!([near_web(json!({})), {"topologyKey": "zone", "labelSelector": {"matchLabels": {"tier": "x"}}}]);
    let split_cluster = with_web(vec![web("a1", "1"), on("a1", "2", json!({"tier": "x"}), plain())]);
    assert!(
        fitting(&split_cluster, &ZONED, json!({}), spec(split)).is_empty(),
        "one pod matches all terms, or none counts"
    );
}

#[test]
fn affinity_and_its_namespaces() {
    let mut objects = zones();
    let (kind, mut other) = web("a1", "1");
    other["metadata"]["namespace"] = json!("other");
    let namespace = json!({"metadata": {"name": "other", "labels": {"team": "x"}}});
    objects.extend([(kind, other), (Kind::Namespace, namespace)]);
    let cluster = cluster(&objects);
    let fits = |more: Value| {
        let spec = with(plain(), affinity("podAffinity", json!([near_web(more)])));
        !fitting(&cluster, &ZONED, json!({}), spec).is_empty()
    };
    assert!(!fits(json!({})), "its own namespace alone");
    assert!(fits(json!({"namespaces": ["other"]})));
    assert!(fits(json!({"namespaceSelector": {}})), "the empty selector is all of them");
    assert!(fits(json!({"namespaceSelector": {"matchLabels": {"team": "x"}}})));
    assert!(!fits(json!({"namespaceSelector": {"matchLabels": {"team": "y"}}})));
    assert!(!fits(json!({"namespaces": ["third"]})));
}

#[test]
fn anti_affinity_counts_both_ways_and_terminating_pods_too() {
    let hates = |labels: Value| json!([{"topologyKey": "zone", "labelSelector": {"matchLabels": labels}}]);
    let mut objects = zones();
    let (kind, mut loner) =
        on("a1", "1", json!({"app": "db"}), with(plain(), affinity("podAntiAffinity", hates(json!({"app": "web"})))));
    loner["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    objects.push((kind, loner));
    let cluster = cluster(&objects);
    assert_eq!(fitting(&cluster, &ZONED, json!({"app": "web"}), plain()), ["b1", "bare"], "it is not wanted there");
    assert_eq!(fitting(&cluster, &ZONED, json!({"app": "x"}), plain()), ZONED);
    let spec = with(plain(), affinity("podAntiAffinity", hates(json!({"app": "db"}))));
    assert_eq!(fitting(&cluster, &ZONED, json!({"app": "x"}), spec), ["b1", "bare"], "it does not want to be there");
}
