// SPDX-License-Identifier: Apache-2.0
//! Nodes that are too full, and nodes that are nearly empty.

use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use super::super::Strategy;
use super::*;

/// A node with so many CPUs and places for pods.
fn node(name: &str, cpu: i64, pods: i64) -> (Arc<str>, VirtualNode) {
    let read = VirtualNode::read(&json!({
        "metadata": {"labels": {"clusterID": name}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": pods.to_string()}},
    }));
    (name.into(), read)
}

/// A pod that runs there.
fn running(uid: &str, owner: &str, node: &str, cpu: i64) -> Value {
    let change = json!({
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu.to_string()}}}]},
        "status": {"phase": "Running", "startTime": at(-600).to_string(),
            "conditions": [{"type": "Ready", "status": "True"}]},
    });
    with(stuck(uid, owner, node, -600), &change)
}

fn low(low: u32, high: u32) -> Plugin {
    let levels = |percent| [("cpu".into(), percent)].into();
    Plugin::LowNodeUtilization { low: levels(low), high: levels(high), deviation: false, nodes: 0 }
}

fn high(low: u32) -> Plugin {
    Plugin::HighNodeUtilization { low: [("cpu".into(), low)].into(), nodes: 0 }
}

fn only(plugin: Plugin) -> Policy {
    let profile = "balance".to_owned();
    Policy { strategies: vec![Strategy { profile, namespaces: Namespaces::default(), plugin }], ..policy() }
}

/// The pods that a plan excludes the owners of.
fn chosen(plan: &Plan) -> Vec<&str> {
    plan.exclude.iter().map(|one| &*one.pod).collect()
}

/// So many pods of one CPU each on each of these nodes of 10, each of an owner of its own, and the others empty.
fn fleet(counts: &[(&str, usize)]) -> Seen {
    let pods = counts.iter().flat_map(|(name, count)| {
        (0..*count).map(move |n| running(&format!("{name}{n:02}"), &format!("o-{name}{n}"), name, 1))
    });
    let mut seen = Seen::of(&[], &pods.collect::<Vec<_>>());
    seen.nodes = counts.iter().map(|(name, _)| node(name, 10, 100)).collect();
    seen
}

#[test]
fn pods_leave_a_full_node_until_it_is_full_no_more_while_there_is_a_nearly_empty_one() {
    let moved = |counts: &[(&str, usize)], plugin: Plugin| chosen(&fleet(counts).plan_by(&only(plugin), 0)).len();
    for (counts, plugin, expected) in [
        (vec![("a", 9), ("b", 0)], low(20, 50), 4),
        // At the level it is not above it.
        (vec![("a", 5), ("b", 0)], low(20, 50), 0),
        // Nobody is nearly empty.
        (vec![("a", 9), ("b", 2)], low(20, 50), 0),
        // What is nearly empty is not made full.
        (vec![("a", 10), ("b", 10), ("c", 1)], low(20, 50), 4),
        (vec![("a", 10), ("b", 10), ("c", 1), ("d", 0)], low(20, 50), 9),
        (vec![("a", 9), ("b", 0)], low(0, 50), 0),
    ] {
        assert_eq!(moved(&counts, plugin.clone()), expected, "{counts:?} {plugin:?}");
    }
    let Plugin::LowNodeUtilization { low: below, high: above, .. } = low(10, 10) else { unreachable!() };
    let around = Plugin::LowNodeUtilization { low: below, high: above, deviation: true, nodes: 0 };
    // The mean is 40 percent: 30 is not below 30, 50 not above 50, 100 is.
    assert_eq!(moved(&[("a", 10), ("b", 3), ("c", 1), ("d", 2)], around.clone()), 5);
    assert_eq!(moved(&[("a", 5), ("b", 3)], around), 0);
}

