// SPDX-License-Identifier: Apache-2.0
//! Worlds in which exclusions are not enforced yet, pods without a controller, what is told about a pod, and damage.

use tensile_testkit::fuzz::{Numbers, cases, damage_json};

use super::*;

#[test]
fn nothing_is_moved_before_it_is_known_that_exclusions_are_enforced() {
    let canary: Exclusion = Exclusion { node: "tensile-canary".to_owned(), ..exclusion("", 600, 1) };
    let seen = |guard: Guard| Seen {
        guard: Some(guard),
        ..Seen::of(&["a", "b"], &[stuck("p", "o", "a", -60)])
            .excluded("owner.o", &[exclusion("a", -5, 1)])
            .excluded("owner.tensile-canary", std::slice::from_ref(&canary))
    };
    let unknown = seen(Guard::default()).plan(0);
    assert_eq!((evicted(&unknown), held(&unknown), unknown.canary), (vec![], vec![], true));
    let mut guard = Guard::default();
    guard.answered(Err("no webhook".to_owned()), at(-10));
    let missing = seen(guard.clone()).plan(0);
    assert_eq!((evicted(&missing), held(&missing)), (vec![], vec![("p", &Why::NobodyEnforces("no webhook".into()))]));
    guard.answered(Ok(()), at(-1));
    assert_eq!(evicted(&seen(guard).plan(0)), ["p"]);
}

#[test]
fn a_pod_without_a_controller_is_made_again_where_the_policy_says_so() {
    let mut policy = policy();
    policy.protections.recreate = true;
    let bare =
        |more: &Value| with(with(stuck("p", "o", "a", -60), &json!({"metadata": {"ownerReferences": null}})), more);
    let mut seen = Seen::of(&["a", "b"], &[bare(&json!({}))]);
    // We keep it off the node ourselves: nobody else need enforce it.
    seen.guard = Some(Guard::default());
    let first = seen.plan_by(&policy, 0);
    assert_eq!(
        first.exclude.iter().map(|one| one.key.as_str()).collect::<Vec<_>>(),
        ["owner.tensile-canary", "pod.n.pod-p"]
    );
    let seen = seen.excluded("pod.n.pod-p", &[exclusion("a", 0, 1)]);
    let second = seen.plan_by(&policy, 0);
    assert_eq!((evicted(&second), second.recreate.len()), (vec![], 1));
    let moving = Seen { moves: ["p".into()].into(), ..seen.clone() };
    assert!(moving.plan_by(&policy, 0).recreate.is_empty());
    for (more, why) in [
        (json!({"status": {"startTime": at(-5).to_string()}}), None),
        (
            json!({"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]}}),
            Some("pods with a persistent volume claim"),
        ),
        (json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}), Some("")),
    ] {
        let seen = Seen { pods: Seen::of(&[], &[bare(&more)]).pods, ..seen.clone() };
        let plan = seen.plan_by(&policy, 0);
        assert!(plan.recreate.is_empty(), "{more}");
        let expected = why.map(|why| if why.is_empty() { Why::NoController } else { Why::Protected(why) });
        assert_eq!(held(&plan), expected.iter().map(|why| ("p", why)).collect::<Vec<_>>(), "{more}");
    }
}

#[test]
fn a_finalizer_of_a_move_that_is_over_goes() {
    let kept = |uid: &str, more: &Value| {
        with(with(stuck(uid, "o", "a", -60), &json!({"metadata": {"finalizers": ["tensile.io/move"]}})), more)
    };
    let successor = kept("q", &json!({"metadata": {"annotations": {"tensile.io/origin-uid": "p"}}}));
    let mut seen = Seen::of(&["a", "b"], &[kept("p", &json!({})), successor]);
    assert_eq!(seen.plan(0).release, ["p", "q"].map(Arc::<str>::from));
    seen.moves.insert("p".into());
    let plan = seen.plan(0);
    assert_eq!((plan.release, plan.exclude), (vec![], vec![]));
}

