// SPDX-License-Identifier: Apache-2.0
//! Damaged questions: each is answered or refused, and an answer is about the nodes that were asked about.
//!
//! The inputs are the same in each run. A long run, such as `TENSILE_FUZZ_CASES=10000000 cargo test --release -p
//! multi-scheduler fuzz`, tries more of the same sequence.

use std::collections::BTreeSet;
use std::time::Instant;

use jiff::Timestamp;
use multi_scheduler::fleet::Fleet;
use multi_scheduler::wire::{Asked, FilterResult};
use serde_json::{Value, json};
use tensile_testkit::fuzz::{Numbers, cases, damage_bytes, damage_json, reviews};

use super::known::{cluster, fleet, policy};

/// Inputs that are tried unless told otherwise, of each kind.
const CASES: u64 = 20_000;

/// What is looked for in questions.
const WORDS: &[&str] = &[
    "Pod",
    "Nodes",
    "NodeNames",
    "items",
    "metadata",
    "name",
    "namespace",
    "uid",
    "spec",
    "labels",
    "annotations",
    "clusterSelector",
    "nodeSelector",
    "affinity",
    "tolerations",
    "containers",
    "initContainers",
    "resources",
    "requests",
    "limits",
    "cpu",
    "1e30",
    "-1",
    "overhead",
    "restartPolicy",
    "Always",
    "ports",
    "hostPort",
    "volumes",
    "persistentVolumeClaim",
    "claimName",
    "resourceClaims",
    "topologySpreadConstraints",
    "topologyKey",
    "maxSkew",
    "labelSelector",
    "matchExpressions",
    "operator",
    "In",
    "NotIn",
    "Exists",
    "Gt",
    "values",
    "podAntiAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    "ownerReferences",
    "controller",
    "east",
    "empty",
];

/// What must hold for any body. Says whether it was answered.
fn is_answered_or_refused(fleet: &Fleet, body: &[u8]) -> bool {
    let Ok(asked) = Asked::read(body) else { return false };
    let (names, now, time) = (asked.candidates.names(), Instant::now(), Timestamp::UNIX_EPOCH);
    let refused = fleet.filter(&asked.pod, &names, now, time);
    let known: BTreeSet<&str> = names.iter().copied().collect();
    for name in &known {
        match *name {
            // Nothing fits where there are no nodes.
            "empty" => assert!(refused.contains_key(name), "{}", asked.pod),
            "east" => {}
            _ => assert!(!refused.contains_key(name), "{name} is not ours: {}", asked.pod),
        }
    }
    assert!(refused.keys().all(|name| known.contains(name)), "{refused:?} of {known:?}");
    let scores = fleet.prioritize(&asked.pod, &names, now);
    assert!(scores.iter().all(|node| node.score <= 10), "{scores:?}");
    drop(fleet.explain(&asked.pod, 50, now, time));
    let again = fleet.filter(&asked.pod, &names, now, time);
    assert_eq!(again.keys().collect::<Vec<_>>(), refused.keys().collect::<Vec<_>>(), "{}", asked.pod);
    let answer = serde_json::to_value(FilterResult::new(&asked.candidates, refused)).unwrap();
    assert_eq!(answer.as_object().unwrap().len(), 5, "{answer}");
    let uid = asked.pod["metadata"]["uid"].as_str().unwrap_or_default();
    fleet.pod_ended(uid, None);
    true
}

/// Tries `input` for as many numbers as told, and wants at least a tenth of the inputs to be questions.
fn fuzz(input: impl Fn(&mut Numbers, &[Value]) -> Vec<u8>) {
    let east = cluster("east", &["4", "8"]);
    let fleet = fleet(policy(&[]), &[east.clone(), cluster("empty", &[])]);
    let questions: Vec<Value> = reviews()
        .iter()
        .map(|review| json!({ "Pod": review["request"]["object"], "NodeNames": ["east", "empty", "other"] }))
        .collect();
    let (cases, mut answered) = (cases(CASES), 0);
    for case in 0..cases {
        let body = input(&mut Numbers::new(case), &questions);
        answered += u64::from(is_answered_or_refused(&fleet, &body));
    }
    assert!(answered * 10 > cases, "only {answered} of {cases} inputs were answered");
    assert_eq!(east.read().counts().assumed, 0, "something is kept for pods that have ended");
}

#[test]
fn fuzz_of_real_questions_with_damaged_values() {
    fuzz(|numbers, questions| {
        let mut question = numbers.of(questions).clone();
        if numbers.one_in(4) {
            damage_json(&mut question, numbers, WORDS);
        } else {
            damage_json(&mut question["Pod"]["spec"], numbers, WORDS);
        }
        question.to_string().into_bytes()
    });
}

#[test]
fn fuzz_of_real_questions_with_damaged_bytes() {
    fuzz(|numbers, questions| {
        let mut body = numbers.of(questions).to_string().into_bytes();
        damage_bytes(&mut body, numbers);
        body
    });
}
