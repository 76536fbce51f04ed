// SPDX-License-Identifier: Apache-2.0
//! Single worlds, and what is done in them.

use super::*;

fn of_job(pod: Value) -> Value {
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "o", "controller": true});
    with(pod, &json!({"metadata": {"ownerReferences": [owner]}}))
}

#[test]
fn a_stuck_pod_is_first_excluded_then_evicted() {
    let seen = Seen::of(&["a", "b"], &[stuck("p", "o", "a", -10)]);
    let first = seen.plan(0);
    assert_eq!((evicted(&first), first.exclude.len()), (vec![], 1));
    let (key, record) = (&first.exclude[0].key, &first.exclude[0].record);
    assert_eq!((key.as_str(), &record.nodes[..]), ("owner.o", &[exclusion("a", 0, 1)][..]));

    let second = seen.excluded("owner.o", &record.nodes).plan(0);
    assert_eq!((evicted(&second), second.exclude.len()), (vec!["p"], 0));
    let Cause::Found { node, plugin, reason, .. } = &second.evict[0].cause else { panic!("{second:?}") };
    assert_eq!((&**node, *plugin), ("a", "RemovePodsUnschedulableBelow"));
    assert!(reason.contains("0/3 nodes are available"), "{reason}");
}

#[test]
fn patience_counts_from_when_the_scheduler_gave_up() {
    let seen = Seen::of(&["a", "b"], &[stuck("p", "o", "a", -9)]);
    let plan = seen.plan(0);
    assert_eq!((plan.exclude.len(), plan.again), (0, Some(at(1))));
}

#[test]
fn one_pod_of_an_owner_is_moved_at_a_time() {
    let pods = [stuck("p", "o", "a", -20), stuck("q", "o", "a", -30), stuck("r", "other", "a", -10)];
    let seen = Seen::of(&["a", "b"], &pods)
        .excluded("owner.o", &[exclusion("a", -5, 1)])
        .excluded("owner.other", &[exclusion("a", -5, 1)]);
    assert_eq!(evicted(&seen.plan(0)), ["q", "r"]);

    let mut ending = pods.clone();
    ending[1]["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
    let conditions = ending[1]["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}));
    let seen = Seen { pods: Seen::of(&[], &ending).pods, ..seen };
    assert_eq!(evicted(&seen.plan(0)), ["r"]);

    let asked = Seen { asked: ["r".into()].into(), ..seen };
    assert_eq!(evicted(&asked.plan(0)), Vec::<&str>::new());
}

#[test]
fn what_would_not_come_again_or_is_protected_stays() {
    let owner = |kind: &str| json!([{"apiVersion": "v1", "kind": kind, "name": "x", "uid": "o", "controller": true}]);
    let claim = json!({"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]}});
    for (change, why) in [
        (json!({"metadata": {"ownerReferences": null}}), Why::NoController),
        (
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "o"}]}}),
            Why::NoController,
        ),
        (json!({"metadata": {"ownerReferences": owner("DaemonSet")}}), Why::Protected("pods of a DaemonSet")),
        (json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}), Why::Protected("mirror pods")),
        (json!({"spec": {"priority": 2_000_000_000}}), Why::Protected("pods of its priority")),
        (claim, Why::Protected("pods with a persistent volume claim")),
        (json!({"spec": {"nodeSelector": {"clusterID": "a"}}}), Why::NowhereElse),
    ] {
        let seen = Seen::of(&["a", "b"], &[with(stuck("p", "o", "a", -60), &change)]);
        let plan = seen.plan(0);
        assert_eq!((held(&plan), plan.exclude.len()), (vec![("p", &why)], 0), "{change}");
    }
}

#[test]
fn a_pod_with_a_claim_moves_if_the_policy_says_so_unless_its_successor_has_the_same_claim() {
    let claim = json!({"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]}});
    let mut policy = policy();
    policy.protections.claims = false;
    for (kind, moved) in [("ReplicaSet", 1), ("StatefulSet", 0)] {
        let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "o", "controller": true}]);
        let change = with(claim.clone(), &json!({"metadata": {"ownerReferences": owner}}));
        let plan = Seen::of(&["a", "b"], &[with(stuck("p", "o", "a", -60), &change)]).plan_by(&policy, 0);
        assert_eq!((plan.exclude.len(), plan.held.len()), (moved, 1 - moved), "{kind}");
    }
}

