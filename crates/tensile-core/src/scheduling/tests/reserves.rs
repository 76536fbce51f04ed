// SPDX-License-Identifier: Apache-2.0
//! Bursts: whatever lower schedulers do with pods that are on their way, nobody is told of room that another needs.

use std::sync::Arc;

use serde_json::{Value, json};
use tensile_testkit::fuzz::{Numbers, cases};

use super::super::{Cluster, Gain, Kind, Question, Uid};
use super::scene::{cluster, lose, merge, node, on, question, requests, see, shared};

/// Sequences that are tried.
const SEQUENCES: u64 = 300;
/// Steps of each.
const STEPS: usize = 150;
/// CPUs of a node, as in the scene.
const CPUS: usize = 4;

/// A pod that was told of: its question, how many CPUs it asks for, how far it is.
struct Pod {
    uid: String,
    spec: Value,
    cpus: usize,
    question: Arc<Question>,
    bound: bool,
    /// The node below.
    on: Option<usize>,
}

impl Pod {
    fn lower(&self, node: usize) -> Value {
        let (_, mut pod) = on(&format!("n{node}"), &self.uid, labels(&self.uid), self.spec.clone());
        pod["metadata"]["annotations"] = json!({"tensile.io/upper-uid": self.uid});
        pod
    }
}

/// Pods of several controllers differ, though they ask for the same.
fn labels(uid: &str) -> Value {
    json!({"app": uid.len().to_string() + uid.get(..1).unwrap_or_default(), "pod": uid, "of": "all"})
}

/// Two nodes are in each zone.
fn zone(node: usize) -> usize {
    node / 2
}

/// A cluster, and what really is in it.
struct World {
    cluster: Cluster,
    nodes: usize,
    /// Each keeps the others out of its zone.
    apart: bool,
    pods: Vec<Pod>,
    came: usize,
}

impl World {
    fn new(nodes: usize) -> Self {
        let all = (0..nodes).map(|number| zoned(&format!("n{number}"), &zone(number).to_string(), &CPUS.to_string()));
        let cluster = cluster(&all.collect::<Vec<_>>());
        Self { cluster, nodes, apart: false, pods: Vec::new(), came: 0 }
    }

    /// Whether the lower scheduler may put a pod with so many CPUs on a node.
    fn is_free(&self, node: usize, cpus: usize) -> bool {
        let lonely = || self.pods.iter().all(|pod| pod.on.is_none_or(|other| zone(other) != zone(node)));
        self.free(node) >= cpus && (!self.apart || lonely())
    }

    /// What pods that run leave of a node.
    fn free(&self, node: usize) -> usize {
        let there = self.pods.iter().filter(|pod| pod.on == Some(node));
        CPUS - there.map(|pod| pod.cpus).sum::<usize>()
    }

    /// A scheduler asks. Returns whether it was told that the pod fits.
    fn ask(&mut self, cpus: usize) -> bool {
        self.came += 1;
        let uid = format!("{}-{}", self.came % 3, self.came);
        let mut spec = requests(json!({"cpu": cpus.to_string()}));
        if self.apart {
            merge(&mut spec, company("podAntiAffinity", &json!({"matchLabels": {"of": "all"}})));
        }
        let question = Arc::new(question(labels(&uid), spec.clone()));
        let fits = self.cluster.offer(Uid::of(&uid), &question).fits();
        if fits {
            self.pods.push(Pod { uid, spec, cpus, question, bound: false, on: None });
        }
        fits
    }

    /// The lower scheduler puts a bound pod on any node with room for it.
    fn land(&mut self, number: usize, numbers: &mut Numbers) {
        let Some(pod) = self.pods.get(number).filter(|pod| pod.bound && pod.on.is_none()) else { return };
        let roomy: Vec<usize> = (0..self.nodes).filter(|node| self.is_free(*node, pod.cpus)).collect();
        if !roomy.is_empty() {
            let node = *numbers.of(&roomy);
            see(&mut self.cluster, Kind::Pod, &pod.lower(node));
            self.pods[number].on = Some(node);
        }
    }