#[test]
fn nearly_empty_nodes_are_emptied_as_far_as_the_others_have_room() {
    let moved = |counts: &[(&str, usize)]| {
        let plan = fleet(counts).plan_by(&only(high(20)), 0);
        chosen(&plan).iter().map(|uid| uid[..1].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(moved(&[("a", 5), ("b", 1)]), ["b"]);
    assert_eq!(moved(&[("a", 9), ("b", 1), ("c", 1)]).len(), 1, "there is room for one");
    assert_eq!(moved(&[("a", 10), ("b", 1)]), Vec::<String>::new());
    assert_eq!(moved(&[("a", 1), ("b", 1)]), Vec::<String>::new(), "all are");
    assert_eq!(moved(&[("a", 5), ("b", 2)]), Vec::<String>::new(), "none is");
}

#[test]
fn what_may_not_move_is_passed_over_for_what_may() {
    let mut seen = fleet(&[("a", 9), ("b", 0)]);
    let change = |seen: &mut Seen, uid: &str, change: &Value| {
        let pod = Pod::read(&with(running(uid, &format!("o-{uid}"), "a", 1), change)).unwrap();
        seen.pods.insert(uid.into(), Box::new(pod));
    };
    change(&mut seen, "a00", &json!({"spec": {"priority": 2_000_000_000}}));
    change(&mut seen, "a01", &json!({"spec": {"nodeSelector": {"clusterID": "a"}}}));
    change(&mut seen, "a02", &json!({"metadata": {"ownerReferences": null}}));
    change(&mut seen, "a03", &json!({"spec": {"priority": 5}}));
    change(&mut seen, "a04", &json!({"spec": {"containers": [{"name": "c", "resources": null}]}}));
    let plan = seen.plan_by(&only(low(20, 50)), 0);
    // One of them takes nothing, so three are too many.
    assert_eq!((chosen(&plan), held(&plan)), (vec!["a05", "a06", "a07"], vec![]));
    let mut excluded = seen.clone().excluded("owner.o-a5", &[exclusion("b", -5, 1)]);
    assert_eq!(chosen(&excluded.plan_by(&only(low(20, 50)), 0)), ["a06", "a07", "a08"], "b had no room for it");
    excluded.nodes.get_mut("b").unwrap().cordoned = true;
    assert_eq!(chosen(&excluded.plan_by(&only(low(20, 50)), 0)), Vec::<&str>::new());
}

#[test]
fn what_is_under_way_is_not_done_twice() {
    let seen = fleet(&[("a", 9), ("b", 0)]);
    let first = seen.plan_by(&only(low(20, 50)), 0);
    assert_eq!(chosen(&first), ["a00", "a01", "a02", "a03"]);
    let mut next = seen;
    for exclude in first.exclude {
        next.records.insert(exclude.key, exclude.record);
    }
    let second = next.plan_by(&only(low(20, 50)), 0);
    assert_eq!((evicted(&second), second.exclude.len()), (vec!["a00", "a01", "a02", "a03"], 0));
    next.asked = ["a00", "a01", "a02", "a03"].map(Arc::from).into();
    let third = next.plan_by(&only(low(20, 50)), 0);
    assert_eq!((evicted(&third), third.exclude.len()), (vec![], 0));
}

#[derive(Debug, Clone)]
struct Fleet {
    counts: Vec<usize>,
    owners: usize,
    plugin: Plugin,
}

fn fleets() -> impl proptest::strategy::Strategy<Value = Fleet> {
    let plugins = prop_oneof![
        (1..40_u32, 0..60_u32).prop_map(|(below, more)| low(below, (below + more).min(100))),
        (1..80_u32).prop_map(high),
    ];
    (prop::collection::vec(0..12_usize, 2..5), 1..6_usize, plugins).prop_map(|(counts, owners, plugin)| Fleet {
        counts,
        owners,
        plugin,
    })
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Controllers make again what is evicted, and a scheduler binds that to the emptiest node that it may go to, or, to
    /// empty nodes, to the fullest with room. Nothing is moved for ever, no owner ever lacks more than one pod, and a node that
    /// was moved off for its fullness is as full as the policy allows.
    #[test]
    fn it_comes_to_rest_and_overshoots_nothing(fleet in fleets()) {
        let policy = only(fleet.plugin.clone());
        let packs = matches!(fleet.plugin, Plugin::HighNodeUtilization { .. });
        let nodes = &NAMES[..fleet.counts.len()];
        let mut seen = Seen::of(&[], &[]);
        seen.nodes = nodes.iter().map(|name| node(name, 10, 100)).collect();
        let all: usize = fleet.counts.iter().sum();
        let mut made = 0;
        let mut make = |seen: &mut Seen, owner: &str, node: &str, now: i64| {
            made += 1;
            let mut pod = running(&format!("p{made:05}"), owner, node, 1);
            pod["metadata"]["creationTimestamp"] = json!(at(now).to_string());
            let pod = Pod::read(&pod).unwrap();
            seen.pods.insert(pod.uid.clone(), Box::new(pod));
            made
        };
        for (name, count) in nodes.iter().zip(&fleet.counts) {
            for n in 0..*count {
                make(&mut seen, &format!("o{}", n % fleet.owners), name, -600);
            }
        }
        let on = |seen: &Seen, node: &str| seen.pods.values().filter(|pod| pod.node.as_deref() == Some(node)).count();
        let mut quiet = 0;
        for round in 0..400 {
            let now = round * 2;
            let plan = seen.plan_by(&policy, now);
            quiet = if plan.exclude.is_empty() && plan.evict.is_empty() { quiet + 1 } else { 0 };
            for exclude in plan.exclude {
                seen.records.insert(exclude.key, exclude.record);
            }
            let mut busy = BTreeSet::new();
            for eviction in plan.evict {
                let pod = seen.pods.remove(&eviction.pod).unwrap();
                let owner = pod.owner.as_ref().unwrap().uid.clone();
                prop_assert!(busy.insert(owner.clone()), "two of {} at once", owner);
                let record = &seen.records[&format!("owner.{owner}")];
                let avoided: Vec<&str> = record.nodes_at(at(now)).collect();
                let free = nodes.iter().filter(|name| !avoided.contains(name));
                let fullness = |name: &&&str| on(&seen, name);
                let next = if packs {
                    free.filter(|name| on(&seen, name) < 10).max_by_key(fullness)
                } else {
                    free.min_by_key(fullness)
                };
                let back = pod.node.as_deref().unwrap();
                make(&mut seen, &owner, next.copied().unwrap_or(back), now);
            }
        }
        prop_assert_eq!(seen.pods.len(), all);
        prop_assert!(quiet > 0, "it never comes to rest: {:?}", nodes.iter().map(|name| on(&seen, name)).collect::<Vec<_>>());
        if let Plugin::LowNodeUtilization { high, .. } = &fleet.plugin {
            let target = usize::try_from(high[&"cpu".into()]).unwrap() / 10;
            for (name, before) in nodes.iter().zip(&fleet.counts) {
                // It gives no more than it has above the target.
                prop_assert!(on(&seen, name) >= (*before).min(target), "{} had {} and has {}", name, before, on(&seen, name));
            }
        }
    }
}
