// SPDX-License-Identifier: Apache-2.0
//! Exclusions: a pod is kept off virtual nodes where its owner's pods found no room, and nothing else about it changes.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use tensile_core::exclusion::Exclusions;
use tensile_core::placement::{KeptKeys, PlacementError, restore};
use tensile_testkit::flat_cluster::{self, Choices, KEPT};
use webhook::mutate::{Known, Policy};

use super::{admitted, answer_on_create, patched, unknown, virtual_pod};

fn now() -> Timestamp {
    "2026-01-02T15:00:00Z".parse().unwrap()
}

/// Exclusions of one entry, for these nodes until a quarter past.
fn excluded(key: &str, nodes: &[&str]) -> Exclusions {
    let nodes: Vec<Value> = nodes.iter().map(|node| json!({"node": node, "until": "2026-01-02T15:15:00Z"})).collect();
    let record = json!({"version": 1, "nodes": nodes}).to_string();
    let (exclusions, skipped) = Exclusions::read([(key, record.as_str())]);
    assert_eq!(skipped, []);
    exclusions
}

fn admitted_with(pod: &Value, policy: &Policy, exclusions: &Exclusions, now: Timestamp) -> Value {
    patched(pod, &answer_on_create(pod, policy, Known { exclusions, now, ..unknown() }))
}

/// The nodes that a pod is kept off, and that is all its affinity says.
fn kept_off(pod: &Value) -> Vec<&str> {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let fields = required["nodeSelectorTerms"][0]["matchFields"].as_array().into_iter().flatten();
    fields.map(|field| field["values"][0].as_str().unwrap()).collect()
}

fn owned(kind: &str, labels: &[(&str, &str)]) -> Value {
    let mut pod = virtual_pod(&json!({}));
    pod["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u-other"},
        {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u-owner", "controller": true},
    ]);
    for (label, value) in labels {
        pod["metadata"]["labels"][label] = json!(value);
    }
    pod
}

#[test]
fn a_pod_is_kept_off_where_its_controller_its_index_or_its_name_is_excluded() {
    let set = owned("StatefulSet", &[("apps.kubernetes.io/pod-index", "2")]);
    let job = owned("Job", &[("batch.kubernetes.io/job-completion-index", "2")]);
    let mut bare = virtual_pod(&json!({}));
    bare["metadata"]["name"] = json!("alone");
    for (pod, key, counts) in [
        (&owned("ReplicaSet", &[]), "owner.u-owner", true),
        (&owned("ReplicaSet", &[]), "owner.u-other", false),
        (&owned("ReplicaSet", &[]), "owner.u-owner.2", false),
        (&set, "owner.u-owner", true),
        (&set, "owner.u-owner.2", true),
        (&set, "owner.u-owner.3", false),
        (&job, "owner.u-owner.2", true),
        (&bare, "pod.default.alone", true),
        (&bare, "pod.other.alone", false),
    ] {
        let pod = admitted_with(pod, &Policy::default(), &excluded(key, &["east", "west"]), now());
        assert_eq!(kept_off(&pod), if counts { vec!["east", "west"] } else { vec![] }, "{key} {pod}");
    }
}

#[test]
fn an_exclusion_that_has_ended_does_not_count() {
    let (pod, exclusions) = (owned("ReplicaSet", &[]), excluded("owner.u-owner", &["east"]));
    let later = "2026-01-02T15:15:00Z".parse().unwrap();
    assert_eq!(admitted_with(&pod, &Policy::default(), &exclusions, later), admitted(&pod, &Policy::default()));
}

#[test]
fn a_pod_that_opts_out_is_not_kept_off_either() {
    let pod = owned("ReplicaSet", &[("tensile.io/leave-placement", "true")]);
    assert_eq!(admitted_with(&pod, &Policy::default(), &excluded("owner.u-owner", &["east"]), now()), pod);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The exclusion is upstairs, and below everything is as without it.
    #[test]
    fn a_pod_lands_where_it_would_but_for_the_excluded_nodes(
        layout in prop::collection::vec(any::<u8>(), 120),
        pods in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 10),
        chosen in prop::sample::subsequence(vec!["virtual-0", "virtual-1", "virtual-2"], 0..=3),
    ) {
        let clusters = flat_cluster::clusters(&mut Choices(&layout));
        let exclusions = excluded("owner.u-owner", &chosen);
        let policy = Policy { kept: KeptKeys::new(KEPT), ..Policy::default() };
        for bytes in pods {
            let mut pod = owned("ReplicaSet", &[]);
            pod["spec"] = flat_cluster::pod(&mut Choices(&bytes))["spec"].take();
            let kept_off = admitted_with(&pod, &policy, &exclusions, now());
            let again = admitted_with(&kept_off, &policy, &exclusions, now());
            prop_assert_eq!(&again, &kept_off, "a second review changes it");
            let ended = admitted(&kept_off, &policy);
            prop_assert_eq!(&ended, &kept_off, "a second review after the exclusion's end changes it");
            for cluster in &clusters {
                let above = &cluster.virtual_node;
                let is_excluded = chosen.contains(&above.name.as_str());
                let lower = match restore(&kept_off, &above.labels, &above.name, &policy.kept) {
                    Ok(lower) => Some(json!({
                        "nodeSelector": lower.node_selector, "affinity": lower.affinity, "tolerations": lower.tolerations,
                    })),
                    Err(PlacementError::WrongVirtualNode { .. }) => None,
                    Err(error) => panic!("{error}: {kept_off}"),
                };
                let chosen = flat_cluster::selects(&kept_off["spec"], above);
                prop_assert!(!(chosen && is_excluded), "{} may go to {}", kept_off, above.name);
                for machine in &cluster.lower {
                    let lands = chosen && lower.as_ref().is_some_and(|spec| flat_cluster::allows(spec, machine));
                    let allowed = !is_excluded && flat_cluster::allows(&pod["spec"], &cluster.flat(machine));
                    prop_assert_eq!(lands, allowed, "{} on {:?} below {:?}", pod, machine, above);
                }
            }
        }
    }
}