    /// One of the things that happen to a pod.
    fn step(&mut self, numbers: &mut Numbers) {
        if self.pods.is_empty() {
            return;
        }
        let number = numbers.below(self.pods.len());
        let pod = &mut self.pods[number];
        match numbers.below(8) {
            0..=2 => {
                pod.bound = true;
                self.cluster.assume(Uid::of(&pod.uid), &pod.question);
            }
            3..=5 => self.land(number, numbers),
            6 if pod.on.is_none() => {
                self.cluster.forget(Uid::of(&pod.uid));
                self.pods.swap_remove(number);
            }
            _ => {
                if let Some(node) = pod.on {
                    lose(&mut self.cluster, Kind::Pod, &pod.lower(node));
                    self.pods.swap_remove(number);
                }
            }
        }
    }

    /// Everybody on their way is bound and lands, each somewhere.
    fn finish(&mut self, numbers: &mut Numbers) {
        for number in 0..self.pods.len() {
            let pod = &mut self.pods[number];
            pod.bound = true;
            self.cluster.assume(Uid::of(&pod.uid), &pod.question);
            self.land(number, numbers);
        }
    }
}

#[test]
fn pods_that_ask_for_the_same_are_told_of_just_the_room_there_is_wherever_they_land() {
    for seed in 0..cases(SEQUENCES) {
        let numbers = &mut Numbers::new(seed);
        let (cpus, nodes) = (1 + numbers.below(2), 1 + numbers.below(6));
        let mut world = World::new(nodes);
        let room = nodes * CPUS / cpus;
        for step in 0..STEPS {
            if numbers.one_in(2) {
                let is_room = world.pods.len() < room;
                assert_eq!(world.ask(cpus), is_room, "seed {seed}, step {step}: {} of {room}", world.pods.len());
            } else {
                world.step(numbers);
            }
            assert_eq!(world.cluster.counts().owed, 0, "seed {seed}, step {step}");
        }
        world.finish(numbers);
        assert!(world.pods.iter().all(|pod| pod.on.is_some()), "seed {seed}: one found no node");
        assert_eq!((world.cluster.counts().assumed, world.cluster.counts().pods), (0, world.pods.len()));
    }
}

#[test]
fn of_pods_that_keep_apart_one_for_each_zone_is_told_of_room_wherever_they_land() {
    for seed in 0..cases(SEQUENCES) {
        let numbers = &mut Numbers::new(seed);
        let zones = 1 + numbers.below(4);
        let mut world = World { apart: true, ..World::new(2 * zones) };
        for step in 0..STEPS {
            if numbers.one_in(2) {
                let is_room = world.pods.len() < zones;
                assert_eq!(world.ask(1), is_room, "seed {seed}, step {step}: {} of {zones}", world.pods.len());
            } else {
                world.step(numbers);
            }
            assert_eq!(world.cluster.counts().owed, 0, "seed {seed}, step {step}");
        }
        world.finish(numbers);
        assert!(world.pods.iter().all(|pod| pod.on.is_some()), "seed {seed}: one found no node");
    }
}

#[test]
fn pods_of_several_sizes_are_told_only_of_room_that_nobody_on_their_way_needs() {
    for seed in 0..cases(SEQUENCES) {
        let numbers = &mut Numbers::new(seed);
        let mut world = World::new(1 + numbers.below(6));
        for step in 0..STEPS {
            if numbers.one_in(2) {
                world.ask(1 + numbers.below(CPUS));
            } else {
                world.step(numbers);
            }
            let cluster = &mut world.cluster;
            cluster.settle();
            // A place is never on a node that is full without it, and who is owed one finds none.
            for number in 0..world.nodes {
                let node = cluster.nodes.id(&format!("n{number}")).unwrap();
                assert!(!cluster.nodes.is_overfull(node), "seed {seed}, step {step}: n{number}");
            }
            for uid in cluster.assumed.waiting() {
                let question = Arc::clone(&cluster.assumed.get(uid).unwrap().question);
                assert!(!cluster.ask(&question).fits(), "seed {seed}, step {step}: {uid:?} could have a place");
            }
        }
        for pod in std::mem::take(&mut world.pods) {
            match pod.on {
                Some(node) => lose(&mut world.cluster, Kind::Pod, &pod.lower(node)),
                None => world.cluster.forget(Uid::of(&pod.uid)),
            };
        }
        for kind in Kind::ALL {
            world.cluster.begin(kind);
            world.cluster.end(kind);
        }
        assert_eq!(world.cluster.residue(), 0, "seed {seed}");
    }
}

