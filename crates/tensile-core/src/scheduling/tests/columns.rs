// SPDX-License-Identifier: Apache-2.0
//! Columns do not drift: whatever events come, and however often, the answers are those of a cluster built afresh.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tensile_testkit::fuzz::{Numbers, cases};
use tensile_testkit::lower_cluster;

use super::super::{Change, Cluster, Gain, Kind, Question, Uid, Unknown};
use super::scene::{cluster, lose, node, on, question, requests, see, shared};

/// Sequences of events that are tried.
const SEQUENCES: u64 = 150;
/// Events in each.
const EVENTS: usize = 80;

/// What the API server would show.
#[derive(Default)]
struct Server {
    objects: BTreeMap<(u8, String), (Kind, Value)>,
}

impl Server {
    fn key(kind: Kind, object: &Value) -> (u8, String) {
        (u8::from(kind == Kind::Pod), object["metadata"]["name"].as_str().unwrap().to_owned())
    }

    fn put(&mut self, kind: Kind, object: &Value) {
        self.objects.insert(Self::key(kind, object), (kind, object.clone()));
    }

    fn of(&self, kind: Kind) -> Vec<Value> {
        self.objects.values().filter(|(of, _)| *of == kind).map(|(_, object)| object.clone()).collect()
    }

    /// A cluster that only sees what there is now.
    fn afresh(&self) -> Cluster {
        cluster(&self.objects.values().cloned().collect::<Vec<_>>())
    }
}

fn pod(numbers: &mut Numbers, nodes: &[Value]) -> Value {
    let name = format!("pod-{}", numbers.below(12));
    let pod = lower_cluster::pod(numbers, &name, nodes);
    let mut pod = lower_cluster::bound(numbers, pod, nodes);
    pod["metadata"]["uid"] = json!(name);
    match numbers.below(10) {
        0 => drop(pod["spec"].as_object_mut().unwrap().remove("nodeName")),
        1 => {
            pod["status"]["nominatedNodeName"] = pod["spec"]["nodeName"].take();
        }
        _ => {}
    }
    pod
}

/// Whether each of some pods fits, and how often, if that does not depend on the order in which nodes are tried.
fn answers(cluster: &Cluster, questions: &[Question]) -> Vec<(bool, Option<u64>)> {
    let alone = |question: &Question| !question.wants_company() && question.shape.anti_affinity.is_empty();
    let answer = |question| {
        let capacity = alone(question).then(|| cluster.capacity(question, 7));
        (cluster.ask(question).fits(), capacity)
    };
    questions.iter().map(answer).collect()
}

#[test]
fn repeated_missed_and_late_events_leave_nothing_behind() {
    for seed in 0..cases(SEQUENCES) {
        let numbers = &mut Numbers::new(seed);
        let names = lower_cluster::nodes(numbers, "n", 6);
        let (mut server, mut followed) = (Server::default(), Cluster::default());
        for _ in 0..EVENTS {
            let (kind, object) = if numbers.one_in(4) {
                let number = numbers.below(names.len());
                let name = names[number]["metadata"]["name"].as_str().unwrap().to_owned();
                let mut node = lower_cluster::nodes(numbers, "x", 1).remove(0);
                node["metadata"]["name"] = json!(name);
                (Kind::Node, node)
            } else {
                (Kind::Pod, pod(numbers, &names))
            };
            match numbers.below(6) {
                // It goes, and the event comes once, twice, or not at all.
                0 => {
                    server.objects.remove(&Server::key(kind, &object));
                    for _ in 0..numbers.below(3) {
                        lose(&mut followed, kind, &object);
                    }
                }
                1 => server.put(kind, &object),
                _ => {
                    server.put(kind, &object);
                    for _ in 0..=numbers.below(2) {
                        see(&mut followed, kind, &object);
                    }
                }
            }
        }
        // A new list mends what was missed, also when events come while it is read.
        for kind in [Kind::Pod, Kind::Node] {
            followed.begin(kind);
            for object in server.of(kind) {
                see(&mut followed, kind, &object);
            }
            followed.end(kind);
        }
        let questions: Vec<Question> = (0..10)
            .map(|_| lower_cluster::pod(numbers, "new", &names))
            .map(|pod| Question::of_lower(&pod, Unknown::Deny).unwrap())
            .collect();
        let afresh = server.afresh();
        assert_eq!(followed.counts(), afresh.counts(), "seed {seed}");
        assert_eq!(answers(&followed, &questions), answers(&afresh, &questions), "seed {seed}");

        for kind in [Kind::Pod, Kind::Node] {
            followed.begin(kind);
            followed.end(kind);
        }
        let empty = Cluster::default();
        assert_eq!(followed.counts(), empty.counts());
        assert_eq!(followed.residue(), 0, "seed {seed}: something is left of objects that are gone");
    }
}

#[test]
fn gains_are_told() {
    let mut cluster = cluster(&[node("a", json!({}))]);
    let (_, a) = node("a", json!({}));
    let (_, pod) = on("a", "p", json!({}), requests(json!({"cpu": "1"})));
    assert_eq!(see(&mut cluster, Kind::Node, &a), Gain::None, "nothing changed");
    assert_eq!(see(&mut cluster, Kind::Pod, &pod), Gain::Company);
    assert_eq!(see(&mut cluster, Kind::Pod, &pod), Gain::None);
    let mut ended = pod.clone();
    ended["status"]["phase"] = json!("Succeeded");
    assert_eq!(see(&mut cluster, Kind::Pod, &ended), Gain::Room);
    assert_eq!(lose(&mut cluster, Kind::Pod, &pod), Gain::None, "it took nothing any more");
    let (_, roomier) = node("a", json!({"status": {"allocatable": {"cpu": "8"}}}));
    assert_eq!(see(&mut cluster, Kind::Node, &roomier), Gain::Room);
    assert_eq!(cluster.end(Kind::Pod), Gain::None, "a list that did not begin");
}