#[test]
fn a_taint_or_a_missing_toleration_is_no_place_to_go() {
    let mut seen = Seen::of(&["a", "b"], &[stuck("p", "o", "a", -60)]);
    let cordon = VirtualNode::read(&json!({
        "spec": {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }));
    seen.nodes.insert("b".into(), cordon);
    assert_eq!(held(&seen.plan(0)), [("p", &Why::NowhereElse)]);
    let away = json!({"status": {"conditions": [
        {"type": "Ready", "status": "Unknown", "lastTransitionTime": at(-40).to_string()}]}});
    seen.nodes.insert("b".into(), VirtualNode::read(&away));
    assert_eq!(held(&seen.plan(0)), [("p", &Why::NowhereElse)]);
    seen.nodes.extend([ready("b")]);
    assert_eq!(seen.plan(0).exclude.len(), 1);
}

#[test]
fn a_node_that_disappoints_again_is_avoided_for_twice_as_long_up_to_an_hour() {
    let pods = [stuck("p", "o", "a", -60)];
    for (attempts, ended, lasts) in [(1, -10, 600), (2, -10, 1200), (4, -10, 3600), (5, -10, 3600), (1, -3601, 300)] {
        let mut before = exclusion("a", 0, attempts);
        before.until = at(ended);
        let seen = Seen::of(&["a", "b"], &pods).excluded("owner.o", &[before]);
        let plan = seen.plan(0);
        assert_eq!(plan.exclude[0].record.nodes[0].until, at(lasts), "{attempts}");
    }
}

#[test]
fn when_all_others_are_excluded_the_oldest_exclusion_ends() {
    let seen = Seen::of(&["a", "b", "c"], &[stuck("p", "o", "a", -60)])
        .excluded("owner.o", &[exclusion("c", -100, 1), exclusion("b", -200, 1)]);
    let record = seen.plan(0).exclude[0].record.clone();
    let live: Vec<&str> = record.nodes_at(at(0)).collect();
    assert_eq!(live, ["c", "a"]);
}

#[test]
fn an_exclusion_that_another_record_has_too_is_not_what_ends() {
    let index = json!({"metadata": {"labels": {"apps.kubernetes.io/pod-index": "0"}}});
    let seen = Seen::of(&["a", "b", "c"], &[with(stuck("p", "o", "a", -60), &index)])
        .excluded("owner.o", &[exclusion("b", -200, 1)])
        .excluded("owner.o.0", &[exclusion("b", -200, 1), exclusion("c", -100, 1)]);
    let record = seen.plan(0).exclude[0].record.clone();
    let live: Vec<&str> = record.nodes_at(at(0)).collect();
    assert_eq!(live, ["b", "a"]);
}

#[test]
fn the_exclusion_that_a_pod_bears_is_no_constraint_of_its_author() {
    let not = |node: &str| json!({"key": "metadata.name", "operator": "NotIn", "values": [node]});
    let terms = |terms: Value| {
        json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": terms}}}}})
    };
    let only_b = json!([{"key": "clusterID", "operator": "In", "values": ["b"]}]);
    for (given, moved) in [
        (json!([{"matchFields": [not("a")]}]), true),
        (json!([{"matchFields": [not("a"), not("c")]}]), true),
        (json!([{"matchFields": [not("a")], "matchExpressions": only_b}]), false),
    ] {
        let seen = Seen::of(&["a", "b"], &[with(stuck("p", "o", "b", -60), &terms(given.clone()))]);
        assert_eq!(held(&seen.plan(0)), [("p", &Why::NowhereElse)], "its author said so: {given}");
        let plan = seen.excluded("owner.o", &[exclusion("a", -62, 1)]).plan(0);
        assert_eq!(plan.exclude.len(), usize::from(moved), "{given}");
    }
}

#[test]
fn an_owner_that_was_moved_too_often_is_left_alone_for_a_time() {
    let exclusions = [exclusion("a", -4000, 3), exclusion("b", -500, 3)];
    let seen = Seen::of(&["a", "b"], &[stuck("p", "o", "a", -60)]).excluded("owner.o", &exclusions);
    // The first was for 20 min, and an hour later it counts no more.
    let until = at(-4000 + 1200 + 3600);
    let plan = seen.plan(0);
    assert_eq!((held(&plan), plan.again), (vec![("p", &Why::Parked(until))], Some(until)));
    assert_eq!(seen.plan(801).exclude.len(), 1);
}

#[test]
fn a_pod_that_came_back_shows_that_nobody_enforces_exclusions() {
    let seen = |created| {
        Seen::of(&["a", "b"], &[stuck("p", "o", "a", created)]).excluded("owner.o", &[exclusion("a", -100, 1)])
    };
    assert_eq!(evicted(&seen(-96).plan(0)), ["p"], "it may not have been known yet");
    assert_eq!(held(&seen(-94).plan(0)), [("p", &Why::NotEnforced("a".into()))]);
}

#[test]
fn a_job_is_looked_at_before_one_of_its_pods_is_evicted() {
    let mut seen = Seen::of(&["a", "b"], &[of_job(stuck("p", "o", "a", -60))]);
    let plan = seen.plan(0);
    assert_eq!((plan.ask, plan.exclude), (vec!["p".into()], vec![]));
    let ignore = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    let count = json!({"rules": [{"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    for (job, moved) in [
        (json!({}), true),
        (json!({"status": {"failed": 4}}), true),
        (json!({"status": {"failed": 5}}), false),
        (json!({"spec": {"backoffLimit": 0}}), false),
        (json!({"spec": {"backoffLimit": 0, "podFailurePolicy": ignore}}), true),
        (json!({"spec": {"backoffLimit": 0, "podFailurePolicy": count}}), false),
        (json!({"spec": {"backoffLimitPerIndex": 1}}), false),
        (json!({"spec": {"backoffLimitPerIndex": 3}, "status": {"failed": 90}}), true),
    ] {
        seen.jobs.insert("o".into(), JobFacts::read(&job));
        let plan = seen.plan(0);
        assert_eq!(plan.exclude.len(), usize::from(moved), "{job}");
        assert_eq!(held(&plan).is_empty(), moved, "{job}");
    }
}

#[test]
fn a_pod_with_an_index_is_excluded_alone() {
    let change = json!({"metadata": {"labels": {"apps.kubernetes.io/pod-index": "3"}}});
    let seen = Seen::of(&["a", "b"], &[with(stuck("p", "o", "a", -60), &change)]);
    assert_eq!(seen.plan(0).exclude[0].key, "owner.o.3");
    // An exclusion of the whole owner counts too.
    assert_eq!(evicted(&seen.excluded("owner.o", &[exclusion("a", -62, 1)]).plan(0)), ["p"]);
}

#[test]
fn an_outage_is_not_fragmentation() {
    let refused = |n: usize| {
        let mut pod = stuck(&format!("p{n}"), &format!("o{n}"), "a", -60);
        pod["status"]["conditions"][1]["type"] = json!("virtual-kubelet.io/Accepted");
        pod
    };
    let many: Vec<Value> = (0..10).map(refused).collect();
    let plan = Seen::of(&["a", "b"], &many).plan(0);
    assert_eq!((plan.exclude.len(), held(&plan)[0].1), (0, &Why::Outage("a".into())));
    assert_eq!(Seen::of(&["a", "b"], &many[..9]).plan(0).exclude.len(), 9, "so few are none");
    let others = (10..20).map(|n| stuck(&format!("p{n}"), &format!("o{n}"), "a", 0));
    let half: Vec<Value> = many.iter().cloned().chain(others).collect();
    assert_eq!(Seen::of(&["a", "b"], &half).plan(0).exclude.len(), 10, "half of them is not most");
    let room: Vec<Value> = (0..30).map(|n| stuck(&format!("p{n}"), &format!("o{n}"), "a", -60)).collect();
    assert_eq!(Seen::of(&["a", "b"], &room).plan(0).exclude.len(), 30);
}

#[test]
fn an_unbound_pod_is_made_again_when_its_exclusion_has_run_out() {
    let unbound = |created| {
        let mut pod = stuck("p", "o", "a", created);
        pod["spec"] = json!({});
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "lastTransitionTime": at(created).to_string()}]);
        pod
    };
    let seen =
        |created, since| Seen::of(&["a", "b"], &[unbound(created)]).excluded("owner.o", &[exclusion("a", since, 1)]);
    let outlived = seen(-300, -301).plan(0);
    assert_eq!((evicted(&outlived), &outlived.evict[0].cause), (vec!["p"], &Cause::Outlived));
    assert_eq!(evicted(&seen(-400, -301).plan(0)), Vec::<&str>::new(), "it was made before, and bears none");
    let waits = seen(-200, -201).plan(0);
    assert_eq!((evicted(&waits), waits.again), (vec![], Some(at(99))));
    let mut alone = seen(-200, -201);
    alone.nodes.remove("b");
    let not_a = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}]}}});
    alone.pods = Seen::of(&[], &[with(unbound(-200), &json!({"spec": {"affinity": not_a.clone()}}))]).pods;
    let released = alone.plan(0);
    assert_eq!(released.exclude[0].record.nodes[0].until, at(0));
    // One that has an index bears what all pods of its owner bear, and that is what has to end.
    let indexed = json!({"metadata": {"labels": {"apps.kubernetes.io/pod-index": "1"}}, "spec": {"affinity": not_a}});
    alone.pods = Seen::of(&[], &[with(unbound(-200), &indexed)]).pods;
    let released = alone.plan(0);
    assert_eq!((&*released.exclude[0].key, released.exclude[0].record.nodes[0].until), ("owner.o", at(0)));
}

