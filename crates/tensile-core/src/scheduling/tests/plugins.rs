// SPDX-License-Identifier: Apache-2.0
//! What each plugin lets pass and what not, case by case: the edges that upstream's own tests and users know.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{Cluster, Kind, Profile, Question, Unknown};
use super::scene::{cluster, fitting, merge, node, on, question, requests, see, shared, why};

fn plain() -> Value {
    requests(json!({}))
}

fn with(mut spec: Value, more: Value) -> Value {
    merge(&mut spec, more);
    spec
}

#[test]
fn a_pod_that_names_its_node_goes_nowhere_else() {
    let cluster = cluster(&[node("a", json!({})), node("b", json!({}))]);
    assert_eq!(fitting(&cluster, &["a", "b", "c"], json!({}), plain()), ["a", "b"]);
    let nowhere = question(json!({}), with(plain(), json!({"nodeName": "c"})));
    assert_eq!(why(&cluster, &nowhere), ("none of 2 nodes is named by it".to_owned(), false));
}

#[test]
fn a_cordon_and_its_taint_count_each_for_itself() {
    let taint = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
    let cluster = cluster(&[
        node("flag", json!({"spec": {"unschedulable": true}})),
        node("taint", json!({"spec": {"taints": taint}})),
        node("free", json!({})),
    ]);
    let all = ["flag", "taint", "free"];
    assert_eq!(fitting(&cluster, &all, json!({}), plain()), ["free"]);
    let tolerant = json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]});
    assert_eq!(fitting(&cluster, &all, json!({}), with(plain(), tolerant)), all);
}

#[test]
fn taints_are_tolerated_by_key_operator_value_and_effect() {
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}});
    let cluster = cluster(&[
        node("schedule", taint("NoSchedule")),
        node("execute", taint("NoExecute")),
        node("prefer", taint("PreferNoSchedule")),
    ]);
    for (toleration, expected) in [
        (json!({"key": "other", "operator": "Exists"}), vec!["prefer"]),
        (json!({"operator": "Exists"}), vec!["schedule", "execute", "prefer"]),
        (json!({"key": "k", "value": "v"}), vec!["schedule", "execute", "prefer"]),
        (json!({"key": "k", "value": "w"}), vec!["prefer"]),
        (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), vec!["execute", "prefer"]),
        (json!({"key": "k", "operator": "Gt", "value": "1"}), vec!["prefer"]),
        (json!({"key": "k", "operator": "Exists", "tolerationSeconds": 5}), vec!["schedule", "execute", "prefer"]),
    ] {
        let spec = with(plain(), json!({"tolerations": [toleration]}));
        let fits = fitting(&cluster, &["schedule", "execute", "prefer"], json!({}), spec);
        assert_eq!(fits, expected, "{toleration}");
    }
}

#[test]
fn node_affinity_is_an_or_of_ands() {
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    let cluster = cluster(&[
        node("a", labels(json!({"zone": "1", "cores": "8"}))),
        node("b", labels(json!({"zone": "2", "cores": "many"}))),
        node("c", labels(json!({}))),
    ]);
    let expression =
        |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
    let term = |expression: Value| json!([{"matchExpressions": [expression]}]);
    let field =
        |operator: &str, values: Value| json!([{"matchFields": [expression("metadata.name", operator, values)]}]);
    let none: [&str; 0] = [];
    for (terms, expected) in [
        (json!([]), none.as_slice()),
        (json!([{}]), &none),
        (term(expression("zone", "In", json!(["1", "3"]))), &["a"]),
        (term(expression("zone", "NotIn", json!(["1"]))), &["b", "c"]),
        (term(expression("nowhere", "NotIn", json!(["1"]))), &["a", "b", "c"]),
        (term(expression("zone", "DoesNotExist", json!([]))), &["c"]),
        (term(expression("zone", "Exists", json!(null))), &["a", "b"]),
        (term(expression("cores", "Gt", json!(["4"]))), &["a"]),
        (term(expression("cores", "Lt", json!(["9"]))), &["a"]),
        (term(expression("cores", "Gt", json!(["x"]))), &none),
        (field("In", json!(["b"])), &["b"]),
        (field("In", json!(["a", "b"])), &none),
        (field("NotIn", json!(["b"])), &["a", "c"]),
        (field("Exists", json!([])), &none),
        // A term that cannot be parsed is passed over, the others count.
        (
            json!([{"matchExpressions": [expression("zone", "In", json!([]))]},
            {"matchExpressions": [expression("zone", "In", json!(["2"]))]}]),
            &["b"],
        ),
        // Names that contradict one another.
        (
            json!([{"matchFields": [expression("metadata.name", "In", json!(["a"])),
            expression("metadata.name", "In", json!(["b"]))]}]),
            &none,
        ),
    ] {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let spec = with(plain(), json!({"affinity": {"nodeAffinity": required}}));
        assert_eq!(fitting(&cluster, &["a", "b", "c"], json!({}), spec), expected, "{terms}");
    }
    let both = json!({"nodeSelector": {"zone": "1"}, "affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": term(expression("zone", "In", json!(["2"])))}}}});
    assert!(fitting(&cluster, &["a", "b", "c"], json!({}), with(plain(), both)).is_empty());
}

