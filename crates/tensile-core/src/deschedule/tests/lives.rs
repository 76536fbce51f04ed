// SPDX-License-Identifier: Apache-2.0
//! Whole lives: controllers, schedulers and a descheduler that is killed anywhere, in a small model.

use proptest::prelude::*;

use super::*;

/// Clusters with so many places, and controllers whose pods a scheduler binds to any node that is not avoided.
struct Model {
    places: BTreeMap<&'static str, usize>,
    seen: Seen,
    replicas: BTreeMap<String, usize>,
    made: usize,
}

impl Model {
    fn new(replicas: &[usize]) -> Self {
        let replicas: BTreeMap<String, usize> =
            replicas.iter().enumerate().map(|(n, count)| (format!("o{n}"), *count)).collect();
        let all = replicas.values().sum();
        Self { places: [("a", 0), ("b", all)].into(), seen: Seen::of(&["a", "b"], &[]), replicas, made: 0 }
    }

    /// Controllers make what is missing; each new pod goes to the worst node it may go to.
    fn controllers(&mut self, now: i64) {
        for (owner, count) in &self.replicas {
            let there = self.seen.pods.values().filter(|pod| *pod.owner.as_ref().unwrap().uid == **owner).count();
            for _ in there..*count {
                self.made += 1;
                let record = self.seen.records.get(&format!("owner.{owner}"));
                let avoided = |node: &str| {
                    record.is_some_and(|record| record.nodes.iter().any(|e| e.node == node && e.until > at(now)))
                };
                let node = ["a", "b"].into_iter().find(|node| !avoided(node)).expect("some node is left");
                let uid = format!("p{:05}", self.made);
                let mut pod = stuck(&uid, owner, node, now);
                if self.places[node] > 0 {
                    pod["status"] = json!({"phase": "Running", "startTime": at(now).to_string()});
                }
                self.seen.pods.insert(uid.into(), Box::new(Pod::read(&pod).unwrap()));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// `kills`: before which write of a cycle it dies, for each cycle; what it had planned is lost.
    #[test]
    fn killed_anywhere_every_owner_ends_with_its_replicas_where_there_is_room(
        replicas in prop::collection::vec(1..6_usize, 1..4),
        kills in prop::collection::vec(prop::option::of(0..4_usize), 0..40),
    ) {
        let mut model = Model::new(&replicas);
        let mut kills = kills.into_iter();
        for cycle in 0..400 {
            let now = cycle * 5;
            model.controllers(now);
            let mut writes = kills.next().flatten().unwrap_or(usize::MAX);
            let mut may_write = || { let may = writes > 0; writes = writes.saturating_sub(1); may };
            let plan = model.seen.plan(now);
            for exclude in plan.exclude {
                if may_write() {
                    model.seen.records.insert(exclude.key, exclude.record);
                }
            }
            for eviction in plan.evict {
                if may_write() {
                    model.seen.pods.remove(&eviction.pod);
                }
            }
        }
        model.controllers(2000);
        let wanted: usize = replicas.iter().sum();
        let there: Vec<(&str, bool)> =
            model.seen.pods.values().map(|pod| (pod.node.as_deref().unwrap(), pod.started)).collect();
        prop_assert_eq!(there, vec![("b", true); wanted]);
        // One pod each was made in vain at most, and its one successor.
        prop_assert!(model.made <= 2 * wanted, "{} were made for {}", model.made, wanted);
    }
}