#[test]
fn the_fields_own_plugins_mean_what_they_mean_there() {
    let strategies = |plugin| vec![Strategy { profile: "p".to_owned(), namespaces: Namespaces::default(), plugin }];
    let running = json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [],
        "containerStatuses": [{"restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
        "initContainerStatuses": [{"restartCount": 2}]}});
    let failed = json!({"status": {"phase": "Failed", "reason": "OutOfcpu", "conditions": []}});
    let (life, names) = (Duration::from_secs(60), |names: &[&str]| names.iter().map(|s| (*s).to_owned()).collect());
    for (plugin, change, found) in [
        (Plugin::LifeTime { max: life, states: vec![] }, &running, true),
        (Plugin::LifeTime { max: life * 2, states: vec![] }, &running, false),
        (Plugin::LifeTime { max: life, states: names(&["Pending"]) }, &running, false),
        (Plugin::LifeTime { max: life, states: names(&["CrashLoopBackOff"]) }, &running, true),
        (Plugin::TooManyRestarts { threshold: 7, init: false, states: vec![] }, &running, true),
        (Plugin::TooManyRestarts { threshold: 8, init: false, states: vec![] }, &running, false),
        (Plugin::TooManyRestarts { threshold: 9, init: true, states: vec![] }, &running, true),
        (Plugin::Failed { min_life: life, reasons: vec![], not_owned_by: vec![] }, &failed, true),
        (Plugin::Failed { min_life: life, reasons: vec![], not_owned_by: vec![] }, &running, false),
        (Plugin::Failed { min_life: life, reasons: names(&["OutOfcpu"]), not_owned_by: vec![] }, &failed, true),
        (Plugin::Failed { min_life: life, reasons: names(&["Evicted"]), not_owned_by: vec![] }, &failed, false),
        (Plugin::Failed { min_life: life, reasons: vec![], not_owned_by: names(&["ReplicaSet"]) }, &failed, false),
    ] {
        let policy = Policy { strategies: strategies(plugin), ..policy() };
        let seen = Seen::of(&["a", "b"], &[with(stuck("p", "o", "a", -90), change)]);
        let plan = seen.plan_by(&policy, 0);
        assert_eq!(plan.exclude.len(), usize::from(found), "{:?}", policy.strategies);
    }
}

