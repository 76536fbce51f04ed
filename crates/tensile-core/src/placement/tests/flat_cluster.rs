// SPDX-License-Identifier: Apache-2.0
//! Flat-cluster equivalence and its kin, over generated clusters and pods.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tensile_testkit::flat_cluster::{self, Choices, Cluster, KEPT, Machine};

use super::{REQUIRED, with_split};
use crate::placement::selector::{HardConstraints, Node, Taint};
use crate::placement::{KeptKeys, Placement, PlacementError, restore, split};

/// Clusters drawn, and pods tried against each: 100,000 pods in one run of the tests.
const CLUSTERS: u32 = 2_000;
const PODS: usize = 50;

fn kept() -> KeptKeys {
    KeptKeys::new(KEPT)
}

fn spec_of(placement: &Placement) -> Value {
    let mut spec = json!({});
    for (field, value) in [
        ("nodeSelector", &placement.node_selector),
        ("affinity", &placement.affinity),
        ("tolerations", &placement.tolerations),
    ] {
        if let Some(value) = value {
            spec[field] = value.clone();
        }
    }
    spec
}

/// Where the scheduler upstairs and then the one below let the split pod land, lower node by lower node.
fn landings<'a>(pod: &Value, clusters: &'a [Cluster]) -> Vec<(&'a Cluster, &'a Machine, bool)> {
    let mut landings = Vec::new();
    for cluster in clusters {
        let virtual_node = &cluster.virtual_node;
        let chosen = flat_cluster::selects(&pod["spec"], virtual_node);
        let lower_spec = match restore(pod, &virtual_node.labels, &virtual_node.name, &kept()) {
            Ok(placement) => Some(spec_of(&placement)),
            Err(PlacementError::WrongVirtualNode { .. }) => None,
            Err(error) => panic!("{error}: {pod}"),
        };
        assert_eq!(lower_spec.is_some(), chosen, "a wrong virtual node is one the scheduler would not choose: {pod}");
        for lower in &cluster.lower {
            let lands = lower_spec.as_ref().is_some_and(|spec| flat_cluster::allows(spec, lower));
            landings.push((cluster, lower, lands));
        }
    }
    landings
}

/// What must hold for each pod on each cluster. Panics, for speed: 100,000 results need not be passed up.
fn check_equivalence(pod: &Value, clusters: &[Cluster]) {
    let once = split(pod, &kept()).unwrap();
    let split_pod = with_split(pod, &once);
    for (cluster, lower, lands) in landings(&split_pod, clusters) {
        let allowed = flat_cluster::allows(&pod["spec"], &cluster.flat(lower));
        assert_eq!(lands, allowed, "{pod} on {lower:?} below {:?}", cluster.virtual_node);
    }

    let twice = split(&split_pod, &kept()).unwrap();
    assert_eq!(with_split(&split_pod, &twice), split_pod, "a second split of {pod} changes it");
}

/// Pods by the hundred thousand, in two tests so that they use two processors.
fn a_pod_lands_exactly_where_the_flat_cluster_allows_it(layout: &[u8], pods: &[Vec<u8>]) {
    let clusters = flat_cluster::clusters(&mut Choices(layout));
    for bytes in pods {
        check_equivalence(&flat_cluster::pod(&mut Choices(bytes)), &clusters);
    }
}

fn layout() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 120)
}