#[test]
fn what_is_done_about_a_pod_is_told_in_one_word_and_a_sentence() {
    let told = |seen: &Seen, now: i64| {
        let (policy, guard) = (policy(), Guard::off());
        let world = seen.world(&guard);
        let plan = plan(&world, &policy, &mut no_limits(), at(now));
        let told = explain(&world, &policy, &plan, &seen.pods["p"], at(now));
        (told.verdict, told.reason, told.found.first().map(|finding| finding.from))
    };
    let seen = Seen::of(&["a", "b"], &[stuck("p", "o", "a", -60), stuck("q", "o", "a", -70)]);
    assert_eq!(told(&seen, -55), ("wait", "Patience", Some(at(-50))));
    assert_eq!(told(&seen, 0), ("wait", "Limited", Some(at(-50))), "the other is first");
    let alone = Seen::of(&["a", "b"], &[stuck("p", "o", "a", -60)]);
    assert_eq!(told(&alone, 0), ("exclude", "Excluded", Some(at(-50))));
    assert_eq!(told(&alone.clone().excluded("owner.o", &[exclusion("a", -5, 1)]), 0).0, "evict");
    assert_eq!(told(&Seen::of(&["a"], &[stuck("p", "o", "a", -60)]), 0).1, "NowhereElse");
    assert_eq!(told(&Seen { asked: ["p".into()].into(), ..alone }, 0).1, "Asked");
}

#[test]
fn fuzz_of_damaged_pods_nodes_and_exclusions() {
    let words = [
        "metadata",
        "spec",
        "status",
        "annotations",
        "finalizers",
        "tensile.io/move",
        "tensile.io/origin-uid",
        "p",
        "conditions",
        "lastTransitionTime",
        "9999-12-31T23:59:59Z",
        "-009999-01-01T00:00:00Z",
        "False",
        "Unschedulable",
        "until",
        "node",
        "a",
        "nodes",
        "attempts",
        "matchFields",
        "nodeSelectorTerms",
        "deletionTimestamp",
        "ownerReferences",
        "taints",
        "effect",
    ];
    let record = json!({"version": 1, "nodes": [{"node": "a", "until": at(250).to_string(), "attempts": 1}]});
    for seed in 0..cases(5_000) {
        let mut numbers = Numbers::new(seed);
        let pods: Vec<Value> = (0..3)
            .map(|number| {
                let owner = format!("o{}", number % 2);
                let mut pod = stuck(&format!("p{number}"), &owner, ["a", "b"][number % 2], -60);
                pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["c"]}]}]}}});
                damage_json(&mut pod, &mut numbers, &words);
                pod
            })
            .filter(|pod| Pod::read(pod).is_some())
            .collect();
        let mut seen = Seen::of(&["a", "b", "c"], &pods);
        let mut node = json!({"metadata": {"labels": {"clusterID": "b"}}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(-900).to_string()}]}});
        damage_json(&mut node, &mut numbers, &words);
        seen.nodes.insert("b".into(), VirtualNode::read(&node));
        for key in ["owner.o0", "owner.o1", "pod.n.pod-p0"] {
            let mut record = record.clone();
            damage_json(&mut record, &mut numbers, &words);
            if let Ok((record, _)) = Record::decode(&record.to_string()) {
                seen.records.insert(key.to_owned(), record);
            }
        }
        let mut policy = policy();
        policy.protections.recreate = numbers.one_in(2);
        let (guard, mut buckets) = (Guard::off(), no_limits());
        let world = seen.world(&guard);
        let plan = plan(&world, &policy, &mut buckets, at(0));
        for pod in seen.pods.values() {
            explain(&world, &policy, &plan, pod, at(0));
        }
        // Nothing goes off a node without an exclusion, however it is written.
        for eviction in plan.evict.iter().chain(&plan.recreate) {
            let pod = &seen.pods[&eviction.pod];
            let excluded =
                |node: &str| seen.records.values().any(|record| record.nodes_at(at(0)).any(|one| one == node));
            assert!(pod.node.as_deref().is_none_or(excluded), "{pod:?}");
        }
    }
}