#[test]
fn limits_hold_for_all_a_node_and_a_namespace_and_fill_again() {
    let limits = Limits { per_node: Some(2), per_namespace: None, total: Some(3), interval: Duration::from_secs(60) };
    let mut buckets = Buckets::new(limits);
    assert!((0..2).all(|_| buckets.take("a", "n", at(0)).is_ok()));
    assert_eq!(buckets.take("a", "n", at(0)), Err(at(30)));
    assert!(buckets.take("b", "n", at(0)).is_ok());
    assert_eq!(buckets.take("b", "n", at(0)), Err(at(20)), "three in all");
    buckets.give_back("b", "n");
    assert!(buckets.take("b", "n", at(0)).is_ok());
    assert!(buckets.take("a", "n", at(30)).is_ok());
    buckets.prune(at(90));
    assert!((0..2).all(|_| buckets.take("a", "n", at(90)).is_ok()));
    let none = Limits { per_node: Some(0), ..limits };
    assert!(Buckets::new(none).take("a", "n", at(0)).is_err_and(|when| when > at(1_000_000)));
}

#[test]
fn no_more_is_excluded_than_the_limits_leave_room_to_evict() {
    let pods: Vec<Value> = (0..5).map(|n| stuck(&format!("p{n}"), &format!("o{n}"), "a", -60 - n)).collect();
    let seen = Seen::of(&["a", "b"], &pods).excluded("owner.o4", &[exclusion("a", -5, 1)]);
    let limits = Limits { per_node: Some(3), per_namespace: None, total: None, interval: Duration::from_secs(60) };
    let (mut buckets, guard) = (Buckets::new(limits), Guard::off());
    let plan = plan(&seen.world(&guard), &policy(), &mut buckets, at(0));
    let excluded: Vec<&str> = plan.exclude.iter().map(|exclude| &*exclude.pod).collect();
    assert_eq!((evicted(&plan), excluded), (vec!["p4"], vec!["p3", "p2"]), "those that wait longest");
    assert_eq!(plan.again, Some(at(20)));
    // Only what is evicted takes anything for good.
    assert!((0..2).all(|_| buckets.take("a", "n", at(0)).is_ok()) && buckets.take("a", "n", at(0)).is_err());
}

