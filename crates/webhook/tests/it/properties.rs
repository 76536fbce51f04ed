// SPDX-License-Identifier: Apache-2.0
//! Properties over generated pods, from the question to where the pod lands.

use proptest::prelude::*;
use serde_json::{Value, json};
use tensile_core::placement::{KeptKeys, PlacementError, restore};
use tensile_testkit::flat_cluster::{self, Choices, KEPT};
use webhook::mutate::Policy;
use webhook::review::{Review, Verdict};

use super::{admitted, on_create, unknown};

/// Clusters drawn, and pods sent against each: 100,000 pods in one run of the tests.
const CLUSTERS: u32 = 2_000;
const PODS: usize = 50;

fn policy() -> Policy {
    Policy { kept: KeptKeys::new(KEPT), ..Policy::default() }
}

/// A generated pod that opts in, with members no build knows.
fn pod(bytes: &[u8]) -> Value {
    let mut choices = Choices(bytes);
    let mut pod = flat_cluster::pod(&mut choices);
    flat_cluster::add_topologies(&mut pod, &mut choices);
    pod["metadata"]["labels"] = json!({"virtual-pod": "true", "app": "x"});
    pod["metadata"]["laterMeta"] = json!({"n": 1});
    pod["spec"]["laterSpec"] = json!([{"deep": [null, 1.5, "x"]}]);
    if bytes.len().is_multiple_of(3) {
        pod["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    pod
}

fn pods(count: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..130), count)
}

/// Where a pod, and a stash, hold constraints over topologies.
const TOPOLOGIES: [&str; 5] = [
    "/topologySpreadConstraints",
    "/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution",
    "/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution",
    "/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution",
    "/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution",
];

fn distinct(list: Option<&Value>) -> Vec<Value> {
    let mut seen = Vec::new();
    for item in list.and_then(Value::as_array).into_iter().flatten() {
        if !seen.contains(item) {
            seen.push(item.clone());
        }
    }
    seen
}

fn sorted(values: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = values.iter().map(Value::to_string).collect();
    texts.sort();
    texts.dedup();
    texts
}

/// The part of a constraint that has the topology key.
fn term(constraint: &Value) -> &Value {
    constraint.get("podAffinityTerm").unwrap_or(constraint)
}

fn is_over_clusters(constraint: &Value) -> bool {
    KEPT.iter().any(|key| term(constraint)["topologyKey"] == *key)
}

fn in_one_cluster(mut constraint: Value) -> Value {
    let key = if constraint.get("podAffinityTerm").is_some() { "/podAffinityTerm/topologyKey" } else { "/topologyKey" };
    *constraint.pointer_mut(key).unwrap() = json!("clusterID");
    constraint
}

/// The pod without what the webhook may change.
fn rest(pod: &Value) -> Value {
    let mut rest = pod.clone();
    for field in ["nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"] {
        rest["spec"].as_object_mut().unwrap().remove(field);
    }
    let metadata = rest["metadata"].as_object_mut().unwrap();
    let mut annotations = metadata.remove("annotations").unwrap_or_else(|| json!({}));
    annotations.as_object_mut().unwrap().remove("clusterSelector");
    metadata.insert("annotations".to_owned(), annotations);
    rest
}

/// Admits the pods and sees where they land, lower node by lower node.
fn admitted_pods_land_where_the_flat_cluster_allows_it(layout: &[u8], pods: &[Vec<u8>]) {
    let clusters = flat_cluster::clusters(&mut Choices(layout));
    for pod in pods.iter().map(|bytes| pod(bytes)) {
        let admitted = admitted(&pod, &policy());
        for cluster in &clusters {
            let above = &cluster.virtual_node;
            let chosen = flat_cluster::selects(&admitted["spec"], above);
            let lower_spec = match restore(&admitted, &above.labels, &above.name, &policy().kept) {
                Ok(lower) => Some(json!({
                    "nodeSelector": lower.node_selector, "affinity": lower.affinity, "tolerations": lower.tolerations,
                })),
                Err(PlacementError::WrongVirtualNode { .. }) => None,
                Err(error) => panic!("{error}: {admitted}"),
            };
            for machine in &cluster.lower {
                let lands = chosen && lower_spec.as_ref().is_some_and(|spec| flat_cluster::allows(spec, machine));
                let allowed = flat_cluster::allows(&pod["spec"], &cluster.flat(machine));
                assert_eq!(lands, allowed, "{pod} on {machine:?} below {above:?}");
            }
        }
    }
}

fn layout() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 120)
}

// In two tests so that they use two processors.
proptest! {
    #![proptest_config(ProptestConfig { cases: CLUSTERS / 2, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn admitted_pods_land_where_the_flat_cluster_allows_it_first_half(layout in layout(), pods in pods(PODS)) {
        admitted_pods_land_where_the_flat_cluster_allows_it(&layout, &pods);
    }

    #[test]
    fn admitted_pods_land_where_the_flat_cluster_allows_it_second_half(layout in layout(), pods in pods(PODS)) {
        admitted_pods_land_where_the_flat_cluster_allows_it(&layout, &pods);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_patch_changes_nothing_but_placement_and_the_stash(pods in pods(10)) {
        for pod in pods.iter().map(|bytes| pod(bytes)) {
            let admitted = admitted(&pod, &policy());
            prop_assert_eq!(rest(&admitted), rest(&pod));
        }
    }

    #[test]
    fn a_second_review_finds_nothing_to_change(pods in pods(10)) {
        for pod in pods.iter().map(|bytes| pod(bytes)) {
            let admitted = admitted(&pod, &policy());
            let again = on_create(&admitted, &policy());
            prop_assert_eq!(again, Verdict::Changed { patch: vec![], warnings: vec![] }, "{}", admitted);
        }
    }

    /// Each constraint over a topology is decided in one place, by the level of its key; pods that must be together are
    /// first of all in one cluster.
    #[test]
    fn every_constraint_over_a_topology_is_decided_once(pods in pods(10)) {
        for pod in pods.iter().map(|bytes| pod(bytes)) {
            let admitted = admitted(&pod, &policy());
            let stash: Value =
                serde_json::from_str(admitted["metadata"]["annotations"]["clusterSelector"].as_str().unwrap()).unwrap();
            for path in TOPOLOGIES {
                let lists = [&pod["spec"], &admitted["spec"], &stash].map(|value| distinct(value.pointer(path)));
                let [asked, upper, stashed] = lists;
                let (over_clusters, below): (Vec<_>, Vec<_>) = asked.into_iter().partition(is_over_clusters);
                prop_assert_eq!(&stashed, &below, "{} of {}", path, pod);
                let mut expected = over_clusters;
                if path.contains("podAffinity") {
                    expected.extend(below.into_iter().map(in_one_cluster));
                }
                prop_assert_eq!(sorted(&upper), sorted(&expected), "{} of {}", path, pod);
            }
        }
    }

    #[test]
    fn any_bytes_are_a_review_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Review::read(&bytes).is_err());
    }

    /// Reviews of pods of which a piece was replaced by something else.
    #[test]
    fn a_mutilated_review_is_decided_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..90), at: usize, by in "[\\[\\]{}\",:0-9a-z]{0,3}") {
        let body = super::review("CREATE", "default", &pod(&bytes)).to_string();
        let at = at % body.len();
        let body = format!("{}{by}{}", &body[..at], &body[(at + 1)..]);
        if let Ok(review) = Review::read(body.as_bytes()) {
            let verdict = webhook::mutate::decide(&review.request, &policy(), unknown());
            prop_assert!(review.answer(&verdict).is_ok());
        }
    }
}
