// SPDX-License-Identifier: Apache-2.0
//! `/stats/summary` of kubelets.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{super::*, *};

fn said(pods: &[Value]) -> Vec<u8> {
    json!({"node": {"nodeName": "lower-1", "cpu": {"usageNanoCores": 9_999}}, "pods": pods}).to_string().into_bytes()
}

fn pod(name: &str, uid: &str) -> Value {
    json!({
        "podRef": {"name": name, "namespace": "ns", "uid": uid},
        "startTime": "2026-01-02T03:04:05Z",
        "containers": [{"name": "main", "cpu": {"usageNanoCores": 10}}],
        "cpu": {"time": "2026-01-02T03:04:09Z", "usageNanoCores": 12, "usageCoreNanoSeconds": 3_000},
        "memory": {"time": "2026-01-02T03:04:09Z", "workingSetBytes": 4096},
        "of-a-newer-kubelet": {"kept": [1, "as it came"]},
    })
}

const NODE: NodeUsage<'_> = NodeUsage {
    name: "virtual",
    since: 1_767_323_000_500,
    cpu: Some(Reading { at: 1_767_323_049_000, nanos: 77 }),
    nano_cores: Some(5),
    memory: 6,
};

#[test]
fn a_pod_of_ours_is_passed_on_whole_with_the_uid_above() {
    let picked = summary::pick(&said(&[pod("a", "below-a"), pod("b", "below-b")]), "lower-1", &roster(&["a"])).unwrap();
    assert_eq!(
        picked.readings,
        [PodReading {
            uid: "above-a".into(),
            since: Some(5_000),
            reading: Reading { at: 1_767_323_049_000, nanos: 3_000 }
        }]
    );
    assert_eq!((picked.nano_cores, picked.memory), (12, 4096));
    let mut expected = pod("a", "below-a");
    expected["podRef"]["uid"] = json!("above-a");
    let shown: Value = serde_json::from_slice(&summary::of_kubelets(&NODE, &picked).unwrap()).unwrap();
    assert_eq!(shown["pods"], json!([expected]));
    assert_eq!(
        shown["node"],
        json!({
            "nodeName": "virtual",
            "startTime": "2026-01-02T03:03:20Z",
            "cpu": {"time": "2026-01-02T03:04:09Z", "usageCoreNanoSeconds": 77, "usageNanoCores": 5},
            "memory": {"time": "2026-01-02T03:04:09Z", "workingSetBytes": 6},
        })
    );
}

#[test]
fn an_earlier_pod_of_the_name_and_one_on_another_node_are_not_ours() {
    let roster = roster(&["a"]);
    assert_eq!(summary::pick(&said(&[pod("a", "another")]), "lower-1", &roster).unwrap().readings, []);
    assert_eq!(summary::pick(&said(&[pod("a", "below-a")]), "lower-2", &roster).unwrap().readings, []);
}

#[test]
fn one_malformed_pod_costs_itself_only_and_what_is_no_summary_is_an_error() {
    let mut odd = pod("a", "below-a");
    odd["cpu"] = json!("much");
    let pods = [odd, json!(7), json!({"podRef": {}}), pod("b", "below-b")];
    let picked = summary::pick(&said(&pods), "lower-1", &roster(&["a", "b"])).unwrap();
    assert_eq!(picked.readings.len(), 1);
    for text in ["", "[7]", "{\"pods\":7}", "nonsense"] {
        assert!(summary::pick(text.as_bytes(), "lower-1", &roster(&[])).is_err(), "{text:?}");
    }
}

#[test]
fn kubelets_are_added_up() {
    let roster: Roster = [member("a"), Member { lower_node: "lower-2".into(), ..member("b") }].into_iter().collect();
    let mut all = summary::pick(&said(&[pod("a", "below-a")]), "lower-1", &roster).unwrap();
    all.merge(summary::pick(&said(&[pod("b", "below-b")]), "lower-2", &roster).unwrap());
    assert_eq!((all.readings.len(), all.nano_cores, all.memory), (2, 24, 8192));
    let shown: Value = serde_json::from_slice(&summary::of_kubelets(&NODE, &all).unwrap()).unwrap();
    let names: Vec<&str> =
        shown["pods"].as_array().unwrap().iter().map(|pod| pod["podRef"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let roster = roster(&["a"]);
        drop(summary::pick(&bytes, "lower-1", &roster));
        let mut broken = said(&[pod("a", "below-a")]);
        let at = cut.index(broken.len());
        broken[at] = byte;
        drop(summary::pick(&broken, "lower-1", &roster));
        drop(summary::pick(&broken[..at], "lower-1", &roster));
    }
}
