// SPDX-License-Identifier: Apache-2.0
//! What stays upstairs, and the very annotation that is written.

use serde_json::{Value, json};

use super::{PREFERRED, REQUIRED, is, kept, one_of, pod, stashed_pod, term, with_split};
use crate::placement::{KeptKeys, Placement, PlacementError, split};

/// Splits a pod of this spec; returns what stays of the affinity, and the annotation.
fn affinity_split(affinity: &Value) -> (Option<Value>, String) {
    let split = split(&pod(&json!({"affinity": affinity})), &kept()).unwrap();
    (split.upper.affinity, split.stash.encode())
}

#[test]
fn a_pod_without_constraints_gets_an_empty_stash_and_is_left_as_it_is() {
    let split = split(&pod(&json!({})), &kept()).unwrap();
    assert_eq!(split.upper, Placement::default());
    assert_eq!(split.stash.encode(), "{}");
}

#[test]
fn kept_keys_of_the_node_selector_stay_and_the_others_go() {
    let split = split(&pod(&json!({"nodeSelector": {"clusterID": "a", "disk": "ssd"}})), &kept()).unwrap();
    assert_eq!(split.upper.node_selector, Some(json!({"clusterID": "a"})));
    assert_eq!(split.stash.encode(), r#"{"nodeSelector":{"disk":"ssd"}}"#);
}

#[test]
fn a_node_selector_of_which_nothing_stays_is_removed() {
    let split = split(&pod(&json!({"nodeSelector": {"disk": "ssd"}})), &kept()).unwrap();
    assert_eq!(split.upper.node_selector, None);
}

#[test]
fn constraints_on_kept_keys_alone_are_not_touched() {
    let spec = json!({
        "nodeSelector": {"clusterID": "a"},
        "affinity": one_of(&[term(&[is("clusterID", "a")]), term(&[is("clusterID", "a"), is("clusterID", "b")]), json!({})]),
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "clusterID", "whenUnsatisfiable": "DoNotSchedule"}],
    });
    let pod = pod(&spec);
    let split = split(&pod, &kept()).unwrap();
    assert_eq!(split.upper, Placement::of_pod(&pod));
    assert_eq!(split.stash.encode(), "{}");
}

#[test]
fn empty_fields_are_not_touched() {
    for affinity in [json!({}), json!({"nodeAffinity": {}}), json!({"podAffinity": {}, "podAntiAffinity": {}})] {
        let spec =
            json!({"nodeSelector": {}, "affinity": affinity, "tolerations": [], "topologySpreadConstraints": []});
        let split = split(&pod(&spec), &kept()).unwrap();
        assert_eq!(split.upper, Placement::of_pod(&pod(&spec)));
        assert_eq!(split.stash.encode(), "{}");
    }
}

#[test]
fn terms_that_share_their_kept_half_are_stashed_as_tensile_kube_would() {
    let (upper, stash) = affinity_split(&one_of(&[
        term(&[is("disk", "ssd"), is("clusterID", "a")]),
        term(&[is("clusterID", "a"), is("gpu", "yes")]),
    ]));
    assert_eq!(upper, Some(one_of(&[term(&[is("clusterID", "a")])])));
    assert_eq!(
        stash,
        concat!(
            r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":["#,
            r#"{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]},"#,
            r#"{"matchExpressions":[{"key":"gpu","operator":"In","values":["yes"]}]}]}}}}"#,
        )
    );
}

#[test]
fn terms_that_differ_in_both_halves_are_stashed_whole_beside_what_tensile_kube_would_stash() {
    let (upper, stash) = affinity_split(&one_of(&[
        term(&[is("clusterID", "a"), is("gpu", "yes")]),
        term(&[is("clusterID", "b"), is("disk", "ssd")]),
    ]));
    assert_eq!(upper, Some(one_of(&[term(&[is("clusterID", "a")]), term(&[is("clusterID", "b")])])));
    assert_eq!(
        stash,
        concat!(
            r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":["#,
            r#"{"matchExpressions":[{"key":"gpu","operator":"In","values":["yes"]}]},"#,
            r#"{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}]}}},"#,
            r#""requiredTerms":[{"matchExpressions":[{"key":"clusterID","operator":"In","values":["a"]},"#,
            r#"{"key":"gpu","operator":"In","values":["yes"]}]},"#,
            r#"{"matchExpressions":[{"key":"clusterID","operator":"In","values":["b"]},"#,
            r#"{"key":"disk","operator":"In","values":["ssd"]}]}]}"#,
        )
    );
}