#[test]
fn pods_that_change_places_are_no_gain_and_one_that_leaves_room_is() {
    let mut cluster = cluster(&[node("n0", json!({})), node("n1", json!({}))]);
    let three = shared(json!({"cpu": "3"}));
    let pods = ["u0", "u1"].map(|uid| Pod {
        uid: uid.to_owned(),
        spec: requests(json!({"cpu": "3"})),
        cpus: 3,
        question: Arc::clone(&three),
        bound: true,
        on: None,
    });
    for pod in &pods {
        assert!(cluster.assume(Uid::of(&pod.uid), &three));
    }
    let place = |cluster: &Cluster, uid: &str| {
        let (node, _) = cluster.assumed.get(Uid::of(uid)).unwrap().place.unwrap();
        usize::from(&*cluster.nodes.name(node) == "n1")
    };
    let other = place(&cluster, "u1");
    assert_ne!(place(&cluster, "u0"), other);
    assert_eq!(see(&mut cluster, Kind::Pod, &pods[0].lower(other)), Gain::Company, "they changed places");
    assert_eq!(place(&cluster, "u1"), 1 - other);
    assert_eq!(see(&mut cluster, Kind::Pod, &pods[1].lower(1 - other)), Gain::Company, "it came where it was counted");
    assert!(!cluster.look(&three).fits());

    let mut smaller = pods[0].lower(other);
    merge(&mut smaller["spec"], requests(json!({"cpu": "1"})));
    assert_eq!(see(&mut cluster, Kind::Pod, &smaller), Gain::Room);
}

#[test]
fn who_loses_a_place_to_strangers_or_with_its_node_looks_for_another_and_is_owed_one_if_there_is_none() {
    let mut cluster = cluster(&[node("n0", json!({})), node("n1", json!({}))]);
    let three = shared(json!({"cpu": "3"}));
    assert!(cluster.assume(Uid::of("u"), &three));
    let (kind, stranger) = on("n0", "stranger", json!({}), requests(json!({"cpu": "2"})));
    see(&mut cluster, kind, &stranger);
    assert!(!cluster.look(&three).fits(), "it is on the other node by now");
    assert_eq!(cluster.counts().owed, 0);
    let (kind, cordoned) = node("n1", json!({"spec": {"unschedulable": true}}));
    see(&mut cluster, kind, &cordoned);
    assert_eq!((cluster.counts().assumed, cluster.counts().owed), (1, 1));
    lose(&mut cluster, Kind::Pod, &stranger);
    assert!(!cluster.look(&three).fits(), "who is owed a place comes first");
    assert_eq!(cluster.counts().owed, 0);
    lose(&mut cluster, Kind::Node, &node("n0", json!({})).1);
    assert_eq!(cluster.counts().owed, 1);
    cluster.forget(Uid::of("u"));
    assert_eq!((cluster.counts().assumed, cluster.counts().owed), (0, 0));
}

#[test]
fn large_pods_keep_their_room_while_small_ones_come_in_numbers() {
    let nodes: Vec<_> = (0..300).map(|number| node(&format!("n{number}"), json!({}))).collect();
    let mut cluster = cluster(&nodes);
    let mut told = |name: &str, pods: usize, cpu: &str| {
        let question = shared(json!({"cpu": cpu}));
        (0..pods).filter(|number| cluster.offer(Uid::of(&format!("{name}-{number}")), &question).fits()).count()
    };
    assert_eq!((told("large", 100, "4"), told("small", 1_000, "1")), (100, 800));
    assert_eq!(cluster.assumed.placeless(), 0);
}

