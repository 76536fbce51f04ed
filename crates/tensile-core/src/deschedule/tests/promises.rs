// SPDX-License-Identifier: Apache-2.0
//! What holds of every plan, told without the words of the code that makes it.

use proptest::prelude::*;

use proptest::strategy::Strategy;

use super::*;

#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "chance knows no order")]
struct Draw {
    owner: usize,
    node: usize,
    since: i64,
    ending: bool,
    index: bool,
    pinned: bool,
    bound: bool,
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let one = (0..4_usize, 0..4_usize, -4000..0_i64, any::<bool>(), any::<bool>(), 0..8_u8, 0..8_u8).prop_map(
        |(owner, node, since, ending, index, pinned, bound)| Draw {
            owner,
            node,
            since,
            ending: ending && index,
            index,
            pinned: pinned == 0,
            bound: bound != 0,
        },
    );
    prop::collection::vec(one, 0..12)
}

const NODES: [&str; 4] = ["a", "b", "c", "d"];

fn pod(number: usize, draw: &Draw) -> Value {
    let mut pod = stuck(&format!("p{number}"), &format!("o{}", draw.owner), NODES[draw.node], draw.since);
    if draw.ending {
        pod["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
        let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}));
    }
    if draw.index {
        pod["metadata"]["labels"] = json!({"apps.kubernetes.io/pod-index": (number % 2).to_string()});
    }
    if draw.pinned {
        pod["spec"]["nodeSelector"] = json!({"clusterID": NODES[draw.node]});
    }
    if !draw.bound {
        pod["spec"]["nodeName"] = Value::Null;
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "lastTransitionTime": at(draw.since).to_string()}]);
    }
    pod
}

fn worlds() -> impl Strategy<Value = Seen> {
    let record = prop::collection::btree_map(0..4_usize, (-4000..0_i64, 1..5_u32), 0..4);
    let records = prop::collection::btree_map((0..4_usize, prop::option::of(0..2_u8)), record, 0..6);
    let nodes = prop::collection::vec(any::<bool>(), 4);
    (draws(), records, nodes, prop::collection::btree_set(0..12_usize, 0..2)).prop_map(
        |(draws, records, nodes, asked)| {
            let names: Vec<&str> = NODES.iter().zip(&nodes).filter(|(_, on)| **on).map(|(name, _)| *name).collect();
            let pods: Vec<Value> = draws.iter().enumerate().map(|(number, draw)| pod(number, draw)).collect();
            let mut seen = Seen::of(&names, &pods);
            for ((owner, index), nodes) in records {
                let key = index.map_or(format!("owner.o{owner}"), |index| format!("owner.o{owner}.{index}"));
                let exclusions: Vec<Exclusion> =
                    nodes.iter().map(|(node, (since, attempts))| exclusion(NODES[*node], *since, *attempts)).collect();
                seen = seen.excluded(&key, &exclusions);
            }
            seen.asked = asked.iter().map(|number| format!("p{number}").into()).collect();
            seen
        },
    )
}

/// The nodes that the record of some key of this pod names with an end after `now`.
fn avoided<'a>(records: &'a BTreeMap<String, Record>, pod: &Pod, now: Timestamp) -> BTreeSet<&'a str> {
    let owner = &pod.owner.as_ref().unwrap().uid;
    let keys = [Some(format!("owner.{owner}")), pod.index.as_ref().map(|index| format!("owner.{owner}.{index}"))];
    let records = keys.into_iter().flatten().filter_map(|key| records.get(&key));
    records.flat_map(|record| &record.nodes).filter(|e| e.until > now).map(|e| e.node.as_str()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_evicted_off_a_node_without_an_exclusion_that_was_seen(seen in worlds()) {
        for eviction in seen.plan(0).evict {
            let pod = &seen.pods[&eviction.pod];
            if let Some(node) = &pod.node {
                prop_assert!(avoided(&seen.records, pod, at(0)).contains(&**node), "{:?}", eviction);
            } else {
                prop_assert_eq!(&eviction.cause, &Cause::Outlived);
            }
        }
    }

    #[test]
    fn never_more_than_one_pod_of_an_owner_is_on_its_way(seen in worlds()) {
        let plan = seen.plan(0);
        let ending = seen.pods.values().filter(|pod| pod.deleting && pod.evicted);
        let asked = seen.asked.iter().filter_map(|uid| seen.pods.get(uid));
        let before: BTreeSet<_> = ending.chain(asked).map(|pod| pod.owner.as_ref().unwrap().uid.clone()).collect();
        let mut moved = BTreeSet::new();
        for eviction in &plan.evict {
            let owner = seen.pods[&eviction.pod].owner.as_ref().unwrap().uid.clone();
            prop_assert!(!before.contains(&owner), "{} has one already", owner);
            prop_assert!(moved.insert(owner), "two at once");
        }
    }

    #[test]
    fn an_exclusion_never_leaves_a_pod_without_any_node(seen in worlds()) {
        for exclude in seen.plan(0).exclude {
            let pod = &seen.pods[&exclude.pod];
            let mut records = seen.records.clone();
            records.insert(exclude.key, exclude.record);
            let avoided = avoided(&records, pod, at(0));
            let selects = |name: &str| !matches!(&pod.node, Some(node) if pinned(&seen, pod) && **node != *name);
            let left = seen.nodes.keys().filter(|name| selects(name) && !avoided.contains(&***name));
            prop_assert!(left.count() > 0, "{:?} {:?}", pod, records);
        }
    }

    #[test]
    fn the_next_plan_after_an_exclusion_evicts_or_waits_and_never_excludes_again(seen in worlds()) {
        let first = seen.plan(0);
        let mut next = seen.clone();
        for exclude in &first.exclude {
            next.records.insert(exclude.key.clone(), exclude.record.clone());
        }
        let second = next.plan(0);
        for exclude in &first.exclude {
            let again = second.exclude.iter().any(|other| other.key == exclude.key && other.pod == exclude.pod);
            prop_assert!(!again, "{:?}", exclude);
        }
    }
}

fn pinned(seen: &Seen, pod: &Pod) -> bool {
    let here = pod.node.as_deref().unwrap_or_default();
    seen.nodes.iter().any(|(name, node)| **name != *here && !pod.may_go_to(name, node, false))
}
