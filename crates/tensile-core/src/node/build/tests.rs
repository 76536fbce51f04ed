// SPDX-License-Identifier: Apache-2.0
//! Tests of the module above.
use serde_json::json;

use super::*;
use crate::resources::ResourceVector;

fn settings() -> NodeSettings {
    NodeSettings {
        name: "v1".into(),
        cluster_id: Some("blue".into()),
        taint: Some(Taint::provider("k8s")),
        addresses: vec![Address { kind: "InternalIP".into(), address: "10.0.0.7".into() }],
        port: Some(10250),
        version: "v1.36.3".into(),
        ..NodeSettings::default()
    }
}

fn totals(os: &[&str], arch: &[&str]) -> Totals {
    Totals {
        allocatable: ResourceVector::from_json(&json!({"cpu": "7920m", "memory": "9Gi", "pods": "120"})).unwrap(),
        nodes: 2,
        os: os.iter().map(ToString::to_string).collect(),
        arch: arch.iter().map(ToString::to_string).collect(),
        kubelet_version: Some("v1.34.1".into()),
    }
}

#[test]
fn a_node_shows_what_its_lower_cluster_offers() {
    let node = build(&settings(), &totals(&["linux"], &["amd64"]), &Readiness::Ready);
    assert_eq!(
        node,
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "v1",
                "labels": {
                    "type": "virtual-kubelet",
                    "clusterID": "blue",
                    "kubernetes.io/role": "agent",
                    "kubernetes.io/hostname": "v1",
                    "kubernetes.io/os": "linux",
                    "beta.kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    "beta.kubernetes.io/arch": "amd64",
                    "node.kubernetes.io/exclude-from-external-load-balancers": "",
                },
            },
            "spec": {"taints": [{"key": "virtual-kubelet.io/provider", "value": "k8s", "effect": "NoSchedule"}]},
            "status": {
                "capacity": {"cpu": "7920m", "memory": "9Gi", "pods": "120"},
                "allocatable": {"cpu": "7920m", "memory": "9Gi", "pods": "120"},
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": "KubeletReady",
                        "message": "the lower cluster takes pods"},
                    {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory",
                        "message": "lower nodes watch their own memory"},
                    {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure",
                        "message": "lower nodes watch their own disks"},
                    {"type": "PIDPressure", "status": "False", "reason": "KubeletHasSufficientPID",
                        "message": "lower nodes watch their own processes"},
                    {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated",
                        "message": "lower nodes have their own network"},
                ],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
                "declaredFeatures": ["ExtendWebSocketsToKubelet"],
                "nodeInfo": {"operatingSystem": "linux", "architecture": "amd64", "kubeletVersion": "v1.34.1"},
            },
        })
    );
}

#[test]
fn mixed_lower_nodes_are_named_in_the_node_info_and_get_no_label_that_would_lie() {
    let node = build(&settings(), &totals(&["linux", "windows"], &["amd64", "arm64"]), &Readiness::Ready);
    let labels = node["metadata"]["labels"].as_object().unwrap();
    for key in ["kubernetes.io/os", "beta.kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/arch"] {
        assert!(!labels.contains_key(key), "{key}");
    }
    assert_eq!(node["status"]["nodeInfo"]["operatingSystem"], "linux,windows");
    assert_eq!(node["status"]["nodeInfo"]["architecture"], "amd64,arm64");
}

#[test]
fn before_any_lower_node_is_known_the_node_offers_nothing_under_the_servers_version() {
    let node = build(&settings(), &Totals::default(), &Readiness::Ready);
    assert_eq!(node["status"]["capacity"], json!({}));
    assert_eq!(
        node["status"]["nodeInfo"],
        json!({"operatingSystem": "", "architecture": "", "kubeletVersion": "v1.36.3"})
    );
}

#[test]
fn the_operators_labels_win_except_over_type_and_hostname() {
    let labels = [
        ("kubernetes.io/arch", "riscv64"),
        ("clusterID", "green"),
        ("pool", "x"),
        ("type", "y"),
        ("kubernetes.io/hostname", "z"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let node = build(&NodeSettings { labels, ..settings() }, &totals(&["linux"], &["amd64"]), &Readiness::Ready);
    let labels = &node["metadata"]["labels"];
    assert_eq!(labels["kubernetes.io/arch"], "riscv64");
    assert_eq!(labels["clusterID"], "green");
    assert_eq!(labels["pool"], "x");
    assert_eq!(labels["type"], "virtual-kubelet");
    assert_eq!(labels["kubernetes.io/hostname"], "v1");
}

#[test]
fn what_is_not_set_is_left_out() {
    let settings = NodeSettings { name: "v1".into(), ..NodeSettings::default() };
    let node = build(&settings, &Totals::default(), &Readiness::Ready);
    assert_eq!(node["spec"], json!({"taints": []}));
    assert_eq!(node["status"]["addresses"], json!([]));
    assert!(node["status"].get("daemonEndpoints").is_none());
    assert!(node["status"].get("declaredFeatures").is_none());
    assert!(node["metadata"].get("annotations").is_none());
    assert!(node["metadata"]["labels"].get("clusterID").is_none());
}

#[test]
fn annotations_are_shown() {
    let annotations = [("a".to_owned(), "b".to_owned())].into();
    let node = build(&NodeSettings { annotations, ..settings() }, &Totals::default(), &Readiness::Ready);
    assert_eq!(node["metadata"]["annotations"], json!({"a": "b"}));
}

#[test]
fn a_node_that_is_not_ready_says_why() {
    let readiness = Readiness::NotReady { reason: "Starting".into(), message: "the first list is not complete".into() };
    let node = build(&settings(), &Totals::default(), &readiness);
    assert_eq!(
        node["status"]["conditions"][0],
        json!({"type": "Ready", "status": "False", "reason": "Starting", "message": "the first list is not complete"})
    );
}

#[test]
fn taint_effects_are_read_by_their_api_names() {
    for effect in [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute] {
        assert_eq!(effect.as_str().parse(), Ok(effect));
    }
    let error = "noschedule".parse::<TaintEffect>().unwrap_err();
    assert_eq!(error.to_string(), r#""noschedule" is no taint effect: use NoSchedule, PreferNoSchedule or NoExecute"#);
}
