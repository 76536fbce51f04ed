// SPDX-License-Identifier: Apache-2.0
//! Worlds with a multi-scheduler, which knows where there is room.

use super::*;

#[allow(clippy::unnecessary_wraps, reason = "as it is kept")]
fn fit(nodes: &[(&str, u64)]) -> Option<Fit> {
    let nodes: Value = nodes.iter().map(|(node, replicas)| json!({"node": node, "replicas": replicas})).collect();
    Some(Fit::read(&json!({"nodes": nodes})).unwrap())
}

#[allow(clippy::unnecessary_wraps, reason = "as it is kept")]
fn asked(answers: &[(&str, Option<Fit>)]) -> Option<BTreeMap<Arc<str>, Option<Fit>>> {
    Some(answers.iter().map(|(uid, fit)| ((*uid).into(), fit.clone())).collect())
}

fn inquiry(pod: &str, borne: &[&str]) -> Inquiry {
    Inquiry { pod: pod.into(), borne: borne.iter().map(|node| (*node).to_owned()).collect() }
}

#[test]
fn a_pod_moves_only_where_there_is_room() {
    let mut seen = Seen::of(&["a", "b", "c"], &[stuck("p", "o", "a", -60)]);
    seen.fits = asked(&[]);
    let first = seen.plan(0);
    assert_eq!((first.fit, first.exclude), (vec![inquiry("p", &[])], vec![]));
    seen.fits = asked(&[("p", fit(&[("a", 0), ("b", 0), ("c", 0)]))]);
    let nowhere = seen.plan(0);
    assert_eq!((held(&nowhere), nowhere.exclude.len()), (vec![("p", &Why::NowhereFits)], 0));
    assert_eq!(nowhere.placeable, [(Arc::from("p"), false)]);
    // What is elsewhere it knows by the pod's constraints; the room where it is stuck does not count.
    seen.fits = asked(&[("p", fit(&[("a", 5)]))]);
    assert_eq!(held(&seen.plan(0)), [("p", &Why::NowhereFits)]);
    seen.fits = asked(&[("p", fit(&[("c", 1)]))]);
    assert_eq!(seen.plan(0).exclude.len(), 1);
    seen.fits = asked(&[("p", None)]);
    assert_eq!(seen.plan(0).exclude.len(), 1, "it does not answer: as without");
}

#[test]
fn room_is_given_to_one_pod_only() {
    let pods: Vec<Value> = (0..5).map(|n| stuck(&format!("p{n}"), &format!("o{n}"), "a", -60 - n)).collect();
    let mut seen = Seen::of(&["a", "b", "c"], &pods);
    let room = fit(&[("b", 2), ("c", 1)]);
    seen.fits = asked(&["p0", "p1", "p2", "p3", "p4"].map(|uid| (uid, room.clone())));
    let plan = seen.plan(0);
    let moved: Vec<&str> = plan.exclude.iter().map(|one| &*one.pod).collect();
    assert_eq!(moved, ["p4", "p3", "p2"], "those that wait longest");
    assert_eq!(held(&plan), [("p1", &Why::NowhereFits), ("p0", &Why::NowhereFits)]);
}

#[test]
fn an_exclusion_ends_early_where_there_is_room_again() {
    let mut seen =
        Seen::of(&["a", "b", "c"], &[stuck("p", "o", "a", -60)]).excluded("owner.o", &[exclusion("b", -100, 1)]);
    seen.fits = asked(&[("p", fit(&[("b", 1), ("c", 1)]))]);
    let live = |plan: &Plan| plan.exclude[0].record.nodes_at(at(0)).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(live(&seen.plan(0)), ["b", "a"], "there is room elsewhere");
    seen.fits = asked(&[("p", fit(&[("b", 1)]))]);
    assert_eq!(live(&seen.plan(0)), ["a"]);
    // Where it is excluded from all others, it is known which exclusion has to end: not the oldest.
    let mut seen = seen.excluded("owner.o", &[exclusion("b", -100, 1), exclusion("c", -200, 1)]);
    assert_eq!(live(&seen.plan(0)), ["c", "a"]);
    seen.fits = asked(&[("p", None)]);
    assert_eq!(live(&seen.plan(0)), ["b", "a"], "it does not answer: as without");
    // It was made after both, and bears them.
    seen.fits = asked(&[]);
    assert_eq!(seen.plan(0).fit, [inquiry("p", &["b", "c"])]);
}

#[test]
fn an_unbound_pod_goes_back_to_where_there_is_room_again() {
    let mut pod = stuck("p", "o", "a", -60);
    pod["spec"] = json!({});
    pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "lastTransitionTime": at(-60).to_string()}]);
    let mut seen = Seen::of(&["a", "b"], &[pod]).excluded("owner.o", &[exclusion("a", -61, 1)]);
    seen.fits = asked(&[]);
    assert_eq!(seen.plan(0).fit, [inquiry("p", &["a"])]);
    seen.fits = asked(&[("p", fit(&[("a", 0), ("b", 0)]))]);
    assert!(seen.plan(0).exclude.is_empty());
    seen.fits = asked(&[("p", fit(&[("a", 1), ("b", 0)]))]);
    let lifted = seen.plan(0);
    assert_eq!(lifted.exclude[0].record.nodes[0].until, at(0));
    seen.records.insert("owner.o".to_owned(), lifted.exclude[0].record.clone());
    assert_eq!(evicted(&seen.plan(0)), ["p"]);
}

#[test]
fn the_condition_goes_when_there_is_room_or_nothing_to_move() {
    let mut shown = stuck("p", "o", "a", -60);
    let conditions = shown["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "tensile.io/Placeable", "status": "False"}));
    let mut seen = Seen::of(&["a", "b"], &[shown.clone()]);
    seen.fits = asked(&[("p", fit(&[]))]);
    assert!(seen.plan(0).placeable.is_empty());
    seen.fits = asked(&[]);
    assert!(seen.plan(0).placeable.is_empty(), "it is asked again");
    seen.fits = asked(&[("p", fit(&[("b", 1)]))]);
    assert_eq!(seen.plan(0).placeable, [(Arc::from("p"), true)]);
}

#[test]
fn the_multi_scheduler_alone_enforces_exclusions_of_its_own_pods() {
    let mut guard = Guard::default();
    guard.answered(Err("no webhook".to_owned()), at(-100));
    let of = |scheduler: &str| {
        let pod = with(stuck("p", "o", "a", -60), &json!({"spec": {"schedulerName": scheduler}}));
        let mut seen = Seen::of(&["a", "b"], &[pod]);
        (seen.guard, seen.fits) = (Some(guard.clone()), asked(&[("p", fit(&[("b", 1)]))]));
        seen.plan(0)
    };
    let excludes = |plan: &Plan| plan.exclude.iter().filter(|one| &*one.pod == "p").count();
    assert_eq!(excludes(&of("multi-scheduler")), 1);
    assert_eq!(held(&of("default-scheduler")), [("p", &Why::NobodyEnforces("no webhook".into()))]);
}
