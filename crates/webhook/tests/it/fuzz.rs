// SPDX-License-Identifier: Apache-2.0
//! Damaged reviews: each is decided or refused, and a patch can be applied, changes placement alone and is final.
//!
//! The inputs are the same in each run. A long run, such as `TENSILE_FUZZ_CASES=10000000 cargo test --release -p webhook
//! fuzz`, tries more of the same sequence.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tensile_core::exclusion::Exclusions;
use tensile_core::placement::restore;
use tensile_testkit::flat_cluster::{self, Choices};
use tensile_testkit::fuzz::{Numbers, cases, damage_bytes, damage_json, reviews};
use webhook::mutate::{Known, Policy, decide};
use webhook::review::{Review, Verdict};

use super::{patched, review, unknown};

/// Inputs that are tried unless told otherwise, of each kind.
const CASES: u64 = 30_000;

/// What the webhook looks for, and what it writes.
const WORDS: &[&str] = &[
    "AdmissionReview",
    "CREATE",
    "Pod",
    "admission.k8s.io/v1beta1",
    "affinity",
    "annotations",
    "clusterID",
    "clusterSelector",
    "controller",
    "DaemonSet",
    "DoesNotExist",
    "hostPath",
    "In",
    "key",
    "kubernetes.io/hostname",
    "labels",
    "labelSelector",
    "matchExpressions",
    "matchFields",
    "matchLabelKeys",
    "metadata.name",
    "node.kubernetes.io/not-ready",
    "nodeAffinity",
    "nodeSelector",
    "nodeSelectorTerms",
    "NoExecute",
    "NotIn",
    "ownerReferences",
    "podAffinity",
    "podAffinityTerm",
    "podAntiAffinity",
    "preference",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "tolerations",
    "tolerationSeconds",
    "topologyKey",
    "topologySpreadConstraints",
    "values",
    "virtual-pod",
    "weight",
    "{\"nodeSelector\":{\"disk\":\"hdd\"}}",
    "{\"affinity\":{\"podAffinity\":{}}}",
    "{\"requiredTerms\":[{\"matchExpressions\":[{\"key\":\"clusterID\",\"operator\":\"Exists\"}]}]}",
];

/// Exclusions of the owners in the reviews, from a node.
fn exclusions(reviews: &[Value]) -> Exclusions {
    let owner = |review: &Value| {
        let uid = review["request"]["object"]["metadata"]["ownerReferences"][0]["uid"].as_str()?;
        Some((format!("owner.{uid}"), r#"{"nodes":[{"node":"east","until":"2100-01-01T00:00:00Z"}]}"#))
    };
    let entries: Vec<_> = reviews.iter().filter_map(owner).collect();
    assert!(!entries.is_empty(), "no review is of an owned pod");
    Exclusions::read(entries.iter().map(|(key, text)| (key.as_str(), *text))).0
}

/// The parts of a pod that the webhook may not change.
fn rest(pod: &Value) -> Value {
    let mut rest = pod.clone();
    if let Some(spec) = rest.get_mut("spec").and_then(Value::as_object_mut) {
        for field in ["nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"] {
            spec.remove(field);
        }
    }
    let annotations = rest.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove("clusterSelector");
        if annotations.is_empty() {
            rest["metadata"].as_object_mut().unwrap().remove("annotations");
        }
    }
    rest
}

/// What must hold for any body. Says whether it was a review whose pod was changed.
fn is_decided_or_refused(body: &[u8], policy: &Policy, known: Known<'_>) -> bool {
    let Ok(review) = Review::read(body) else { return false };
    let verdict = decide(&review.request, policy, known);
    let answer = review.answer(&verdict).unwrap();
    let (Verdict::Changed { .. }, Some(object)) = (&verdict, review.request.object) else { return false };
    let object: Value = serde_json::from_str(object.get()).unwrap();
    let changed = patched(&object, &answer);
    // An empty map of annotations counts as none: the API server writes neither.
    assert_eq!(rest(&changed), rest(&object), "{object}");

    let again = super::review("CREATE", &review.request.namespace, &changed).to_string();
    let again = decide(&Review::read(again.as_bytes()).unwrap().request, policy, known);
    let is_final = matches!(&again, Verdict::Changed { patch, .. } if patch.is_empty());
    assert!(is_final, "a second review of {changed} says {again:?}");
    for cluster in ["east", "west"] {
        let labels = BTreeMap::from([("clusterID".to_owned(), cluster.to_owned())]);
        drop(restore(&changed, &labels, cluster, &policy.kept));
    }
    true
}

/// Tries `input` for as many numbers as told, and wants at least a tenth of the inputs to get all the way through.
fn fuzz(input: impl Fn(&mut Numbers, &[Value]) -> Vec<u8>) {
    let reviews = reviews();
    let exclusions = exclusions(&reviews);
    let known = Known { exclusions: &exclusions, ..unknown() };
    let (policy, cases) = (Policy::default(), cases(CASES));
    let mut changed = 0;
    for case in 0..cases {
        let body = input(&mut Numbers::new(case), &reviews);
        changed += u64::from(is_decided_or_refused(&body, &policy, known));
    }
    assert!(changed * 10 > cases, "only {changed} of {cases} inputs were reviews of pods that are changed");
}

#[test]
fn fuzz_of_real_reviews_with_damaged_values() {
    fuzz(|numbers, reviews| {
        let mut review = numbers.of(reviews).clone();
        // Mostly the constraints: in the rest of the pod nobody looks.
        match numbers.below(4) {
            0 => damage_json(&mut review, numbers, WORDS),
            1 => damage_json(&mut review["request"]["object"], numbers, WORDS),
            _ => damage_json(&mut review["request"]["object"]["spec"], numbers, WORDS),
        }
        review.to_string().into_bytes()
    });
}

#[test]
fn fuzz_of_real_reviews_with_damaged_bytes() {
    fuzz(|numbers, reviews| {
        let mut body = numbers.of(reviews).to_string().into_bytes();
        damage_bytes(&mut body, numbers);
        body
    });
}

#[test]
fn fuzz_of_generated_pods_with_damaged_stashes() {
    fuzz(|numbers, _| {
        let mut pod = flat_cluster::pod(&mut Choices(&numbers.bytes(90)));
        let mut stash = flat_cluster::pod(&mut Choices(&numbers.bytes(90)))["spec"].take();
        stash.as_object_mut().unwrap().remove("containers");
        if numbers.one_in(2) {
            damage_json(&mut stash, numbers, WORDS);
        }
        pod["metadata"]["labels"] = json!({"virtual-pod": "true"});
        pod["metadata"]["annotations"]["clusterSelector"] = stash.to_string().into();
        review("CREATE", "default", &pod).to_string().into_bytes()
    });
}
