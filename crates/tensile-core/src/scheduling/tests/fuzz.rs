// SPDX-License-Identifier: Apache-2.0
//! Damaged objects: each is decoded or refused, and whatever was decoded can be asked about, and goes without a trace.

use std::sync::Arc;

use serde_json::{Value, json};
use tensile_testkit::fuzz::{Numbers, cases, damage_bytes, damage_json};
use tensile_testkit::lower_cluster;

use super::super::objects::{Node, Pod};
use super::super::{Change, Cluster, Kind, Question, Uid, Unknown, Weights};

/// Inputs that are tried unless told otherwise, of each kind.
const CASES: u64 = 4_000;

/// What the engine looks for.
const WORDS: &[&str] = &[
    "affinity",
    "annotations",
    "allocatable",
    "Always",
    "containers",
    "cpu",
    "deletionTimestamp",
    "disk",
    "Exists",
    "hostPort",
    "In",
    "initContainers",
    "kubernetes.io/hostname",
    "labels",
    "labelSelector",
    "matchExpressions",
    "maxSkew",
    "metadata",
    "namespaceSelector",
    "NoSchedule",
    "nodeName",
    "operator",
    "overhead",
    "persistentVolumeClaim",
    "podAntiAffinity",
    "pods",
    "9223372036854775807",
    "1e300",
    "-5",
    "requests",
    "resources",
    "status",
    "taints",
    "tensile.io/upper-uid",
    "topologyKey",
    "topologySpreadConstraints",
    "uid",
    "values",
    "volumes",
    "example.com/gpu",
];

fn object(kind: Kind, numbers: &mut Numbers) -> Value {
    let nodes = lower_cluster::nodes(numbers, "n", 3);
    let named = |more: Value| {
        let mut object = json!({"metadata": {"name": "x", "namespace": "blue", "annotations": {}}});
        super::scene::merge(&mut object, more);
        object
    };
    match kind {
        Kind::Node => nodes[0].clone(),
        Kind::Pod => {
            let pod = lower_cluster::pod(numbers, "p", &nodes);
            let mut pod = lower_cluster::bound(numbers, pod, &nodes);
            pod["metadata"]["uid"] = json!("p");
            pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]);
            pod
        }
        Kind::Namespace => lower_cluster::namespaces()[0].clone(),
        Kind::Quota => named(json!({"status": {"hard": {"cpu": "1", "pods": 3}, "used": {"cpu": "500m"}}})),
        Kind::LimitRange => named(json!({"spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}})),
        Kind::Claim => named(json!({"spec": {"volumeName": "x", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}})),
        Kind::Volume => named(json!({"spec": {"capacity": {"storage": "1Gi"}, "nodeAffinity": {"required":
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}}}})),
        Kind::StorageClass => named(json!({"provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "disk", "values": ["ssd"]}]}]})),
        Kind::CsiNode => named(json!({"spec": {"drivers": [{"name": "d", "allocatable": {"count": 1}}]}})),
    }
}

/// Brings in damaged objects and asks damaged questions. Says how many of each were read.
fn run(seed: u64, damage: impl Fn(Value, &mut Numbers) -> String) -> (usize, usize) {
    let numbers = &mut Numbers::new(seed);
    let mut cluster = Cluster::default();
    let (mut objects, mut questions) = (Vec::new(), 0);
    for _ in 0..6 {
        let kind = *numbers.of(&Kind::ALL);
        let text = damage(object(kind, numbers), numbers);
        if let Ok(pod) = serde_json::from_str::<Pod>(&text) {
            assert_eq!(Pod::decode(&text).unwrap(), pod, "seed {seed}: {text}");
        }
        if let Ok(node) = serde_json::from_str::<Node>(&text) {
            assert_eq!(Node::decode(&text).unwrap(), node, "seed {seed}: {text}");
        }
        if let Ok(object) = kind.decode(&text) {
            cluster.apply(Change::Seen(object.clone()));
            objects.push(object);
        }
    }
    for number in 0..2 {
        let text = damage(object(Kind::Pod, numbers), numbers);
        let Ok(pod) = serde_json::from_str::<Value>(&text) else { continue };
        let Ok(question) = Question::of_lower(&pod, Unknown::Deny) else { continue };
        questions += 1;
        let answer = cluster.ask(&question);
        let capacity = cluster.capacity(&question, 5);
        assert!(capacity == 0 || answer.fits(), "seed {seed}: room for {capacity}, but {answer:?}");
        assert!(cluster.score(&question, &answer, &Weights::default()) <= 10);
        let (uid, question) = (Uid::of(&number.to_string()), Arc::new(question));
        assert_eq!(cluster.offer(uid, &question).fits(), answer.fits(), "seed {seed}");
        assert_eq!(cluster.assume(uid, &question), answer.fits(), "seed {seed}");
        cluster.forget(uid);
    }
    let read = objects.len();
    for object in objects {
        cluster.apply(Change::Gone(object));
    }
    for kind in Kind::ALL {
        cluster.begin(kind);
        cluster.end(kind);
    }
    assert_eq!(cluster.residue(), 0, "seed {seed}");
    (read, questions)
}

fn fuzz(damage: impl Fn(Value, &mut Numbers) -> String) {
    let (mut objects, mut questions) = (0, 0);
    for seed in 0..cases(CASES) {
        let (read, asked) = run(seed, &damage);
        objects += read;
        questions += asked;
    }
    let cases = usize::try_from(cases(CASES)).unwrap();
    assert!(objects > cases && questions * 5 > cases, "only {objects} objects and {questions} questions were read");
}

#[test]
fn fuzz_of_objects_with_damaged_values() {
    fuzz(|mut object, numbers| {
        damage_json(&mut object, numbers, WORDS);
        object.to_string()
    });
}

#[test]
fn fuzz_of_objects_with_damaged_bytes() {
    fuzz(|object, numbers| {
        let mut bytes = object.to_string().into_bytes();
        damage_bytes(&mut bytes, numbers);
        String::from_utf8_lossy(&bytes).into_owned()
    });
}
