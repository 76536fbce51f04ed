// SPDX-License-Identifier: Apache-2.0
//! Pods that tensile-kube annotated are understood here, and pods that this webhook annotated are understood there.

use proptest::prelude::*;
use serde_json::{Value, json};
use tensile_core::placement::{KeptKeys, PlacementError, restore};
use tensile_testkit::flat_cluster::{self, Choices, Cluster, KEPT, Machine};
use webhook::mutate::Policy;

use super::{admitted, tensile_kube};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

fn policy() -> Policy {
    Policy { kept: KeptKeys::new(KEPT), ..Policy::default() }
}

/// A generated pod that opts in. Without `matchFields`: tensile-kube sends them down, where they name no node. And not
/// without any term, which no node can meet: tensile-kube takes that for no requirement.
fn pod(bytes: &[u8]) -> Value {
    let mut pod = flat_cluster::pod(&mut Choices(bytes));
    pod["metadata"]["labels"] = json!({"virtual-pod": "true"});
    for term in terms_mut(&mut pod) {
        term.as_object_mut().unwrap().remove("matchFields");
    }
    if terms_mut(&mut pod).next().is_none() {
        pod["spec"].as_object_mut().unwrap().remove("affinity");
    }
    pod
}

fn terms_mut(pod: &mut Value) -> impl Iterator<Item = &mut Value> {
    let terms = pod.pointer_mut(&format!("/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms"));
    terms.and_then(Value::as_array_mut).into_iter().flatten()
}

fn stash(pod: &Value) -> Value {
    serde_json::from_str(pod["metadata"]["annotations"]["clusterSelector"].as_str().unwrap_or("{}")).unwrap()
}

/// Whether our virtual node, and the scheduler below it, let the pod land.
fn lands_here(pod: &Value, cluster: &Cluster, machine: &Machine) -> bool {
    let above = &cluster.virtual_node;
    match restore(pod, &above.labels, &above.name, &policy().kept) {
        Ok(lower) => {
            let spec = json!({
                "nodeSelector": lower.node_selector, "affinity": lower.affinity, "tolerations": lower.tolerations,
            });
            flat_cluster::selects(&pod["spec"], above) && flat_cluster::allows(&spec, machine)
        }
        Err(PlacementError::WrongVirtualNode { .. }) => false,
        Err(error) => panic!("{error}: {pod}"),
    }
}

/// The same for tensile-kube's virtual node.
fn lands_there(pod: &Value, cluster: &Cluster, machine: &Machine) -> bool {
    let above = &cluster.virtual_node;
    flat_cluster::selects(&pod["spec"], above) && flat_cluster::allows(&tensile_kube::restored(pod), machine)
}

/// Each lower machine with its cluster.
fn machines(clusters: &[Cluster]) -> impl Iterator<Item = (&Cluster, &Machine)> {
    clusters.iter().flat_map(|cluster| cluster.lower.iter().map(move |machine| (cluster, machine)))
}

/// A pod whose terms share what they say of kept keys, and each say something more: what tensile-kube's rule can hold.
fn expressible(bytes: &[u8]) -> Value {
    let mut pod = pod(bytes);
    let kept = json!({"key": "clusterID", "operator": "In", "values": ["1", "2"]});
    for term in terms_mut(&mut pod) {
        let mut expressions = vec![kept.clone()];
        let others = term["matchExpressions"].as_array().cloned().unwrap_or_default();
        expressions.extend(others.into_iter().filter(|other| KEPT.iter().all(|key| other["key"] != *key)));
        if expressions.len() == 1 {
            expressions.push(json!({"key": "disk", "operator": "Exists"}));
        }
        *term = json!({"matchExpressions": expressions});
    }
    pod
}

fn layout() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 120)
}

