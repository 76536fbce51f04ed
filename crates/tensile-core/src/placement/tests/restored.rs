// SPDX-License-Identifier: Apache-2.0
//! What the lower pod asks for.

use serde_json::{Value, json};

use super::{PREFERRED, REQUIRED, is, kept, labels, one_of, pod, stashed_pod, term, with_split};
use crate::placement::{Placement, PlacementError, restore, split};

fn below(pod: &Value, cluster: &str) -> Result<Placement, PlacementError> {
    restore(pod, &labels(&[("clusterID", cluster)]), &format!("virtual-{cluster}"), &kept())
}

#[test]
fn each_virtual_node_gets_the_terms_whose_kept_half_it_matches() {
    let pod = pod(&json!({"affinity": one_of(&[
        term(&[is("clusterID", "a"), is("gpu", "yes")]),
        term(&[is("clusterID", "b"), is("disk", "ssd")]),
    ])}));
    let pod = with_split(&pod, &split(&pod, &kept()).unwrap());
    assert_eq!(below(&pod, "a").unwrap().affinity, Some(one_of(&[term(&[is("gpu", "yes")])])));
    assert_eq!(below(&pod, "b").unwrap().affinity, Some(one_of(&[term(&[is("disk", "ssd")])])));
}

#[test]
fn where_one_matching_term_asks_nothing_more_nothing_is_required() {
    let pod = pod(&json!({"affinity": one_of(&[
        term(&[is("clusterID", "a")]),
        term(&[is("clusterID", "a"), is("gpu", "yes")]),
        term(&[is("disk", "ssd")]),
    ])}));
    let pod = with_split(&pod, &split(&pod, &kept()).unwrap());
    assert_eq!(below(&pod, "a").unwrap(), Placement::default());
    assert_eq!(below(&pod, "b").unwrap().affinity, Some(one_of(&[term(&[is("disk", "ssd")])])));
}

#[test]
fn a_virtual_node_that_no_term_matches_is_the_wrong_place() {
    let pod = pod(&json!({"affinity": one_of(&[term(&[is("clusterID", "a"), is("gpu", "yes")])])}));
    assert_eq!(
        below(&pod, "b").unwrap_err().to_string(),
        "virtual node virtual-b is the wrong place for this pod: none of the terms of its required node affinity matches"
    );
}

#[test]
fn a_virtual_node_that_the_node_selector_excludes_is_the_wrong_place() {
    let pod = pod(&json!({"nodeSelector": {"clusterID": "a"}}));
    assert_eq!(
        below(&pod, "b").unwrap_err().to_string(),
        "virtual node virtual-b is the wrong place for this pod: its nodeSelector requires clusterID=a, the node has clusterID=b"
    );
    assert_eq!(
        restore(&pod, &labels(&[]), "v", &kept()).unwrap_err().to_string(),
        "virtual node v is the wrong place for this pod: its nodeSelector requires clusterID=a, the node has no such label"
    );
}

#[test]
fn a_pod_that_never_met_the_webhook_keeps_its_constraints() {
    let spec = json!({
        "nodeSelector": {"clusterID": "a", "disk": "ssd"},
        "affinity": one_of(&[term(&[is("gpu", "yes")])]),
        "tolerations": [{"operator": "Exists"}],
    });
    assert_eq!(
        below(&pod(&spec), "a").unwrap(),
        Placement {
            node_selector: Some(json!({"disk": "ssd"})),
            affinity: Some(one_of(&[term(&[is("gpu", "yes")])])),
            tolerations: Some(json!([{"operator": "Exists"}])),
            topology_spread: None,
        }
    );
}

#[test]
fn an_annotation_of_tensile_kube_is_restored_as_it_meant_it() {
    // Upper pod and annotation as its webhook leaves a pod with (clusterID=a and gpu) or (clusterID=a and disk).
    let spec = json!({
        "nodeSelector": {"clusterID": "a"},
        "affinity": one_of(&[term(&[is("clusterID", "a")]), term(&[is("clusterID", "a")])]),
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
        ],
    });
    let stash = concat!(
        r#"{"nodeSelector":{"zone":"z1"},"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":"#,
        r#"{"nodeSelectorTerms":[{"matchExpressions":[{"key":"gpu","operator":"In","values":["yes"]}]},"#,
        r#"{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}]}}},"#,
        r#""tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]}"#,
    );
    assert_eq!(
        below(&stashed_pod(&spec, stash), "a").unwrap(),
        Placement {
            node_selector: Some(json!({"zone": "z1"})),
            affinity: Some(one_of(&[term(&[is("gpu", "yes")]), term(&[is("disk", "ssd")])])),
            tolerations: Some(json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": 300}])),
            topology_spread: None,
        }
    );
}