#[test]
fn a_pod_counts_on_a_node_that_becomes_known_later() {
    let mut cluster = cluster(&[on("a", "p", json!({}), requests(json!({"cpu": "3"})))]);
    let two = question(json!({}), requests(json!({"cpu": "2"})));
    assert!(!cluster.ask(&two).fits());
    let (kind, a) = node("a", json!({}));
    see(&mut cluster, kind, &a);
    assert!(!cluster.ask(&two).fits(), "three of four CPUs are taken");
    assert_eq!(cluster.capacity(&question(json!({}), requests(json!({"cpu": "500m"}))), 100), 2);
}

fn lower_pod(uid: &str, upper: &str, node: Option<&str>) -> Value {
    let (_, mut pod) = on(node.unwrap_or(""), uid, json!({}), requests(json!({"cpu": "2"})));
    pod["metadata"]["annotations"] = json!({"tensile.io/upper-uid": upper});
    pod
}

#[test]
fn an_assumed_pod_counts_until_its_lower_pod_does() {
    let mut cluster = cluster(&[node("a", json!({})), node("b", json!({}))]);
    let two = shared(json!({"cpu": "2"}));
    let room = |cluster: &Cluster| cluster.capacity(&two, 100);
    assert_eq!(room(&cluster), 4);
    for upper in ["u1", "u2", "u1"] {
        assert!(cluster.assume(Uid::of(upper), &two));
    }
    assert_eq!((room(&cluster), cluster.counts().assumed), (2, 2), "assuming twice counts once");

    see(&mut cluster, Kind::Pod, &lower_pod("l1", "u1", None));
    assert_eq!((room(&cluster), cluster.counts().assumed), (2, 2), "not bound yet: still assumed");
    see(&mut cluster, Kind::Pod, &lower_pod("l1", "u1", Some("b")));
    assert_eq!((room(&cluster), cluster.counts().assumed), (2, 1), "replaced, not added");
    assert!(cluster.assume(Uid::of("u1"), &two), "its lower pod is there");
    assert_eq!(cluster.counts().assumed, 1);

    assert_eq!(cluster.forget(Uid::of("u2")), Gain::Room);
    assert_eq!(cluster.forget(Uid::of("u2")), Gain::None);
    assert_eq!(room(&cluster), 3);
    lose(&mut cluster, Kind::Pod, &lower_pod("l1", "u1", Some("b")));
    assert_eq!(room(&cluster), 4);
}

#[test]
fn pods_that_come_to_other_nodes_than_they_were_counted_on_leave_no_room_behind() {
    let mut cluster = cluster(&[node("a", json!({})), node("b", json!({}))]);
    let two = shared(json!({"cpu": "2"}));
    for upper in ["u0", "u1", "u2", "u3"] {
        assert!(cluster.assume(Uid::of(upper), &two));
    }
    // Whichever node each was counted on, two come to each in the other order than they were.
    for (upper, node) in [("u3", "a"), ("u2", "a"), ("u1", "b"), ("u0", "b")] {
        see(&mut cluster, Kind::Pod, &lower_pod(upper, upper, Some(node)));
        assert!(!cluster.ask(&two).fits(), "after {upper} came to {node}");
    }
    assert_eq!((cluster.counts().assumed, cluster.capacity(&two, 9)), (0, 0));
}

#[test]
fn who_is_bound_beyond_what_fits_is_owed_a_place() {
    let mut cluster = cluster(&[node("a", json!({})), node("b", json!({}))]);
    let three = shared(json!({"cpu": "3"}));
    let assumed = (0..5).filter(|number| cluster.assume(Uid::of(&format!("u{number}")), &three)).count();
    assert_eq!(assumed, 2);
    assert_eq!((cluster.counts().assumed, cluster.counts().owed), (5, 3));
}

#[test]
fn a_finished_lower_pod_confirms_and_takes_nothing() {
    let mut cluster = cluster(&[node("a", json!({}))]);
    let two = shared(json!({"cpu": "2"}));
    cluster.assume(Uid::of("u"), &two);
    let mut ended = lower_pod("l", "u", Some("a"));
    ended["status"]["phase"] = json!("Failed");
    assert_eq!(see(&mut cluster, Kind::Pod, &ended), Gain::Room);
    assert_eq!((cluster.capacity(&two, 9), cluster.counts().assumed), (2, 0));
    assert!(cluster.assume(Uid::of("u"), &two));
    assert_eq!(cluster.counts().assumed, 0);
}

#[test]
fn objects_of_all_kinds_come_and_go() {
    let meta = json!({"metadata": {"name": "x", "namespace": "n", "uid": "x"}});
    let mut cluster = Cluster::default();
    for kind in Kind::ALL {
        let object = kind.decode(&meta.to_string()).unwrap();
        assert_eq!(object.kind(), kind);
        cluster.apply(Change::Seen(object.clone()));
        cluster.apply(Change::Seen(object.clone()));
        cluster.apply(Change::Gone(object.clone()));
        cluster.apply(Change::Seen(object));
        cluster.begin(kind);
        cluster.end(kind);
    }
    assert_eq!(cluster.residue(), 0);
}