fn pods() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 10)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_pod_that_tensile_kube_annotated_lands_where_its_own_virtual_node_lets_it(layout in layout(), pods in pods()) {
        let clusters = flat_cluster::clusters(&mut Choices(&layout));
        for bytes in pods {
            let theirs = tensile_kube::annotated(pod(&bytes), &KEPT);
            // A copy that is created again meets this webhook.
            let again = admitted(&theirs, &policy());
            for (cluster, machine) in machines(&clusters) {
                // Without a stash it forgets what the pod says; here that counts.
                let expected = match theirs["metadata"]["annotations"].get("clusterSelector") {
                    Some(_) => lands_there(&theirs, cluster, machine),
                    None => flat_cluster::allows(&theirs["spec"], &cluster.flat(machine)),
                };
                prop_assert_eq!(lands_here(&theirs, cluster, machine), expected, "{} on {:?}", theirs, machine);
                prop_assert_eq!(lands_here(&again, cluster, machine), expected, "{} on {:?}", again, machine);
            }
        }
    }

    #[test]
    fn what_tensile_kube_can_express_means_what_the_author_meant(layout in layout(), pods in pods()) {
        let clusters = flat_cluster::clusters(&mut Choices(&layout));
        for bytes in pods {
            let pod = expressible(&bytes);
            let theirs = tensile_kube::annotated(pod.clone(), &KEPT);
            let ours = admitted(&pod, &policy());
            for (cluster, machine) in machines(&clusters) {
                let expected = flat_cluster::allows(&pod["spec"], &cluster.flat(machine));
                prop_assert_eq!(lands_here(&theirs, cluster, machine), expected, "{} on {:?}", theirs, machine);
                prop_assert_eq!(lands_there(&ours, cluster, machine), expected, "{} on {:?}", ours, machine);
            }
        }
    }

    #[test]
    fn a_pod_of_this_webhook_lands_right_with_tensile_kubes_virtual_node_unless_its_terms_must_stay_paired(
        layout in layout(), pods in pods(),
    ) {
        let clusters = flat_cluster::clusters(&mut Choices(&layout));
        for bytes in pods {
            let pod = pod(&bytes);
            let ours = admitted(&pod, &policy());
            let paired = stash(&ours).get("requiredTerms").is_some();
            for (cluster, machine) in machines(&clusters).filter(|_| !paired) {
                let expected = flat_cluster::allows(&pod["spec"], &cluster.flat(machine));
                prop_assert_eq!(lands_there(&ours, cluster, machine), expected, "{} on {:?}", ours, machine);
            }
        }
    }

    /// Then it is no worse off than with tensile-kube's own webhook.
    #[test]
    fn terms_that_must_stay_paired_are_to_tensile_kube_as_if_its_webhook_had_divided_them(
        layout in layout(), pods in pods(),
    ) {
        let clusters = flat_cluster::clusters(&mut Choices(&layout));
        for bytes in pods {
            let mut pod = pod(&bytes);
            for term in terms_mut(&mut pod) {
                let mut expressions = term["matchExpressions"].as_array().cloned().unwrap_or_default();
                expressions.push(json!({"key": "clusterID", "operator": "Exists"}));
                expressions.push(json!({"key": "kubernetes.io/arch", "operator": "DoesNotExist"}));
                *term = json!({"matchExpressions": expressions});
            }
            let (ours, theirs) = (admitted(&pod, &policy()), tensile_kube::annotated(pod, &KEPT));
            for (cluster, machine) in machines(&clusters) {
                let expected = lands_there(&theirs, cluster, machine);
                prop_assert_eq!(lands_there(&ours, cluster, machine), expected, "{} and {}", ours, theirs);
            }
        }
    }
}

#[test]
fn a_pod_that_both_annotate_gets_the_same_annotation() {
    let pod = json!({
        "metadata": {"labels": {"virtual-pod": "true"}},
        "spec": {
            "nodeSelector": {"clusterID": "a", "disk": "ssd"},
            "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "clusterID", "operator": "In", "values": ["a"]}, {"key": "gpu", "operator": "Exists"},
            ]}]}}},
            "tolerations": [{"key": "team", "operator": "Exists"}],
        },
    });
    let policy = Policy::default();
    let (ours, theirs) = (admitted(&pod, &policy), tensile_kube::annotated(pod, &["clusterID"]));
    assert_eq!(stash(&ours), stash(&theirs));
    assert_eq!(ours["spec"], theirs["spec"]);
}
