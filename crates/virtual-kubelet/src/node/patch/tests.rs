// SPDX-License-Identifier: Apache-2.0
//! Tables of patches, and the property that they bring a node to what is wanted and leave others' parts alone.

use proptest::prelude::*;

use super::*;
use crate::node::fake::apply;

const NOW: &str = "2026-01-02T03:04:05Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// What an API server has after it took the patch.
fn patched(server: &Value, wanted: &Value) -> Value {
    let mut node = server.clone();
    apply(&mut node, &status_patch(server, wanted, now()));
    node
}

/// What an API server has after the node was registered.
fn registered(wanted: &Value) -> Value {
    let mut node = registration(wanted, now());
    node["metadata"]["uid"] = "u".into();
    node
}

fn provided() -> Value {
    json!({
        "metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"c": "3"}},
        "status": {
            "capacity": {"cpu": "4"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "m"}, {"type": "Extra", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"architecture": "amd64", "kubeletVersion": "v1"},
        },
    })
}

fn node() -> Value {
    wanted(provided(), "v", &Backend::Present)
}

#[test]
fn the_node_gets_its_name_and_a_ready_condition_where_the_provider_gives_none() {
    assert_eq!(
        wanted(json!({}), "v", &Backend::Present),
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "v"},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "the backend answers"},
            ]},
        })
    );
}

#[test]
fn a_backend_that_is_away_overrules_ready_and_nothing_else() {
    let away = wanted(provided(), "v", &Backend::Away("refused".into()));
    assert_eq!(
        away["status"]["conditions"],
        json!([
            {"type": "Ready", "status": "False", "reason": "BackendUnreachable", "message": "refused"},
            {"type": "Extra", "status": "True"},
        ])
    );
    assert_eq!(away["status"]["capacity"], provided()["status"]["capacity"]);
}

#[test]
fn what_is_registered_remembers_itself_in_the_annotations_of_the_go_library() {
    let node = registration(&node(), now());
    assert_eq!(node["status"]["conditions"][0]["lastHeartbeatTime"], NOW);
    assert_eq!(node["status"]["conditions"][0]["lastTransitionTime"], NOW);
    let kept =
        |key: &str| serde_json::from_str::<Value>(node["metadata"]["annotations"][key].as_str().unwrap()).unwrap();
    assert_eq!(
        kept("virtual-kubelet.io/last-applied-object-meta"),
        json!({"name": "v", "labels": {"a": "1", "b": "2"}, "annotations": {"c": "3"}})
    );
    assert_eq!(kept("virtual-kubelet.io/last-applied-node-status"), provided()["status"]);
}

#[test]
fn an_unchanged_node_is_patched_with_heartbeats_alone() {
    let mut server = registered(&node());
    server["status"]["conditions"][0]["lastTransitionTime"] = "2020-01-01T00:00:00Z".into();
    let later = "2026-01-02T04:00:00Z";
    let patch = status_patch(&server, &node(), later.parse().unwrap());
    assert_eq!(
        patch["status"],
        json!({"conditions": [{"type": "Ready", "lastHeartbeatTime": later}, {"type": "Extra", "lastHeartbeatTime": later}]})
    );
    assert_eq!(patch["metadata"]["uid"], "u");
    assert_eq!(patch["metadata"]["labels"], json!({}));
}

#[test]
fn what_is_gone_already_is_not_taken_back_again() {
    let mut server = registered(&node());
    server["metadata"]["labels"] = json!({"a": "1"});
    let mut less = node();
    less["metadata"]["labels"] = json!({"a": "1"});
    assert_eq!(status_patch(&server, &less, now())["metadata"]["labels"], json!({}));
}

#[test]
fn times_that_a_provider_gives_are_not_remembered() {
    let mut timed = node();
    timed["status"]["conditions"][0]["lastHeartbeatTime"] = "2020-01-01T00:00:00Z".into();
    timed["status"]["conditions"][0]["lastTransitionTime"] = "2020-01-01T00:00:00Z".into();
    assert_eq!(registration(&timed, now())["metadata"], registration(&node(), now())["metadata"]);
}

#[test]
fn the_transition_time_moves_only_with_the_status() {
    let mut server = registered(&node());
    for condition in server["status"]["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = "2020-01-01T00:00:00Z".into();
    }
    let away = wanted(provided(), "v", &Backend::Away("x".into()));
    let conditions = &patched(&server, &away)["status"]["conditions"];
    assert_eq!(conditions[0]["lastTransitionTime"], NOW);
    assert_eq!(conditions[1]["lastTransitionTime"], "2020-01-01T00:00:00Z");
}

