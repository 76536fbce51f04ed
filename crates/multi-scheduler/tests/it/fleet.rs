// SPDX-License-Identifier: Apache-2.0
//! Room that is kept for pods on their way, and what is said of clusters that are not known.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use multi_scheduler::fleet::Fleet;
use multi_scheduler::gangs::{GroupObject, Naming};
use multi_scheduler::lower::Lower;
use serde_json::{Value, json};
use tensile_core::scheduling::{Kind, Profile};

use super::known::{cluster, fleet, pod, policy, see};

/// Where the pod may go.
fn passed(fleet: &Fleet, pod: &Value, candidates: &[&str], now: Instant) -> Vec<String> {
    let refused = fleet.filter(pod, candidates, now, Timestamp::now());
    let passed = candidates.iter().filter(|name| !refused.contains_key(*name));
    passed.map(|name| (*name).to_owned()).collect()
}

const BOTH: [&str; 2] = ["east", "west"];

fn pair(cpus: &[&str]) -> (Fleet, [Arc<Lower>; 2]) {
    let lowers = [cluster("east", cpus), cluster("west", cpus)];
    (fleet(policy(&[]), &lowers), lowers)
}

#[test]
fn a_pod_whose_scheduler_was_told_of_room_keeps_it_everywhere_until_it_is_seen_where_it_went() {
    let (fleet, _) = pair(&["4"]);
    let now = Instant::now();
    assert_eq!(passed(&fleet, &pod("a", "3"), &BOTH, now), BOTH);
    assert!(passed(&fleet, &pod("b", "3"), &BOTH, now).is_empty(), "the same room was told twice");
    fleet.pod_bound("a", "east", &pod("a", "3").to_string());
    assert_eq!(passed(&fleet, &pod("b", "3"), &BOTH, now), ["west"]);
    assert_eq!(passed(&fleet, &pod("a", "3"), &["ordinary"], now), ["ordinary"]);
    fleet.pod_ended("a", Some("east"));
    fleet.pod_ended("b", None);
    assert_eq!(passed(&fleet, &pod("c", "3"), &BOTH, now), BOTH);
}

#[test]
fn the_same_pod_is_told_the_same_again() {
    let (fleet, _) = pair(&["4"]);
    let now = Instant::now();
    for _ in 0..3 {
        assert_eq!(passed(&fleet, &pod("a", "3"), &BOTH, now), BOTH);
        assert_eq!(fleet.prioritize(&pod("a", "3"), &BOTH, now).iter().filter(|node| node.score > 0).count(), 2);
    }
}

#[test]
fn room_that_was_kept_in_vain_is_given_back_in_time() {
    let lowers = [cluster("east", &["4"]), cluster("west", &["4"])];
    let fleet = fleet(policy(&["--reservation-time=10s"]), &lowers);
    let now = Instant::now();
    passed(&fleet, &pod("a", "3"), &BOTH, now);
    assert!(passed(&fleet, &pod("b", "3"), &BOTH, now + Duration::from_secs(9)).is_empty());
    assert_eq!(passed(&fleet, &pod("b", "3"), &BOTH, now + Duration::from_secs(10)), BOTH);
}

#[test]
fn a_bound_pod_keeps_its_room_for_as_long_as_it_is_not_seen_below() {
    let (fleet, [east, _]) = pair(&["4"]);
    let now = Instant::now();
    fleet.pod_bound("a", "east", &pod("a", "3").to_string());
    let much_later = now + Duration::from_secs(3_600);
    assert_eq!(east.read().counts().assumed, 1);
    let below = json!({
        "metadata": { "name": "a", "namespace": "default", "uid": "below", "annotations": { "tensile.io/upper-uid": "a" } },
        "spec": { "nodeName": "east-0", "containers": pod("a", "3")["spec"]["containers"] },
        "status": { "phase": "Running" },
    });
    see(&east, Kind::Pod, &below);
    assert_eq!((east.read().counts().assumed, east.read().counts().pods), (0, 1));
    fleet.pod_runs("a", "east");
    fleet.expire(much_later);
    // East is stale by now, and west too: only the columns are looked at.
    assert_eq!(east.read().counts().pods, 1);
}

#[test]
fn a_cluster_that_comes_later_keeps_room_for_who_is_bound_to_it_already() {
    let east = cluster("east", &["4"]);
    let fleet = fleet(policy(&[]), &[]);
    fleet.pod_bound("a", "east", &pod("a", "3").to_string());
    fleet.set_nodes([("east".to_owned(), Arc::new(super::known::virtual_node(&east)))].into());
    fleet.add(&east);
    assert_eq!(east.read().counts().assumed, 1);
    assert!(passed(&fleet, &pod("b", "3"), &["east"], Instant::now()).is_empty());
}