#[test]
fn a_term_that_moves_down_whole_leaves_no_requirement_upstairs() {
    let terms = [term(&[is("gpu", "yes")]), term(&[is("clusterID", "b")])];
    let (upper, stash) = affinity_split(&one_of(&terms));
    assert_eq!(upper, None);
    assert!(stash.contains("requiredTerms"), "the other term must not be lost: {stash}");
}

#[test]
fn match_fields_stay_because_they_name_upper_nodes() {
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["virtual-a"]});
    let (upper, stash) =
        affinity_split(&one_of(&[json!({"matchExpressions": [is("gpu", "yes")], "matchFields": [field]})]));
    assert_eq!(upper, Some(one_of(&[json!({"matchFields": [field]})])));
    assert!(!stash.contains("matchFields"), "{stash}");
}

#[test]
fn a_requirement_no_node_can_meet_is_not_relaxed() {
    let affinity = one_of(&[json!({})]);
    assert_eq!(affinity_split(&affinity), (Some(affinity), "{}".to_owned()));
}

#[test]
fn preferred_terms_are_split_each_with_its_weight() {
    let (upper, stash) = affinity_split(&json!({"nodeAffinity": {PREFERRED: [
        {"weight": 1, "preference": term(&[is("clusterID", "a")])},
        {"weight": 2, "preference": term(&[is("disk", "ssd")])},
        {"weight": 3, "preference": term(&[is("clusterID", "b"), is("gpu", "yes")])},
    ]}}));
    assert_eq!(
        upper,
        Some(json!({"nodeAffinity": {PREFERRED: [
            {"weight": 1, "preference": term(&[is("clusterID", "a")])},
            {"weight": 3, "preference": term(&[is("clusterID", "b")])},
        ]}}))
    );
    assert_eq!(
        stash,
        concat!(
            r#"{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":["#,
            r#"{"weight":2,"preference":{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}},"#,
            r#"{"weight":3,"preference":{"matchExpressions":[{"key":"gpu","operator":"In","values":["yes"]}]}}]}},"#,
            r#""preferredTerms":["#,
            r#"{"weight":2,"preference":{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}},"#,
            r#"{"weight":3,"preference":{"matchExpressions":[{"key":"clusterID","operator":"In","values":["b"]},"#,
            r#"{"key":"gpu","operator":"In","values":["yes"]}]}}]}"#,
        )
    );
}

#[test]
fn preferred_terms_without_kept_keys_are_stashed_as_tensile_kubes_virtual_node_reads_them() {
    let (upper, stash) = affinity_split(
        &json!({"nodeAffinity": {PREFERRED: [{"weight": 2, "preference": term(&[is("disk", "ssd")])}]}}),
    );
    assert_eq!(upper, None);
    assert_eq!(
        stash,
        concat!(
            r#"{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":["#,
            r#"{"weight":2,"preference":{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}}]}}}"#,
        )
    );
}

#[test]
fn a_preferred_term_that_is_stashed_already_is_not_stashed_twice() {
    let spec = json!({"affinity": {"nodeAffinity": {PREFERRED: [
        {"weight": 2, "preference": term(&[is("disk", "ssd")])},
        {"weight": 3, "preference": term(&[is("gpu", "yes")])},
    ]}}});
    let first = split(&pod(&spec), &kept()).unwrap();
    let again = split(&stashed_pod(&spec, &first.stash.encode()), &kept()).unwrap();
    assert_eq!(again, first);
}