#[test]
fn what_we_wrote_and_no_longer_want_is_taken_back() {
    let server = registered(&node());
    let mut less = node();
    less["metadata"]["labels"] = json!({"a": "9"});
    less["metadata"]["annotations"] = json!({});
    less["status"]["capacity"] = json!({"memory": "1Gi"});
    less["status"]["conditions"].as_array_mut().unwrap().truncate(1);
    less["status"]["addresses"] =
        json!([{"type": "InternalIP", "address": "10.0.0.2"}, {"type": "InternalIP", "address": "fd00::2"}]);
    less["status"]["nodeInfo"] = json!({"kubeletVersion": "v2"});
    let node = patched(&server, &less);
    assert_eq!(node["metadata"]["labels"], json!({"a": "9"}));
    assert_eq!(node["metadata"]["annotations"].get("c"), None);
    assert_eq!(node["status"]["capacity"], json!({"memory": "1Gi"}));
    assert_eq!(node["status"]["conditions"].as_array().unwrap().len(), 1);
    assert_eq!(node["status"]["addresses"], less["status"]["addresses"]);
    assert_eq!(node["status"]["nodeInfo"], json!({"kubeletVersion": "v2"}));
}

#[test]
fn what_others_wrote_stays_even_beside_what_is_taken_back() {
    let mut server = registered(&node());
    server["metadata"]["labels"]["theirs"] = "x".into();
    server["metadata"]["annotations"]["theirs"] = "x".into();
    server["status"]["capacity"]["example.com/dongle"] = "2".into();
    let (condition, address) =
        (json!({"type": "Theirs", "status": "True"}), json!({"type": "InternalIP", "address": "192.0.2.9"}));
    server["status"]["conditions"].as_array_mut().unwrap().push(condition.clone());
    server["status"]["addresses"].as_array_mut().unwrap().push(address.clone());
    let mut less = node();
    less["status"]["conditions"].as_array_mut().unwrap().truncate(1);
    less["status"]["addresses"] = json!([{"type": "InternalIP", "address": "10.0.0.2"}]);
    let node = patched(&server, &less);
    assert_eq!(node["metadata"]["labels"]["theirs"], "x");
    assert_eq!(node["metadata"]["annotations"]["theirs"], "x");
    assert_eq!(node["status"]["capacity"], json!({"cpu": "4", "example.com/dongle": "2"}));
    let conditions = node["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.iter().map(|known| known["type"].as_str().unwrap()).collect::<Vec<_>>(), ["Ready", "Theirs"]);
    assert_eq!(node["status"]["addresses"], json!([{"type": "InternalIP", "address": "10.0.0.2"}, address]));
}

#[test]
fn a_node_that_the_go_library_wrote_is_taken_over() {
    // As virtual-kubelet's Go library writes them: times and all, and a null creationTimestamp.
    let server = json!({
        "metadata": {
            "name": "v", "uid": "u",
            "labels": {"beta.kubernetes.io/os": "linux", "alpha.service-controller.kubernetes.io/exclude-balancer": "true", "theirs": "x"},
            "annotations": {
                "virtual-kubelet.io/last-applied-object-meta": r#"{"name":"v","uid":"u","creationTimestamp":null,"labels":{"beta.kubernetes.io/os":"linux","alpha.service-controller.kubernetes.io/exclude-balancer":"true"}}"#,
                "virtual-kubelet.io/last-applied-node-status": r#"{"capacity":{"cpu":"8","example.com/old":"1"},"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"2020-01-01T00:00:00Z","lastTransitionTime":"2020-01-01T00:00:00Z","reason":"KubeletReady","message":"kubelet is ready."},{"type":"OutOfDisk","status":"False","lastHeartbeatTime":null,"lastTransitionTime":null}],"daemonEndpoints":{"kubeletEndpoint":{"Port":10450}},"nodeInfo":{"machineID":"","architecture":"amd64"}}"#,
            },
        },
        "status": {
            "capacity": {"cpu": "8", "example.com/old": "1"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready."}, {"type": "OutOfDisk", "status": "False"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10450}},
            "nodeInfo": {"machineID": "", "architecture": "amd64"},
        },
    });
    let mut ours = node();
    ours["metadata"]["labels"] = json!({"beta.kubernetes.io/os": "linux"});
    let node = patched(&server, &ours);
    assert_eq!(node["metadata"]["labels"], json!({"beta.kubernetes.io/os": "linux", "theirs": "x"}));
    assert_eq!(node["status"]["capacity"], json!({"cpu": "4"}));
    let conditions = node["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.iter().map(|known| known["type"].as_str().unwrap()).collect::<Vec<_>>(), ["Ready", "Extra"]);
    assert_eq!(node["status"].get("daemonEndpoints"), None);
    assert_eq!(node["status"]["nodeInfo"], json!({"architecture": "amd64", "kubeletVersion": "v1"}));
}

#[test]
fn unreadable_memory_of_what_was_written_counts_as_none() {
    let mut server = registered(&node());
    server["metadata"]["annotations"]["virtual-kubelet.io/last-applied-object-meta"] = "{not json".into();
    server["metadata"]["annotations"]["virtual-kubelet.io/last-applied-node-status"] = "[1]".into();
    let mut less = node();
    less["metadata"]["labels"] = json!({"new": "1"});
    let node = patched(&server, &less);
    assert_eq!(node["metadata"]["labels"], json!({"a": "1", "b": "2", "new": "1"}));
    // And it is readable again.
    assert_eq!(patched(&node, &less)["metadata"]["annotations"], node["metadata"]["annotations"]);
}

#[test]
fn a_malformed_node_of_the_provider_or_the_server_never_panics() {
    let odd = [
        json!({}),
        json!(null),
        json!([1]),
        json!({"metadata": 1, "status": "x"}),
        json!({"status": {"conditions": [1, {}], "addresses": {}}}),
    ];
    for provided in &odd {
        for server in &odd {
            let wanted = wanted(provided.clone(), "v", &Backend::Away(String::new()));
            assert!(status_patch(server, &wanted, now()).is_object());
            assert!(registration(&wanted, now()).is_object());
        }
    }
}

/// A node part by one writer: few keys, so that writers and versions overlap.
fn parts(prefix: &'static str) -> impl Strategy<Value = Value> {
    let map = || proptest::collection::btree_map(0..4_u8, 0..3_u8, 0..4);
    (map(), map(), map(), map(), map()).prop_map(move |(labels, annotations, capacity, conditions, addresses)| {
        let texts = |map: &std::collections::BTreeMap<u8, u8>| {
            map.iter()
                .map(|(key, value)| (format!("{prefix}{key}"), Value::from(value.to_string())))
                .collect::<Map<_, _>>()
        };
        let list = |map: &std::collections::BTreeMap<u8, u8>, member: &str| {
            map.iter()
                .map(|(key, value)| json!({"type": format!("{prefix}{key}"), member: value.to_string()}))
                .collect::<Vec<_>>()
        };
        json!({
            "metadata": {"labels": texts(&labels), "annotations": texts(&annotations)},
            "status": {
                "capacity": texts(&capacity),
                "conditions": list(&conditions, "status"),
                "addresses": list(&addresses, "address"),
            },
        })
    })
}

/// The members of a node by whose prefix somebody wrote them, as comparable text, without times and memory.
fn written_by(node: &Value, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for pointer in ["/metadata/labels", "/metadata/annotations", "/status/capacity"] {
        for (key, value) in node.pointer(pointer).and_then(Value::as_object).into_iter().flatten() {
            if key.starts_with(prefix) && !key.starts_with("virtual-kubelet.io/") {
                found.push(format!("{pointer} {key} {value}"));
            }
        }
    }
    for pointer in ["/status/conditions", "/status/addresses"] {
        for item in list(node, pointer) {
            let kind = item["type"].as_str().unwrap();
            if kind.starts_with(prefix) {
                found.push(format!("{pointer} {kind} {} {}", item["status"], item["address"]));
            }
        }
    }
    found.sort();
    found
}

proptest! {
    #[test]
    fn any_course_of_writes_ends_with_what_is_wanted_and_what_others_have(
        ours in proptest::collection::vec(parts("our-"), 1..5),
        theirs in proptest::collection::vec(parts("their-"), 1..5),
    ) {
        let named = |node: &Value| wanted(node.clone(), "v", &Backend::Present);
        let mut server = registered(&named(&ours[0]));
        for (mine, other) in ours.iter().zip(theirs.iter().cycle()) {
            apply(&mut server, &json!({"metadata": other["metadata"], "status": {"capacity": other["status"]["capacity"], "conditions": other["status"]["conditions"]}}));
            for address in list(other, "/status/addresses") {
                let addresses = server["status"]["addresses"].as_array_mut().unwrap();
                if !addresses.contains(address) {
                    addresses.push(address.clone());
                }
            }
            let before = written_by(&server, "their-");
            server = patched(&server, &named(mine));
            prop_assert_eq!(written_by(&server, "their-"), before);
            prop_assert_eq!(written_by(&server, "our-"), written_by(mine, "our-"));
            prop_assert_eq!(ready(&server), Some("True"));
        }
    }
}
