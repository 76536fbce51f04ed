// SPDX-License-Identifier: Apache-2.0
//! Pods whose claims were given to a virtual node.

use jiff::Timestamp;
use serde_json::{Value, json};
use tensile_core::exclusion::Exclusions;
use webhook::mutate::{Known, Policy};
use webhook::selected_node::SelectedNodes;

use super::{answer_on_create, patched, virtual_pod};

/// Claim `mine` of namespace `default` is on virtual node `edge`.
fn answer(pod: &Value) -> Vec<u8> {
    let selected = SelectedNodes {
        claims: [("default/mine", "edge"), ("default/other", "west")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        nodes: [("edge".to_owned(), true), ("west".to_owned(), true)].into(),
    };
    let known = Known { exclusions: &Exclusions::default(), selected: &selected, now: Timestamp::UNIX_EPOCH };
    answer_on_create(pod, &Policy::default(), known)
}

fn claiming(claims: &[&str], spec: &Value) -> Value {
    let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    let mut pod = virtual_pod(spec);
    pod["spec"]["volumes"] = claims.iter().map(volume).collect();
    pod
}

#[test]
fn a_pod_goes_to_the_virtual_node_of_its_claim() {
    let pod = claiming(&["mine", "unknown"], &json!({"nodeSelector": {"disk": "ssd"}}));
    let admitted = patched(&pod, &answer(&pod));
    assert_eq!(admitted["spec"]["nodeName"], "edge");
    assert_eq!(admitted["metadata"]["annotations"]["clusterSelector"].as_str().unwrap().matches("ssd").count(), 1);
    // Asked again, nothing is left to say.
    let again: Value = serde_json::from_slice(&answer(&admitted)).unwrap();
    assert_eq!(again["response"], json!({"uid": "u-1", "allowed": true}));
}

#[test]
fn a_pod_that_cannot_be_bound_yet_or_is_bound_already_is_not_sent_anywhere() {
    for spec in &[json!({"schedulingGates": [{"name": "example.org/wait"}]}), json!({"nodeName": "west"})] {
        let pod = claiming(&["mine"], spec);
        assert_eq!(patched(&pod, &answer(&pod))["spec"].get("nodeName"), pod["spec"].get("nodeName"));
    }
    let without = virtual_pod(&json!({}));
    assert_eq!(patched(&without, &answer(&without))["spec"].get("nodeName"), None);
}

#[test]
fn claims_that_disagree_are_left_to_the_scheduler_with_a_warning() {
    let pod = claiming(&["mine", "other"], &json!({}));
    let told = answer(&pod);
    assert_eq!(patched(&pod, &told)["spec"].get("nodeName"), None);
    let told: Value = serde_json::from_slice(&told).unwrap();
    let expected = r#"claim "mine" is on virtual node edge and claim "other" on west: no node has both"#;
    assert_eq!(told["response"]["warnings"], json!([expected]));
}