fn pods(count: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), count)
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(CLUSTERS / 2))]

    #[test]
    fn a_pod_lands_exactly_where_the_flat_cluster_allows_it_first_half(layout in layout(), pods in pods(PODS)) {
        a_pod_lands_exactly_where_the_flat_cluster_allows_it(&layout, &pods);
    }

    #[test]
    fn a_pod_lands_exactly_where_the_flat_cluster_allows_it_second_half(layout in layout(), pods in pods(PODS)) {
        a_pod_lands_exactly_where_the_flat_cluster_allows_it(&layout, &pods);
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn a_pod_that_was_never_split_is_restored_as_if_it_had_been(layout in layout(), pods in pods(10)) {
        let clusters = flat_cluster::clusters(&mut Choices(&layout));
        for bytes in pods {
            let pod = flat_cluster::pod(&mut Choices(&bytes));
            let split_pod = with_split(&pod, &split(&pod, &kept()).unwrap());
            for Cluster { virtual_node: Machine { name, labels, .. }, .. } in &clusters {
                let expected = restore(&split_pod, labels, name, &kept());
                prop_assert_eq!(restore(&pod, labels, name, &kept()), expected, "{}", pod);
            }
        }
    }

    /// As another webhook may, or an author who tightens a gated pod.
    #[test]
    fn constraints_added_to_a_split_pod_count_as_well(layout in layout(), pods in pods(10), added in pods(10)) {
        let clusters = flat_cluster::clusters(&mut Choices(&layout));
        for (bytes, added) in pods.iter().zip(&added) {
            let pod = flat_cluster::pod(&mut Choices(bytes));
            let mut again = with_split(&pod, &split(&pod, &kept()).unwrap());
            let terms = added_terms(&mut again["spec"], &mut Choices(added));
            let added = json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}});
            let again = with_split(&again, &split(&again, &kept()).unwrap());
            for (cluster, lower, lands) in landings(&again, &clusters) {
                let machine = cluster.flat(lower);
                let allowed = flat_cluster::allows(&pod["spec"], &machine) && flat_cluster::selects(&added, &machine);
                prop_assert_eq!(lands, allowed, "{} with {} on {:?}", pod, added, machine);
            }
        }
    }

    #[test]
    fn the_order_of_terms_and_requirements_does_not_matter(layout in layout(), pods in pods(10)) {
        let clusters = flat_cluster::clusters(&mut Choices(&layout));
        for bytes in pods {
            let pod = flat_cluster::pod(&mut Choices(&bytes));
            let mut reversed = pod.clone();
            reverse_lists(&mut reversed["spec"]["affinity"]);
            let of = |pod: &Value| {
                let split_pod = with_split(pod, &split(pod, &kept()).unwrap());
                landings(&split_pod, &clusters).into_iter().map(|(.., lands)| lands).collect::<Vec<_>>()
            };
            prop_assert_eq!(of(&pod), of(&reversed), "{}", pod);
        }
    }

    #[test]
    fn the_rules_of_the_selector_are_those_of_the_oracle(layout in layout(), pods in pods(20)) {
        let clusters = flat_cluster::clusters(&mut Choices(&layout));
        for bytes in pods {
            let pod = flat_cluster::pod(&mut Choices(&bytes));
            let spec = &pod["spec"];
            let constraints = HardConstraints::of_spec(spec.as_object().unwrap()).unwrap();
            for machine in clusters.iter().flat_map(|cluster| &cluster.lower) {
                let selects = constraints.select(Node { name: &machine.name, labels: &machine.labels });
                prop_assert_eq!(selects, flat_cluster::selects(spec, machine), "{} on {:?}", pod, machine);
                let taints: Vec<Taint> = machine.taints.iter().cloned().map(taint).collect();
                let allows = selects && constraints.untolerated(&taints).is_none();
                prop_assert_eq!(allows, flat_cluster::allows(spec, machine), "{} on {:?}", pod, machine);
            }
        }
    }
}

fn taint((key, value, effect): (String, String, String)) -> Taint {
    Taint { key, value, effect }
}

/// Adds a requirement to each of the pod's terms, or terms if it has none. Returns terms that say what was added.
fn added_terms(spec: &mut Value, choices: &mut Choices<'_>) -> Vec<Value> {
    let terms = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"].as_array_mut();
    if let Some(terms) = terms {
        let requirement = flat_cluster::requirement(choices);
        for term in terms.iter_mut().filter(|term| **term != json!({})) {
            match term["matchExpressions"].as_array_mut() {
                Some(expressions) => expressions.push(requirement.clone()),
                None => term["matchExpressions"] = json!([requirement]),
            }
        }
        return vec![json!({"matchExpressions": [requirement]})];
    }
    let terms = vec![flat_cluster::term(choices), flat_cluster::term(choices)];
    spec["affinity"]["nodeAffinity"][REQUIRED] = json!({"nodeSelectorTerms": terms});
    terms
}

fn reverse_lists(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.reverse();
            items.iter_mut().for_each(reverse_lists);
        }
        Value::Object(members) => members.values_mut().for_each(reverse_lists),
        _ => {}
    }
}

/// The property above is worth what its cases are worth: both answers must be frequent, and the hard case must occur.
#[test]
fn the_generated_cases_are_worth_trying() {
    let mut runner = TestRunner::deterministic();
    let (mut allowed, mut refused, mut paired) = (0, 0, 0);
    for _ in 0..60 {
        let (layout, pods) = (layout(), pods(PODS)).new_tree(&mut runner).unwrap().current();
        let clusters = flat_cluster::clusters(&mut Choices(&layout));
        for pod in pods.iter().map(|bytes| flat_cluster::pod(&mut Choices(bytes))) {
            paired += usize::from(!split(&pod, &kept()).unwrap().stash.required_terms.is_empty());
            for cluster in &clusters {
                for lower in &cluster.lower {
                    if flat_cluster::allows(&pod["spec"], &cluster.flat(lower)) {
                        allowed += 1;
                    } else {
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(allowed * 10 > refused, "{allowed} allowed, {refused} refused");
    assert!(paired * 5 > 60 * PODS, "{paired} of {} pods have terms that must stay paired", 60 * PODS);
}