#[test]
fn tolerations_are_stashed_and_kept() {
    let tolerations = json!([{"key": "team", "operator": "Exists"}]);
    let split = split(&pod(&json!({"tolerations": tolerations})), &kept()).unwrap();
    assert_eq!(split.upper.tolerations, Some(tolerations));
    assert_eq!(split.stash.encode(), r#"{"tolerations":[{"key":"team","operator":"Exists"}]}"#);
}

#[test]
fn node_loss_tolerations_found_next_to_a_stash_are_not_the_authors() {
    let spec = json!({"tolerations": [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
        {"key": "added", "operator": "Exists"},
    ]});
    let stash = r#"{"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":60}]}"#;
    let split = split(&stashed_pod(&spec, stash), &kept()).unwrap();
    assert_eq!(
        split.stash.encode(),
        r#"{"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":60},{"key":"added","operator":"Exists"}]}"#
    );
}

#[test]
fn what_was_added_to_a_split_pod_is_combined_with_its_stash() {
    let first = split(
        &pod(&json!({"nodeSelector": {"disk": "ssd"}, "affinity": one_of(&[
            term(&[is("clusterID", "a"), is("gpu", "yes")]),
            term(&[is("clusterID", "b")]),
        ])})),
        &kept(),
    )
    .unwrap();
    let mut again = with_split(&pod(&json!({})), &first);
    again["spec"]["nodeSelector"] = json!({"zone": "z1"});
    let terms = again["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"].as_array_mut().unwrap();
    for term in terms {
        term["matchExpressions"].as_array_mut().unwrap().push(is("clusterID", "c"));
    }
    let second = split(&again, &kept()).unwrap();
    assert_eq!(second.stash.node_selector, super::labels(&[("disk", "ssd"), ("zone", "z1")]));
    assert_eq!(
        second.stash.required_terms,
        [
            term(&[is("clusterID", "a"), is("gpu", "yes"), is("clusterID", "c")]),
            term(&[is("clusterID", "b"), is("clusterID", "c")]),
        ]
    );
}

#[test]
fn a_stash_of_tensile_kube_is_combined_as_it_meant_it() {
    let spec = json!({"affinity": one_of(&[term(&[is("clusterID", "a")]), term(&[is("clusterID", "b")])])});
    let stash = r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"gpu","operator":"Exists"}]},{"matchExpressions":[{"key":"disk","operator":"Exists"}]}]}}}}"#;
    let split = split(&stashed_pod(&spec, stash), &kept()).unwrap();
    assert_eq!(split.stash.encode(), stash);
    assert_eq!(split.upper.affinity, Some(spec["affinity"].clone()));
}

#[test]
fn kept_keys_that_were_stashed_come_up_again() {
    let spec = json!({"affinity": one_of(&[term(&[is("region", "eu")])])});
    let stash = r#"{"nodeSelector":{"clusterID":"a","disk":"ssd"}}"#;
    let split = split(&stashed_pod(&spec, stash), &KeptKeys::new(["clusterID", "region"])).unwrap();
    assert_eq!(split.upper.node_selector, Some(json!({"clusterID": "a"})));
    assert_eq!(split.stash.encode(), r#"{"nodeSelector":{"disk":"ssd"}}"#);
}

#[test]
fn a_label_that_cannot_have_both_values_is_an_error() {
    let pod = stashed_pod(&json!({"nodeSelector": {"disk": "hdd"}}), r#"{"nodeSelector":{"disk":"ssd"}}"#);
    let error = split(&pod, &kept()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nodeSelector requires disk=hdd, annotation clusterSelector requires disk=ssd: no node has both"
    );
}

#[test]
fn members_this_build_does_not_know_move_down_with_what_they_stand_next_to() {
    let (upper, stash) = affinity_split(&json!({
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [
                {"matchExpressions": [is("clusterID", "a")], "matchMore": ["x"]},
            ], "mode": "strict"},
            "later": true,
        },
        "laterAffinity": {"x": "y"},
    }));
    assert_eq!(upper, Some(one_of(&[term(&[is("clusterID", "a")])])));
    assert_eq!(
        stash,
        concat!(
            r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":"#,
            r#"{"nodeSelectorTerms":[{"matchMore":["x"]}],"mode":"strict"},"later":true},"laterAffinity":{"x":"y"}}}"#,
        )
    );
}