#[test]
fn who_is_bound_without_room_gets_it_before_anybody_is_told_of_it() {
    let (fleet, [east, _]) = pair(&["4"]);
    for uid in ["a", "b"] {
        fleet.pod_bound(uid, "east", &pod(uid, "3").to_string());
    }
    let counts = || (east.read().counts().assumed, east.read().counts().owed);
    assert_eq!(counts(), (2, 1));
    fleet.pod_ended("a", Some("east"));
    fleet.pod_ended("c", None);
    assert_eq!(passed(&fleet, &pod("d", "3"), &BOTH, Instant::now()), ["west"]);
    assert_eq!(counts(), (1, 0));
}

#[test]
fn a_question_that_the_binding_overtook_leaves_the_pod_counted_where_it_went() {
    let (fleet, [east, west]) = pair(&["4"]);
    let now = Instant::now();
    fleet.pod_bound("a", "east", &pod("a", "3").to_string());
    assert_eq!(passed(&fleet, &pod("a", "3"), &BOTH, now), BOTH, "it does not stand in its own way");
    assert_eq!((east.read().counts().assumed, west.read().counts().assumed), (1, 0));
    assert_eq!(passed(&fleet, &pod("b", "3"), &BOTH, now), ["west"]);
}

#[test]
fn what_was_told_of_a_cluster_counts_when_it_is_followed_anew() {
    let (fleet, _) = pair(&["4"]);
    let now = Instant::now();
    assert_eq!(passed(&fleet, &pod("a", "3"), &["east"], now), ["east"]);
    let again = cluster("east", &["4"]);
    fleet.add(&again);
    assert_eq!(again.read().counts().assumed, 1);
    assert!(passed(&fleet, &pod("b", "3"), &["east"], now).is_empty(), "the same room was told twice");
    fleet.pod_ended("a", None);
    assert_eq!(again.read().counts().assumed, 0);
}

#[test]
fn nothing_is_said_to_fit_in_a_cluster_that_is_not_known_unless_the_operator_wants_it() {
    let now = Instant::now();
    let unlisted = || Arc::new(Lower::new("east", "uid-of-east", Profile::default(), now));
    let closed = fleet(policy(&[]), &[unlisted()]);
    let refused = closed.filter(&pod("a", "1"), &["east", "other"], now, Timestamp::now());
    assert_eq!(refused.keys().copied().collect::<Vec<_>>(), ["east"]);
    assert!(refused["east"].starts_with("lower cluster east: its nodes are not listed yet"), "{}", refused["east"]);
    let open = fleet(policy(&["--stale=open"]), &[unlisted()]);
    assert!(open.filter(&pod("a", "1"), &["east", "other"], now, Timestamp::now()).is_empty());

    let known = fleet(policy(&[]), &[cluster("east", &["4"])]);
    assert_eq!(passed(&known, &pod("a", "1"), &["east"], now), ["east"]);
    let told = known.filter(&pod("a", "1"), &["east"], now + Duration::from_secs(40), Timestamp::now());
    assert!(told["east"].contains("its API server was last heard"), "{}", told["east"]);
}

#[test]
fn where_there_is_plenty_no_more_is_told_than_there_is_either() {
    let east = cluster("east", &["100", "100", "100", "100"]);
    let fleet = fleet(policy(&[]), std::slice::from_ref(&east));
    let now = Instant::now();
    let told = (0..600).filter(|number| !passed(&fleet, &pod(&format!("p-{number}"), "1"), &["east"], now).is_empty());
    let told: Vec<u32> = told.collect();
    assert_eq!((told.len(), east.read().counts().assumed), (400, 400));
    for number in &told {
        fleet.pod_bound(&format!("p-{number}"), "east", &pod(&format!("p-{number}"), "1").to_string());
    }
    assert_eq!((east.read().counts().assumed, east.read().counts().owed), (400, 0));
}

#[test]
fn two_virtual_nodes_of_one_cluster_share_its_room() {
    let east = cluster("east", &["4"]);
    let fleet = fleet(policy(&[]), std::slice::from_ref(&east));
    let node = super::known::virtual_node(&east);
    fleet.set_nodes(["east", "again"].map(|name| (name.to_owned(), Arc::new(node.clone()))).into());
    let now = Instant::now();
    assert_eq!(passed(&fleet, &pod("a", "3"), &["east", "again"], now), ["east", "again"]);
    assert_eq!(east.read().counts().assumed, 1);
    assert!(passed(&fleet, &pod("b", "3"), &["east", "again"], now).is_empty());
}