#[test]
fn a_pod_that_is_created_keeps_its_place_though_it_fills_the_quota() {
    let quota = |used: &str| {
        let status = json!({"hard": {"pods": "1"}, "used": {"pods": used}});
        json!({"metadata": {"name": "q", "namespace": "n"}, "status": status})
    };
    let three = || shared(json!({"cpu": "3"}));
    let nodes = [node("n0", json!({})), node("n1", json!({}))];
    let waiting = json!({"metadata": {"name": "l", "namespace": "n", "uid": "l",
        "annotations": {"tensile.io/upper-uid": "u"}}, "spec": {}, "status": {"phase": "Pending"}});
    let (kind, stranger) = on("n0", "stranger", json!({}), requests(json!({"cpu": "2"})));

    let mut first = cluster(&nodes);
    see(&mut first, Kind::Quota, &quota("0"));
    assert!(first.offer(Uid::of("u"), &three()).fits());
    assert!(!first.look(&three()).fits(), "the quota is for one");
    see(&mut first, Kind::Pod, &waiting);
    see(&mut first, Kind::Quota, &quota("1"));
    see(&mut first, kind, &stranger);
    assert_eq!(first.assumed.placeless(), 0, "it moved to the other node");

    let mut later = cluster(&nodes);
    see(&mut later, Kind::Pod, &waiting);
    see(&mut later, Kind::Quota, &quota("1"));
    assert!(later.assume(Uid::of("u"), &three()), "it is created already when it is heard of");
    lose(&mut later, Kind::Pod, &waiting);
    later.forget(Uid::of("u"));
    assert!(!later.assume(Uid::of("v"), &three()), "another one is not");
}

/// A node in a zone.
fn zoned(name: &str, zone: &str, cpu: &str) -> (Kind, Value) {
    node(name, json!({"metadata": {"labels": {"zone": zone}}, "status": {"allocatable": {"cpu": cpu}}}))
}

/// Constraints of this kind over zones.
fn company(kind: &str, selector: &Value) -> Value {
    let term = json!({"topologyKey": "zone", "labelSelector": selector});
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

/// How many of six pods with one CPU and these constraints over zones are told of room when the first of those that were told
/// at once lands on this node.
fn told(nodes: &[(Kind, Value)], constraints: &Value, landing: &str) -> usize {
    let mut cluster = cluster(nodes);
    let mut spec = requests(json!({"cpu": "1"}));
    merge(&mut spec, constraints.clone());
    let question = Arc::new(question(json!({"app": "a"}), spec.clone()));
    let ask = |cluster: &mut Cluster, from: usize| {
        (from..6).take_while(|number| cluster.offer(Uid::of(&format!("u{number}")), &question).fits()).count()
    };
    let told = ask(&mut cluster, 0);
    let (kind, mut pod) = on(landing, "u0", json!({"app": "a"}), spec);
    pod["metadata"]["annotations"] = json!({"tensile.io/upper-uid": "u0"});
    see(&mut cluster, kind, &pod);
    told + ask(&mut cluster, told)
}

#[test]
fn pods_that_keep_apart_or_together_in_zones_are_told_of_no_room_that_another_has_to_take() {
    let own = json!({"matchLabels": {"app": "a"}});
    let three =
        |small: &str| [zoned("a", "a", small), zoned("b", "b", "4"), zoned("c", "c", "4"), zoned("d", "b", "4")];
    // Its place is in zone a: who has one in b has to go there.
    assert_eq!(told(&three("4"), &company("podAntiAffinity", &own), "d"), 3);
    let spread = json!({"topologySpreadConstraints":
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own}]});
    // Zone a takes one, so that the others take two each.
    assert_eq!(told(&three("1"), &spread, "b"), 5);
    // All were told of zone a, and have to follow to b.
    assert_eq!(told(&[zoned("a", "a", "4"), zoned("b", "b", "2")], &company("podAffinity", &own), "b"), 4);
}