#[test]
fn host_ports_clash_on_the_node_they_are_on() {
    let port = |more: Value| {
        let mut port = json!({"containerPort": 1, "hostPort": 80});
        merge(&mut port, more);
        json!([{"name": "c", "ports": [port]}])
    };
    let on_one = |more: Value| on("a", "p", json!({}), json!({"containers": port(more)}));
    let asks = |cluster: &Cluster, more: Value| {
        fitting(cluster, &["a", "b"], json!({}), json!({"containers": port(more)})).contains(&"a".to_owned())
    };
    let taken = |more: Value| cluster(&[node("a", json!({})), node("b", json!({})), on_one(more)]);
    assert!(!asks(&taken(json!({})), json!({})));
    assert!(asks(&taken(json!({})), json!({"hostPort": 81})));
    assert!(asks(&taken(json!({"protocol": "UDP"})), json!({"protocol": "TCP"})));
    assert!(asks(&taken(json!({"hostIP": "10.0.0.1"})), json!({"hostIP": "10.0.0.2"})));
    assert!(!asks(&taken(json!({"hostIP": "10.0.0.1"})), json!({"hostIP": "0.0.0.0"})));

    // A terminating pod holds its port, an ordinary init container has none.
    let (kind, mut ending) = on_one(json!({}));
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let ending = cluster(&[node("a", json!({})), (kind, ending)]);
    assert!(!asks(&ending, json!({})));
    let init = on("a", "p", json!({}), json!({"containers": [], "initContainers": port(json!({}))}));
    assert!(asks(&cluster(&[node("a", json!({})), init]), json!({})));
    let question = question(json!({}), json!({"containers": port(json!({}))}));
    assert_eq!(taken(json!({})).capacity(&question, 9), 1, "one on each node that has the port free");
}

