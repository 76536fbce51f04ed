// SPDX-License-Identifier: Apache-2.0
//! Generated clusters and pods, held against an oracle that was written apart. `e2e/tests/scheduling` holds them against
//! a real scheduler.

#![allow(clippy::print_stdout, reason = "how much was compared is worth knowing")]

use serde_json::{Value, json};
use tensile_testkit::fuzz::{Numbers, cases};
use tensile_testkit::lower_cluster::{self, Scene};

use super::super::{Answer, Cluster, Kind, Question, Unknown};
use super::scene::see;

const CASES: u64 = 4_000;

fn scene(numbers: &mut Numbers) -> Scene {
    let count = 1 + numbers.below(8);
    let nodes = lower_cluster::nodes(numbers, "n", count);
    let mut pods = Vec::new();
    for number in 0..numbers.below(20) {
        let pod = lower_cluster::pod(numbers, &format!("p-{number}"), &nodes);
        let mut pod = lower_cluster::bound(numbers, pod, &nodes);
        pod["metadata"]["uid"] = json!(format!("p-{number}"));
        pods.push(pod);
    }
    Scene { nodes, pods, namespaces: lower_cluster::namespaces() }
}

fn follow(scene: &Scene) -> Cluster {
    let mut cluster = Cluster::default();
    let kinds = [(Kind::Namespace, &scene.namespaces), (Kind::Pod, &scene.pods), (Kind::Node, &scene.nodes)];
    for (kind, objects) in kinds {
        for object in objects {
            see(&mut cluster, kind, object);
        }
    }
    cluster
}

#[test]
fn a_pod_fits_where_the_oracle_says() {
    let (mut fitting, mut refused) = (0, 0);
    for seed in 0..cases(CASES) {
        let numbers = &mut Numbers::new(seed);
        let scene = scene(numbers);
        let cluster = follow(&scene);
        for _ in 0..4 {
            let pod: Value = lower_cluster::pod(numbers, "new", &scene.nodes);
            let expected = lower_cluster::fits(&scene, &pod);
            let about = || format!("seed {seed}: {pod} in {} and {}", json!(scene.nodes), json!(scene.pods));
            match cluster.ask(&Question::of_lower(&pod, Unknown::Deny).unwrap()) {
                Answer::Fits { node } => {
                    assert!(expected.contains(&*node), "{node} is none of {expected:?}; {}", about());
                    fitting += 1;
                }
                Answer::Refused { why, .. } => {
                    assert!(expected.is_empty(), "refused: {why}; it fits on {expected:?}; {}", about());
                    refused += 1;
                }
            }
        }
    }
    println!("{fitting} pods fit, {refused} do not");
    assert!(fitting * 5 > refused && refused * 5 > fitting, "{fitting} fit, {refused} do not: one is too rare");
}