#[test]
fn a_stash_that_cannot_be_read_is_an_error_and_not_no_constraints() {
    for stash in [
        "{",
        r#"{"affinity":{"nodeAffinity":[]}}"#,
        r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":{}}}}}"#,
        r#"{"requiredTerms":[{"matchExpressions":[1]}]}"#,
        r#"{"preferredTerms":[{"weight":1,"preference":[]}]}"#,
    ] {
        let error = below(&stashed_pod(&json!({}), stash), "a");
        assert!(
            matches!(error, Err(PlacementError::Stash(_) | PlacementError::Malformed(_))),
            "{stash} gave {error:?}"
        );
    }
}

#[test]
fn match_fields_never_go_down_even_if_they_were_stashed() {
    let stash = concat!(
        r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":["#,
        r#"{"matchExpressions":[{"key":"gpu","operator":"Exists"}],"#,
        r#""matchFields":[{"key":"metadata.name","operator":"In","values":["virtual-a"]}]}]}}}}"#,
    );
    let pod = stashed_pod(&json!({}), stash);
    let lower = below(&pod, "a").unwrap();
    assert_eq!(lower.affinity, Some(one_of(&[term(&[json!({"key": "gpu", "operator": "Exists"})])])));
    assert!(matches!(below(&pod, "b"), Err(PlacementError::WrongVirtualNode { .. })));
}

#[test]
fn preferred_terms_count_where_their_kept_half_matches() {
    let preferred = |terms: Value| json!({"nodeAffinity": {PREFERRED: terms}});
    let pod = pod(&json!({"affinity": preferred(json!([
        {"weight": 1, "preference": term(&[is("clusterID", "a")])},
        {"weight": 2, "preference": term(&[is("disk", "ssd")])},
        {"weight": 3, "preference": term(&[is("clusterID", "b"), is("gpu", "yes")])},
    ]))}));
    let pod = with_split(&pod, &split(&pod, &kept()).unwrap());
    let disk = json!({"weight": 2, "preference": term(&[is("disk", "ssd")])});
    let gpu = json!({"weight": 3, "preference": term(&[is("gpu", "yes")])});
    assert_eq!(below(&pod, "a").unwrap().affinity, Some(preferred(json!([disk]))));
    assert_eq!(below(&pod, "b").unwrap().affinity, Some(preferred(json!([disk, gpu]))));
}

#[test]
fn constraints_over_nodes_are_judged_below_and_those_over_clusters_are_not() {
    let near = |key: &str| json!({"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": key});
    let spread = |key: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"});
    let pod = pod(&json!({
        "affinity": {
            "podAffinity": {REQUIRED: [near("zone")]},
            "podAntiAffinity": {REQUIRED: [near("kubernetes.io/hostname"), near("clusterID")]},
        },
        "topologySpreadConstraints": [spread("clusterID"), spread("kubernetes.io/hostname")],
    }));
    let pod = with_split(&pod, &split(&pod, &kept()).unwrap());
    let lower = below(&pod, "a").unwrap();
    assert_eq!(
        lower.affinity,
        Some(json!({
            "podAffinity": {REQUIRED: [near("zone")]},
            "podAntiAffinity": {REQUIRED: [near("kubernetes.io/hostname")]},
        }))
    );
    assert_eq!(lower.topology_spread, Some(json!([spread("kubernetes.io/hostname")])));
}

#[test]
fn without_cluster_topology_keys_constraints_over_topologies_are_copied_down() {
    let spec = json!({
        "affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "clusterID"}]}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    });
    let kept = kept().with_topology(Vec::<String>::new());
    let lower = restore(&pod(&spec), &labels(&[]), "v", &kept).unwrap();
    assert_eq!(lower.affinity, Some(spec["affinity"].clone()));
    assert_eq!(lower.topology_spread, Some(spec["topologySpreadConstraints"].clone()));
}

#[test]
fn label_keys_that_the_upper_api_server_merged_are_not_sent_to_be_merged_again() {
    let selector = json!({"matchLabels": {"app": "x"}, "matchExpressions": [is("version", "2")]});
    let pod = pod(&json!({
        "affinity": {
            "podAntiAffinity": {REQUIRED: [{"labelSelector": selector, "topologyKey": "zone", "matchLabelKeys": ["version"]}]},
            "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm":
                {"labelSelector": selector, "topologyKey": "zone", "mismatchLabelKeys": ["version", "other"]}}]},
        },
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": selector, "matchLabelKeys": ["version"]}],
    }));
    let lower = below(&pod, "a").unwrap();
    assert_eq!(
        lower.affinity,
        Some(json!({
            "podAntiAffinity": {REQUIRED: [{"labelSelector": selector, "topologyKey": "zone"}]},
            "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm":
                {"labelSelector": selector, "topologyKey": "zone", "mismatchLabelKeys": ["other"]}}]},
        }))
    );
    assert_eq!(
        lower.topology_spread,
        Some(
            json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}])
        )
    );
}