#[test]
fn replicas_are_counted_and_nothing_is_kept_for_them() {
    let (fleet, [east, _]) = pair(&["4", "4", "1"]);
    let reports = fleet.explain(&pod("a", "2"), 100, Instant::now(), Timestamp::now());
    let replicas: Vec<u64> = reports.iter().map(|report| report.replicas).collect();
    assert_eq!(replicas, [4, 4]);
    assert!(reports.iter().all(|report| report.fits && report.reason.is_none()));
    let reports = fleet.explain(&pod("a", "5"), 100, Instant::now(), Timestamp::now());
    assert!(reports[0].reason.as_deref().unwrap().contains("none of 3 nodes has 5 CPUs free"), "{reports:?}");
    assert_eq!(east.read().counts().assumed, 0);
}

fn member(uid: &str, cpu: &str, least: &str) -> Value {
    let mut pod = pod(uid, cpu);
    pod["metadata"]["labels"] = json!({ "scheduling.x-k8s.io/pod-group": "gang",
        "pod-group.scheduling.sigs.k8s.io/min-available": least });
    pod
}

#[test]
fn a_group_is_offered_one_cluster_that_can_take_all_of_it() {
    let (east, west) = (cluster("east", &["4", "4"]), cluster("west", &["4", "4", "4"]));
    let fleet = fleet(policy(&[]), &[east, west]);
    let now = Instant::now();
    let refused = fleet.filter(&member("a", "3", "4"), &BOTH, now, Timestamp::now());
    assert_eq!(refused["east"], "lower cluster east: room for 2 of the 4 pods of group gang that are to come");
    assert_eq!(refused["west"], "lower cluster west: room for 3 of the 4 pods of group gang that are to come");
    for uid in ["a", "b", "c"] {
        assert_eq!(passed(&fleet, &member(uid, "3", "3"), &BOTH, now), ["west"], "{uid}");
    }
    assert!(passed(&fleet, &member("d", "3", "3"), &BOTH, now).is_empty(), "the group stays together");
}

#[test]
fn a_group_that_fits_in_several_clusters_is_not_split() {
    let (fleet, _) = pair(&["4", "4", "4", "4"]);
    let now = Instant::now();
    let first = passed(&fleet, &member("a", "3", "2"), &BOTH, now);
    assert_eq!(first.len(), 1);
    for uid in ["b", "c", "d"] {
        assert_eq!(passed(&fleet, &member(uid, "3", "2"), &BOTH, now), first);
    }
    assert_eq!(passed(&fleet, &pod("single", "3"), &BOTH, now).len(), 1, "the other cluster is free");
}

#[test]
fn what_is_not_known_below_is_decided_by_the_flag() {
    let mut mounting = pod("a", "1");
    mounting["spec"]["volumes"] = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "nobodys" } }]);
    let mut claiming = pod("b", "1");
    claiming["spec"]["resourceClaims"] = json!([{ "name": "gpu", "resourceClaimName": "gpu" }]);
    for (flag, mounts) in [("--unknown=deny", 0), ("--unknown=allow", 1)] {
        let fleet = fleet(policy(&[flag]), &[cluster("east", &["4"])]);
        let now = Instant::now();
        assert_eq!(passed(&fleet, &mounting, &["east"], now).len(), mounts, "{flag}");
        // Devices are no question of room: virtual nodes do not take such pods at all.
        let told = fleet.filter(&claiming, &["east"], now, Timestamp::now());
        assert!(told["east"].contains("resourceClaims"), "{flag}: {told:?}");
    }
}

#[test]
fn the_object_of_a_group_says_how_many_of_it_there_must_be() {
    let (fleet, _) = pair(&["4", "4", "4"]);
    let now = Instant::now();
    let of = |uid: &str| {
        let mut pod = pod(uid, "3");
        pod["spec"]["schedulingGroup"] = json!({ "podGroupName": "gang" });
        pod
    };
    assert_eq!(passed(&fleet, &of("a"), &BOTH, now), BOTH, "nobody says how many");
    let gang =
        GroupObject { naming: Naming::SchedulingGroup, namespace: "default".to_owned(), name: "gang".to_owned() };
    fleet.gangs().set_least("v1", [(gang.clone(), 4)].into());
    let told = fleet.filter(&of("a"), &BOTH, now, Timestamp::now());
    assert_eq!(told["east"], "lower cluster east: room for 3 of the 4 pods of group gang that are to come");
    fleet.gangs().set_least("v1", [(gang, 3)].into());
    assert_eq!(passed(&fleet, &of("a"), &BOTH, now).len(), 1);
}