#[test]
fn members_this_build_does_not_know_and_cannot_combine_are_an_error() {
    let pod = stashed_pod(&json!({"affinity": {"later": 1}}), r#"{"affinity":{"later":2}}"#);
    assert_eq!(
        split(&pod, &kept()).unwrap_err(),
        PlacementError::Unmergeable { path: "spec.affinity.later".to_owned() }
    );
}

#[test]
fn a_field_of_the_wrong_type_says_which() {
    for (spec, sentence) in [
        (json!({"nodeSelector": []}), "spec.nodeSelector must be an object"),
        (json!({"nodeSelector": {"a": 1}}), "spec.nodeSelector.a must be a string"),
        (json!({"affinity": 1}), "spec.affinity must be an object"),
        (json!({"affinity": {"nodeAffinity": 1}}), "spec.affinity.nodeAffinity must be an object"),
        (json!({"tolerations": {}}), "spec.tolerations must be a list"),
        (json!({"tolerations": [{}, 3]}), "spec.tolerations[1] must be an object"),
        (
            json!({"affinity": one_of(&[json!({"matchExpressions": [{"key": "a", "values": [1]}]})])}),
            "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values[0] must be a string",
        ),
    ] {
        assert_eq!(split(&pod(&spec), &kept()).unwrap_err().to_string(), sentence);
    }
}

#[test]
fn more_terms_than_can_be_compared_are_an_error() {
    let terms: Vec<Value> = (0..1001).map(|number| term(&[is("n", &number.to_string())])).collect();
    let pod = pod(&json!({"affinity": one_of(&terms)}));
    assert_eq!(split(&pod, &kept()).unwrap_err(), PlacementError::TooManyTerms { count: 1001, limit: 1000 });
}

fn spread(key: &str) -> Value {
    json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}})
}

fn near(key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": key})
}

#[test]
fn spread_over_clusters_stays_and_spread_over_nodes_goes() {
    let spec = json!({"topologySpreadConstraints": [spread("clusterID"), spread("kubernetes.io/hostname")]});
    let split = split(&pod(&spec), &kept()).unwrap();
    assert_eq!(split.upper.topology_spread, Some(json!([spread("clusterID")])));
    assert_eq!(split.stash.topology_spread, [spread("kubernetes.io/hostname")]);
}

#[test]
fn pods_apart_on_nodes_are_not_apart_on_clusters() {
    let anti = |terms: Value| json!({"podAntiAffinity": {REQUIRED: terms}});
    let (upper, stash) = affinity_split(&anti(json!([near("kubernetes.io/hostname")])));
    assert_eq!(upper, None);
    assert_eq!(
        stash,
        concat!(
            r#"{"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":["#,
            r#"{"labelSelector":{"matchLabels":{"app":"cache"}},"topologyKey":"kubernetes.io/hostname"}]}}}"#,
        )
    );
}

#[test]
fn pods_together_on_a_node_are_together_on_a_cluster_too() {
    let affinity = json!({"podAffinity": {
        REQUIRED: [near("kubernetes.io/hostname"), near("clusterID"), near("zone")],
        PREFERRED: [{"weight": 7, "podAffinityTerm": near("zone")}],
    }});
    let split = split(&pod(&json!({"affinity": affinity})), &kept()).unwrap();
    assert_eq!(
        split.upper.affinity,
        Some(json!({"podAffinity": {
            REQUIRED: [near("clusterID")],
            PREFERRED: [{"weight": 7, "podAffinityTerm": near("clusterID")}],
        }}))
    );
    assert_eq!(
        split.stash.affinity,
        Some(json!({"podAffinity": {
            REQUIRED: [near("kubernetes.io/hostname"), near("zone")],
            PREFERRED: [{"weight": 7, "podAffinityTerm": near("zone")}],
        }}))
    );
}

#[test]
fn without_cluster_topology_keys_constraints_over_topologies_are_left_alone() {
    let spec = json!({
        "affinity": {"podAntiAffinity": {REQUIRED: [near("kubernetes.io/hostname")]}},
        "topologySpreadConstraints": [spread("zone")],
    });
    let split = split(&pod(&spec), &kept().with_topology(Vec::<String>::new())).unwrap();
    assert_eq!(split.upper, Placement::of_pod(&pod(&spec)));
    assert_eq!(split.stash.encode(), "{}");
}