#[test]
fn a_record_that_a_later_build_wrote_is_not_written_over() {
    let pods = [stuck("p", "o", "a", -60), stuck("q", "other", "a", -60)];
    let mut seen = Seen::of(&["a", "b"], &pods);
    seen.newer.insert("owner.o".to_owned(), 2);
    let plan = seen.plan(0);
    let excluded: Vec<&str> = plan.exclude.iter().map(|exclude| &*exclude.key).collect();
    assert_eq!((excluded, held(&plan)), (vec!["owner.other"], vec![("p", &Why::NewerRecord(2))]));
    // What can be read of it elsewhere counts: that needs no write.
    assert_eq!(evicted(&seen.clone().excluded("owner.o", &[exclusion("a", -5, 1)]).plan(0)), ["p"]);
    // Nor is it to end an exclusion early.
    let mut unbound = stuck("p", "o", "a", -60);
    unbound["spec"] = json!({});
    unbound["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "lastTransitionTime": at(-60).to_string()}]);
    seen = Seen { pods: Seen::of(&[], &[unbound]).pods, ..seen }.excluded("owner.o", &[exclusion("a", -61, 1)]);
    seen.nodes.remove("b");
    assert!(seen.plan(0).exclude.is_empty());
    seen.newer.clear();
    assert_eq!(seen.plan(0).exclude.len(), 1);
}

#[test]
fn a_node_selector_limits_off_which_nodes_pods_are_moved() {
    let seen = Seen::of(&["a", "b"], &[stuck("p", "o", "a", -60)]);
    for (value, count) in [("a", 1), ("b", 0)] {
        let policy = Policy { nodes: vec![("clusterID".to_owned(), value.to_owned())], ..policy() };
        assert_eq!(seen.plan_by(&policy, 0).exclude.len(), count);
    }
}

#[test]
fn pods_that_have_not_started_leave_a_node_that_stays_not_ready() {
    let waiting = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}});
    let runs = json!({"status": {"phase": "Running", "startTime": at(-900).to_string()}});
    let away = |since: i64| {
        VirtualNode::read(&json!({"status": {"conditions": [
            {"type": "Ready", "status": "Unknown", "lastTransitionTime": at(since).to_string()}]}}))
    };
    for (since, change, moved) in [(-300, &waiting, 1), (-299, &waiting, 0), (-900, &runs, 0)] {
        let mut seen = Seen::of(&["b"], &[with(stuck("p", "o", "a", -900), change)]);
        seen.nodes.insert("a".into(), away(since));
        let plan = seen.plan(0);
        assert_eq!((plan.exclude.len(), plan.held.len()), (moved, 0), "{since} {change}");
    }
}

#[test]
fn a_plan_takes_no_more_than_the_limits_leave_and_comes_back_when_there_is_more() {
    let pods: Vec<Value> = (0..5).map(|n| stuck(&format!("p{n}"), &format!("o{n}"), "a", -60)).collect();
    let mut seen = Seen::of(&["a", "b"], &pods);
    for n in 0..5 {
        seen = seen.excluded(&format!("owner.o{n}"), &[exclusion("a", -5, 1)]);
    }
    let limits = Limits { per_node: Some(2), per_namespace: None, total: Some(4), interval: Duration::from_secs(60) };
    let (mut buckets, guard) = (Buckets::new(limits), Guard::off());
    let mut taken = |now: i64| {
        let plan = plan(&seen.world(&guard), &policy(), &mut buckets, at(now));
        (plan.evict.len(), plan.again)
    };
    assert_eq!(taken(0), (2, Some(at(30))));
    assert_eq!(taken(29).0, 0);
    assert_eq!(taken(30).0, 1);
}