#[test]
fn resources_fit_by_what_is_left() {
    let gpu = json!({"status": {"allocatable": {"example.com/gpu": "2"}}});
    let full = on("a", "p", json!({}), requests(json!({"cpu": "3", "memory": "1Gi", "example.com/gpu": "1"})));
    let cluster = cluster(&[node("a", gpu), node("b", json!({})), full]);
    for (wanted, expected) in [
        (json!({"cpu": "1"}), vec!["a", "b"]),
        (json!({"cpu": "1001m"}), vec!["b"]),
        (json!({"memory": "7Gi"}), vec!["a", "b"]),
        (json!({"memory": "7169Mi"}), vec!["b"]),
        (json!({"example.com/gpu": "1"}), vec!["a"]),
        (json!({"example.com/gpu": "2"}), vec![]),
        (json!({"example.com/gpu": "0"}), vec!["a", "b"]),
        (json!({"ephemeral-storage": "1"}), vec![]),
        (json!({"hugepages-2Mi": "2Mi"}), vec![]),
    ] {
        assert_eq!(fitting(&cluster, &["a", "b"], json!({}), requests(wanted.clone())), expected, "{wanted}");
    }
    let init = json!({"containers": [{"name": "c"}], "initContainers": [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "i", "resources": {"requests": {"cpu": "3500m"}}}]});
    assert!(fitting(&cluster, &["a", "b"], json!({}), init).is_empty(), "the init container runs beside the sidecar");
    let level = json!({"resources": {"requests": {"cpu": "2"}}, "containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]});
    assert_eq!(fitting(&cluster, &["a", "b"], json!({}), level), ["b"], "a pod's own request replaces the sum");
}

#[test]
fn an_overcommitted_dimension_that_is_not_asked_for_does_not_count() {
    let greedy = on("a", "p", json!({}), requests(json!({"cpu": "9"})));
    let cluster = cluster(&[node("a", json!({})), greedy]);
    assert_eq!(fitting(&cluster, &["a"], json!({}), requests(json!({"memory": "1Gi"}))), ["a"]);
    assert_eq!(fitting(&cluster, &["a"], json!({}), requests(json!({}))), ["a"]);
    assert!(fitting(&cluster, &["a"], json!({}), requests(json!({"cpu": "1m"}))).is_empty());
}

#[test]
fn the_number_of_pods_is_counted_first() {
    let one = node("a", json!({"status": {"allocatable": {"pods": "1"}}}));
    let cluster = cluster(&[one, on("a", "p", json!({}), plain())]);
    let question = question(json!({}), plain());
    assert_eq!(why(&cluster, &question), ("none of 1 nodes has a place for one more pod".to_owned(), true));
}

#[test]
fn a_resize_under_way_counts_at_its_larger_end() {
    let (kind, mut pod) = on("a", "p", json!({}), requests(json!({"cpu": "1"})));
    pod["status"]["containerStatuses"] = json!([{"name": "c", "resources": {"requests": {"cpu": "3"}}}]);
    let cluster = cluster(&[node("a", json!({})), (kind, pod)]);
    assert_eq!(cluster.capacity(&question(json!({}), requests(json!({"cpu": "1"}))), 9), 1);
}

#[test]
fn ignored_resources_are_extended_ones() {
    let profile = json!({"pluginConfig": [{"name": "NodeResourcesFit", "args": {
        "ignoredResources": ["example.com/gpu", "cpu"], "ignoredResourceGroups": ["other.com"]}}]});
    let mut cluster = Cluster::new(Profile::read(&profile).unwrap());
    let (kind, a) = node("a", json!({}));
    see(&mut cluster, kind, &a);
    let fits = |wanted: Value| cluster.ask(&question(json!({}), requests(wanted))).fits();
    assert!(fits(json!({"example.com/gpu": "5", "other.com/x": "1"})));
    assert!(!fits(json!({"third.com/x": "1"})));
    assert!(!fits(json!({"cpu": "5"})));
}

#[test]
fn nodes_have_to_do_with_and_without_pods_that_room_was_made_for() {
    let (kind, mut waiting) = on("", "1", json!({}), requests(json!({"cpu": "3"})));
    waiting["spec"]["priority"] = json!(10);
    waiting["status"] = json!({"phase": "Pending", "nominatedNodeName": "a"});
    let cluster = cluster(&[node("a", json!({})), (kind, waiting)]);
    let asked = |priority: i64, cpu: &str| {
        let pod = json!({"metadata": {"name": "p", "namespace": "n"},
            "spec": with(requests(json!({"cpu": cpu})), json!({"priority": priority}))});
        Question::of_lower(&pod, Unknown::Deny).unwrap()
    };
    assert!(cluster.ask(&asked(0, "1")).fits());
    assert!(!cluster.ask(&asked(10, "2")).fits());
    assert!(cluster.ask(&asked(11, "2")).fits(), "its priority is higher");
    let (said, resolvable) = why(&cluster, &asked(0, "2"));
    assert_eq!(
        (said.as_str(), resolvable),
        ("none of 1 nodes has room that is not meant for pods that wait already", true)
    );
}

#[test]
fn a_quota_of_the_namespace_counts_with_pods_that_are_on_their_way() {
    let quota = |hard: Value, used: Value, scopes: Value| {
        (
            Kind::Quota,
            json!({"metadata": {"name": "q", "namespace": "n"}, "spec": {"scopes": scopes},
            "status": {"hard": hard, "used": used}}),
        )
    };
    let scene = |quota: (Kind, Value)| cluster(&[node("a", json!({})), quota]);
    let one = shared(json!({"cpu": "1"}));
    let cpu = quota(json!({"requests.cpu": "3"}), json!({"requests.cpu": "1500m"}), json!([]));
    let mut tight = scene(cpu.clone());
    assert_eq!(tight.capacity(&one, 9), 1);
    assert!(tight.assume(super::super::Uid::of("u"), &one));
    let said = why(&tight, &one);
    assert_eq!(said, ("quota q of namespace n leaves too little of requests.cpu".to_owned(), false));
    tight.forget(super::super::Uid::of("u"));
    assert!(tight.offer(super::super::Uid::of("u"), &one).fits());
    assert!(tight.assume(super::super::Uid::of("u"), &one), "its own part of the quota does not stand in its way");

    assert!(!scene(quota(json!({"pods": "2"}), json!({"pods": "2"}), json!([]))).ask(&one).fits());
    assert!(!scene(quota(json!({"count/pods": "0"}), json!({}), json!(["NotBestEffort"]))).ask(&one).fits());
    assert!(scene(quota(json!({"pods": "0"}), json!({}), json!(["BestEffort"]))).ask(&one).fits());
    assert!(scene(quota(json!({"services": "0", "limits.cpu": "0"}), json!({}), json!([]))).ask(&one).fits());
    let elsewhere =
        (cpu.0, with(cpu.1, json!({"metadata": {"namespace": "other"}, "status": {"used": {"requests.cpu": 3}}})));
    assert!(scene(elsewhere).ask(&one).fits());
}

#[test]
fn a_pod_is_asked_about_with_the_default_amounts_of_its_namespace() {
    let range = |namespace: &str, cpu: &str| {
        let limits = json!([{"type": "Container", "defaultRequest": {"cpu": cpu}, "default": {"cpu": "5"}}]);
        let meta = json!({"name": "r", "namespace": namespace});
        (Kind::LimitRange, json!({"metadata": meta, "spec": {"limits": limits}}))
    };
    let bare = Arc::new(question(json!({}), plain()));
    let mut scene = cluster(&[node("a", json!({})), range("other", "9"), range("n", "3")]);
    assert_eq!(scene.capacity(&bare, 9), 1);
    assert_eq!(scene.capacity(&question(json!({}), requests(json!({"cpu": "1"}))), 9), 4, "it says so itself");
    assert!(scene.offer(super::super::Uid::of("u"), &bare).fits());
    assert_eq!(why(&scene, &bare).0, "none of 1 nodes has 3 CPUs free; largest free: 1");
    let (kind, quota) =
        (Kind::Quota, json!({"metadata": {"name": "q", "namespace": "n"}, "status": {"hard": {"limits.cpu": "4"}}}));
    see(&mut scene, kind, &quota);
    assert!(why(&scene, &bare).0.contains("leaves too little of limits.cpu"), "limits are defaults too");
}

#[test]
fn reasons_say_how_near_it_was() {
    let zone = |name: &str, zone: &str| node(name, json!({"metadata": {"labels": {"zone": zone}}}));
    let cluster = cluster(&[zone("a1", "a"), zone("a2", "a"), zone("b1", "b"), node("c", json!({}))]);
    let spec = with(requests(json!({"cpu": "6"})), json!({"nodeSelector": {"zone": "a"}}));
    let said = why(&cluster, &question(json!({}), spec));
    assert_eq!(said, ("2 of 4 nodes match its node selector, none has 6 CPUs free; largest free: 4".to_owned(), false));
    let both = requests(json!({"cpu": "3", "memory": "7Gi"}));
    let split = super::scene::cluster(&[
        node("a", json!({})),
        node("b", json!({})),
        on("a", "1", json!({}), requests(json!({"cpu": "2"}))),
        on("b", "2", json!({}), requests(json!({"memory": "2Gi"}))),
    ]);
    let said = why(&split, &question(json!({}), both));
    assert_eq!(said, ("none of 2 nodes has room for all that it requests together".to_owned(), true));
    assert_eq!(why(&Cluster::default(), &question(json!({}), plain())).0, "the cluster has no nodes");
}
