// SPDX-License-Identifier: Apache-2.0
//! Tests of the module above.
use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};

use super::*;

fn lower_node(name: &str, allocatable: &Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"zone": "a"}},
        "spec": {},
        "status": {
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            "allocatable": allocatable,
            "nodeInfo": {"operatingSystem": "linux", "architecture": "amd64", "kubeletVersion": "v1.35.4"},
        },
    })
}

fn read(node: &Value) -> LowerNode {
    LowerNode::from_json(&node.to_string()).unwrap()
}

fn offer(nodes: &[Value], pods: &[Value]) -> Value {
    let nodes: Vec<_> = nodes.iter().map(read).collect();
    let pods: Vec<_> = pods.iter().filter_map(|pod| ForeignPod::from_json(&pod.to_string()).unwrap()).collect();
    capacity(&nodes, &pods).allocatable.to_json()
}

fn pod_on(node: &str, requests: &Value) -> Value {
    json!({"spec": {"nodeName": node, "containers": [{"name": "a", "resources": {"requests": requests}}]},
        "status": {"phase": "Running"}})
}

#[test]
fn every_resource_of_every_node_is_summed() {
    let nodes = [
        lower_node("a", &json!({"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "10Gi"})),
        lower_node(
            "b",
            &json!({"cpu": "3920m", "memory": "1Gi", "pods": "10", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"}),
        ),
    ];
    assert_eq!(
        offer(&nodes, &[]),
        json!({"cpu": "7920m", "memory": "9Gi", "pods": "120", "ephemeral-storage": "10Gi", "hugepages-2Mi": "4Mi",
            "example.com/gpu": "2"})
    );
}

#[test]
fn what_foreign_pods_request_on_a_node_is_taken_off_that_node_with_one_pod_each() {
    let nodes =
        [lower_node("a", &json!({"cpu": "4", "pods": "10"})), lower_node("b", &json!({"cpu": "4", "pods": "10"}))];
    let pods = [pod_on("a", &json!({"cpu": "1"})), pod_on("a", &json!({"cpu": "500m"})), pod_on("b", &json!({}))];
    assert_eq!(offer(&nodes, &pods), json!({"cpu": "6500m", "pods": "17"}));
}

#[test]
fn an_over_committed_node_offers_nothing_and_takes_nothing_from_the_others() {
    let nodes = [
        lower_node("a", &json!({"cpu": "1", "memory": "1Gi", "pods": "1"})),
        lower_node("b", &json!({"cpu": "2", "pods": "5"})),
    ];
    let pods = [pod_on("a", &json!({"cpu": "10"})), pod_on("a", &json!({"cpu": "1", "memory": "24Mi"}))];
    assert_eq!(offer(&nodes, &pods), json!({"cpu": "2", "memory": "1000Mi", "pods": "5"}));
}

#[test]
fn pods_that_are_finished_unbound_or_on_an_unknown_node_take_nothing() {
    let mut finished = pod_on("a", &json!({"cpu": "1"}));
    finished["status"]["phase"] = "Succeeded".into();
    let mut unbound = pod_on("a", &json!({"cpu": "1"}));
    unbound["spec"]["nodeName"] = Value::Null;
    let pods = [finished, unbound, pod_on("gone", &json!({"cpu": "1"}))];
    assert_eq!(offer(&[lower_node("a", &json!({"cpu": "1", "pods": "3"}))], &pods), json!({"cpu": "1", "pods": "3"}));
}

#[test]
fn a_foreign_pod_under_resize_counts_at_its_larger_end() {
    let mut pod = pod_on("a", &json!({"cpu": "1"}));
    pod["status"]["containerStatuses"] = json!([{"name": "a", "resources": {"requests": {"cpu": "3"}}}]);
    assert_eq!(offer(&[lower_node("a", &json!({"cpu": "4"}))], &[pod]), json!({"cpu": "1"}));
}

#[test]
fn only_nodes_that_take_new_pods_count() {
    let node = |pointer: &str, value: Value| {
        let mut node = lower_node("a", &json!({"cpu": "1"}));
        *node.pointer_mut(pointer).unwrap() = value;
        node
    };
    let taint = |key: &str, effect: &str| node("/spec", json!({"taints": [{"key": key, "effect": effect}]}));
    for (node, counts) in [
        (node("/spec", json!({"unschedulable": false})), true),
        (node("/spec", json!({"unschedulable": true})), false),
        (node("/spec", json!({"taints": null})), true),
        (node("/status/conditions/1/status", "False".into()), false),
        (node("/status/conditions/1/status", "Unknown".into()), false),
        (node("/status/conditions", json!([])), false),
        (node("/metadata/labels", json!({"type": "virtual-kubelet"})), false),
        (node("/metadata/labels", json!({"type": "spot"})), true),
        (node("/metadata/labels", Value::Null), true),
        (taint("node.kubernetes.io/unreachable", "NoExecute"), false),
        (taint("node.kubernetes.io/disk-pressure", "NoSchedule"), false),
        (taint("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"), false),
        (taint("node-role.kubernetes.io/control-plane", "NoSchedule"), false),
        (taint("ToBeDeletedByClusterAutoscaler", "NoSchedule"), false),
        (taint("node-role.kubernetes.io/control-plane", "PreferNoSchedule"), true),
        // Pods that tolerate it may land there, as they may in a flat cluster.
        (taint("nvidia.com/gpu", "NoSchedule"), true),
    ] {
        assert_eq!(read(&node).takes_pods(), counts, "{node}");
    }
}

#[test]
fn what_is_not_ready_is_gone_from_the_sum_with_its_pods() {
    let mut away = lower_node("a", &json!({"cpu": "4", "pods": "10"}));
    away["status"]["conditions"][1]["status"] = "Unknown".into();
    let nodes = [away, lower_node("b", &json!({"cpu": "1", "pods": "10"}))];
    assert_eq!(offer(&nodes, &[pod_on("a", &json!({"cpu": "2"}))]), json!({"cpu": "1", "pods": "10"}));
}

#[test]
fn systems_architectures_and_the_oldest_version_are_those_of_the_nodes_that_count() {
    let mut nodes = [
        lower_node("a", &json!({})),
        lower_node("b", &json!({})),
        lower_node("c", &json!({})),
        lower_node("d", &json!({})),
    ];
    nodes[1]["status"]["nodeInfo"] =
        json!({"operatingSystem": "linux", "architecture": "arm64", "kubeletVersion": "v1.9.11+k3s1"});
    nodes[2]["status"]["nodeInfo"] = Value::Object(serde_json::Map::new());
    nodes[3]["status"]["nodeInfo"] =
        json!({"operatingSystem": "windows", "architecture": "amd64", "kubeletVersion": "v1.1.0"});
    nodes[3]["spec"]["unschedulable"] = true.into();
    let totals = capacity(&nodes.iter().map(read).collect::<Vec<_>>(), &[]);
    assert_eq!(totals.nodes, 3);
    assert_eq!(totals.os.into_iter().collect::<Vec<_>>(), ["linux"]);
    assert_eq!(totals.arch.into_iter().collect::<Vec<_>>(), ["amd64", "arm64"]);
    assert_eq!(totals.kubelet_version.as_deref(), Some("v1.9.11+k3s1"));
}

#[test]
fn versions_are_compared_by_number() {
    for (older, newer) in [
        ("v1.9.3", "v1.34.0"),
        ("v1.34.1", "v1.34.12"),
        ("v1.34.1", "v1.34.1+k3s1"),
        ("", "v1.0.0"),
        ("v1.36.0-rc.1", "v1.37"),
    ] {
        assert_eq!(compare_versions(older, newer), Ordering::Less, "{older} {newer}");
        assert_eq!(compare_versions(newer, older), Ordering::Greater, "{newer} {older}");
    }
}

#[test]
fn an_empty_cluster_offers_nothing() {
    assert_eq!(capacity(&[], &[]), Totals::default());
}

#[test]
fn a_node_without_a_name_or_with_another_shape_is_an_error() {
    for node in [
        json!({}),
        json!({"metadata": {}}),
        json!({"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "x"}}}),
    ] {
        assert!(LowerNode::from_json(&node.to_string()).is_err(), "{node}");
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const RESOURCES: [&str; 3] = ["cpu", "pods", "example.com/gpu"];

fn amounts() -> impl Strategy<Value = ResourceVector> {
    proptest::collection::vec((0..RESOURCES.len(), 0_i128..5_000), 0..4)
        .prop_map(|amounts| amounts.into_iter().map(|(resource, milli)| (RESOURCES[resource].into(), milli)).collect())
}

fn snapshots() -> impl Strategy<Value = (Vec<LowerNode>, Vec<ForeignPod>)> {
    let nodes = proptest::collection::vec((amounts(), any::<bool>(), any::<bool>()), NAMES.len());
    let nodes = nodes.prop_map(|nodes| {
        let named = NAMES.iter().zip(nodes);
        let node = |(name, (allocatable, ready, unschedulable)): (&&str, _)| LowerNode {
            ready,
            unschedulable,
            allocatable,
            ..read(&lower_node(name, &json!({})))
        };
        named.map(node).collect()
    });
    let pod = (0..NAMES.len(), amounts()).prop_map(|(node, request)| ForeignPod { node: NAMES[node].into(), request });
    (nodes, proptest::collection::vec(pod, 0..12))
}

/// Moves each element to a place that `places` names.
fn shuffled<T: Clone>(items: &[T], places: &[Index]) -> Vec<T> {
    let mut shuffled = Vec::new();
    for (item, place) in items.iter().zip(places.iter().cycle()) {
        shuffled.insert(place.index(shuffled.len() + 1), item.clone());
    }
    shuffled
}

proptest! {
    #[test]
    fn the_order_of_nodes_and_pods_does_not_matter(
        (nodes, pods) in snapshots(),
        places in proptest::collection::vec(any::<Index>(), 1..12),
    ) {
        prop_assert_eq!(capacity(&shuffled(&nodes, &places), &shuffled(&pods, &places)), capacity(&nodes, &pods));
    }

    #[test]
    fn the_offer_is_what_a_plain_count_per_node_and_resource_gives((nodes, pods) in snapshots()) {
        let totals = capacity(&nodes, &pods);
        for resource in RESOURCES {
            let name = ResourceName::from(resource);
            let (mut expected, mut known) = (0, false);
            for node in &nodes {
                if !node.ready || node.unschedulable {
                    continue;
                }
                let Some(mut left) = node.allocatable.get(&name) else { continue };
                for pod in pods.iter().filter(|pod| pod.node == node.name) {
                    left -= pod.request.get(&name).unwrap_or(0);
                    left -= if resource == "pods" { 1000 } else { 0 };
                }
                known = true;
                expected += if left > 0 { left } else { 0 };
            }
            prop_assert_eq!(totals.allocatable.get(&name), known.then_some(expected), "{}", resource);
        }
    }
}
