// SPDX-License-Identifier: Apache-2.0
//! Each situation and its one next step; then whole lives of pods under kills, lost events and short lists.
#![allow(clippy::needless_pass_by_value, reason = "json!(..) as an argument reads best without &")]

use serde_json::{Value, json};

use super::*;
use crate::watched::View;

const NOW: i64 = 1_000_000;

fn upper(metadata: Value, status: Value) -> Upper {
    let mut pod = json!({
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": 1},
        "spec": {"nodeName": "v", "containers": [{"name": "c", "image": "i"}]}, "status": status,
    });
    pod["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    Upper::Present(UpperPod::parse(&pod.to_string()).unwrap())
}

fn pending() -> Upper {
    upper(json!({}), json!({"phase": "Pending"}))
}

fn running() -> Upper {
    upper(json!({}), json!({"phase": "Running"}))
}

fn deleted(seconds: i64, status: Value) -> Upper {
    upper(json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": seconds}), status)
}

fn hash(status: Value) -> u64 {
    crate::pod::status::Shown::of(status.as_object().unwrap()).hash
}

fn lower(status: Value) -> LowerPod {
    let terminal = status["phase"] == "Failed" || status["phase"] == "Succeeded";
    LowerPod { applied: None, ending_by: None, terminal, disrupted: false, hash: hash(status) }
}

fn pair(upper: Upper, lower: Lower) -> Pair {
    Pair { upper, lower, memory: Memory::default(), last_words: false, upper_synced: true, provider_synced: true }
}

fn next(upper: Upper, lower: Lower) -> Action {
    plan(&pair(upper, lower), NOW)
}

#[test]
fn a_new_pod_is_created_once_the_provider_has_told_its_pods() {
    assert_eq!(next(pending(), Lower::Unknown), Action::Create);
    let mut early = pair(pending(), Lower::Unknown);
    early.provider_synced = false;
    assert_eq!(plan(&early, NOW), Action::Nothing);
}

#[test]
fn nobody_is_asked_about_a_pod_of_the_provider_before_the_upper_pods_are_listed() {
    let below = || Lower::Present(lower(json!({"phase": "Running"})));
    assert_eq!(next(Upper::Unknown, below()), Action::AskUpper);
    for below in [below(), Lower::Gone, Lower::Unknown] {
        let mut early = pair(Upper::Unknown, below);
        early.upper_synced = false;
        assert_eq!(plan(&early, NOW), Action::Nothing);
    }
}

#[test]
fn a_pod_that_runs_as_it_should_needs_nothing() {
    assert_eq!(next(running(), Lower::Present(lower(json!({"phase": "Running"})))), Action::Nothing);
}

#[test]
fn a_new_status_is_reported_once_even_if_the_server_drops_a_part_of_it() {
    let below = lower(json!({"phase": "Running", "podIP": "10.0.0.1"}));
    let mut pair = pair(running(), Lower::Present(below.clone()));
    assert_eq!(plan(&pair, NOW), Action::Report);
    let echo = hash(json!({"phase": "Running"}));
    pair.memory.sent = Some(Sent { hash: below.hash, disrupted: false, generation: 1, echo });
    assert_eq!(plan(&pair, NOW), Action::Nothing);
    // Somebody else changed what we wrote.
    pair.upper = upper(json!({}), json!({"phase": "Running", "message": "theirs"}));
    assert_eq!(plan(&pair, NOW), Action::Report);
}

#[test]
fn a_disruption_is_reported_once_although_nothing_else_changed() {
    let mut below = lower(json!({"phase": "Running"}));
    let mut pair = pair(running(), Lower::Present(below.clone()));
    let sent = Sent { hash: below.hash, disrupted: false, generation: 1, echo: below.hash };
    pair.memory.sent = Some(sent);
    assert_eq!(plan(&pair, NOW), Action::Nothing);
    below.disrupted = true;
    pair.lower = Lower::Present(below);
    assert_eq!(plan(&pair, NOW), Action::Report);
    pair.memory.sent = Some(Sent { disrupted: true, ..sent });
    assert_eq!(plan(&pair, NOW), Action::Nothing, "the server does not keep it");
}

#[test]
fn a_new_revision_is_handed_over_unless_the_pod_is_ending() {
    let mut below = lower(json!({"phase": "Running"}));
    below.applied = Some(1);
    assert_eq!(next(running(), Lower::Present(below.clone())), Action::Update);
    below.ending_by = Some(NOW + 30);
    assert_eq!(next(running(), Lower::Present(below)), Action::Nothing);
}

#[test]
fn a_pod_that_may_have_run_is_never_created_again() {
    assert_eq!(next(running(), Lower::Unknown), Action::AskProvider);
    assert_eq!(next(running(), Lower::Gone), Action::ReportLost);
    let mut unseen = pair(pending(), Lower::Gone);
    assert_eq!(plan(&unseen, NOW), Action::Create, "nothing of it has run");
    unseen.memory.ran = true;
    assert_eq!(plan(&unseen, NOW), Action::ReportLost);
}

#[test]
fn a_finished_pod_stays_finished_whatever_is_below() {
    for phase in ["Succeeded", "Failed"] {
        let finished = || upper(json!({}), json!({"phase": phase}));
        assert_eq!(next(finished(), Lower::Gone), Action::Nothing);
        assert_eq!(next(finished(), Lower::Unknown), Action::Nothing);
        assert_eq!(next(finished(), Lower::Present(lower(json!({"phase": "Succeeded"})))), Action::Nothing);
        let still_running = Lower::Present(lower(json!({"phase": "Running"})));
        assert_eq!(next(finished(), still_running), Action::End(Grace::OfPod));
    }
}

#[test]
fn deletion_passes_its_grace_down_and_waits_for_the_end_below() {
    let running = || Lower::Present(lower(json!({"phase": "Running"})));
    let mut pair = pair(deleted(30, json!({"phase": "Running"})), running());
    assert_eq!(plan(&pair, NOW), Action::End(Grace::Seconds(30)));
    pair.memory.asked_to_end = Some(Grace::Seconds(30));
    assert_eq!(plan(&pair, NOW), Action::Nothing);
    pair.upper = deleted(5, json!({"phase": "Running"}));
    assert_eq!(plan(&pair, NOW), Action::End(Grace::Seconds(5)), "a shorter grace is passed down too");
    pair.lower = Lower::Gone;
    assert_eq!(plan(&pair, NOW), Action::Finalize { report: false });
    pair.memory.finalized = true;
    assert_eq!(plan(&pair, NOW), Action::Nothing, "finalizers of others hold it");
}

#[test]
fn a_forced_deletion_kills_below_and_forgets_only_what_is_long_overdue() {
    let mut below = lower(json!({"phase": "Running"}));
    let mut pair = pair(deleted(0, json!({"phase": "Running"})), Lower::Present(below.clone()));
    assert_eq!(plan(&pair, NOW), Action::End(Grace::Seconds(1)));
    pair.memory.asked_to_end = Some(Grace::Seconds(1));
    below.ending_by = Some(NOW);
    pair.lower = Lower::Present(below);
    assert_eq!(plan(&pair, NOW), Action::LookAgain(30));
    assert_eq!(plan(&pair, NOW + 30), Action::End(Grace::Seconds(0)));
}

#[test]
fn a_deleted_pod_of_which_nothing_is_known_below_is_asked_for_first() {
    assert_eq!(next(deleted(30, json!({"phase": "Running"})), Lower::Unknown), Action::AskProvider);
}

#[test]
fn who_waits_for_the_end_of_a_pod_is_told_how_it_ended() {
    let held = || {
        upper(
            json!({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 1, "finalizers": ["batch.kubernetes.io/job-tracking"]}),
            json!({"phase": "Running"}),
        )
    };
    assert_eq!(next(held(), Lower::Gone), Action::Finalize { report: true });
    let ended = Lower::Present(lower(json!({"phase": "Succeeded"})));
    assert_eq!(next(held(), ended), Action::Report, "its own last status comes first");
}

#[test]
fn an_end_that_was_heard_of_is_shown_also_when_the_lower_object_is_gone_already() {
    let mut pair = pair(running(), Lower::Gone);
    pair.last_words = true;
    assert_eq!(plan(&pair, NOW), Action::Report);
    pair.upper = deleted(30, json!({"phase": "Running"}));
    assert_eq!(plan(&pair, NOW), Action::Report);
    pair.upper = upper(json!({}), json!({"phase": "Succeeded"}));
    assert_eq!(plan(&pair, NOW), Action::Nothing);
}

#[test]
fn a_lower_object_that_a_finalizer_holds_after_its_end_does_not_hold_the_upper_one() {
    let mut below = lower(json!({"phase": "Failed"}));
    below.ending_by = Some(NOW);
    let mut pair = pair(deleted(30, json!({"phase": "Failed"})), Lower::Present(below));
    pair.memory.asked_to_end = Some(Grace::Seconds(30));
    assert_eq!(plan(&pair, NOW), Action::Finalize { report: false });
}

#[test]
fn a_pod_without_an_upper_one_ends_only_after_that_is_certain() {
    let running = || Lower::Present(lower(json!({"phase": "Running"})));
    assert_eq!(next(Upper::Unknown, running()), Action::AskUpper);
    assert_eq!(next(Upper::Gone, running()), Action::End(Grace::OfPod));
    assert_eq!(next(Upper::Gone, Lower::Gone), Action::Forget);
    assert_eq!(next(Upper::Unknown, Lower::Gone), Action::Forget);
}

#[test]
fn an_unwanted_pod_whose_end_is_overdue_is_forgotten_by_force() {
    let mut below = lower(json!({"phase": "Running"}));
    below.ending_by = Some(NOW - 10);
    let mut pair = pair(Upper::Gone, Lower::Present(below));
    pair.memory.asked_to_end = Some(Grace::OfPod);
    assert_eq!(plan(&pair, NOW), Action::LookAgain(20));
    assert_eq!(plan(&pair, NOW + 20), Action::End(Grace::Seconds(0)));
    pair.memory.asked_to_end = Some(Grace::Seconds(0));
    assert_eq!(plan(&pair, NOW + 20), Action::Nothing);
}

#[test]
fn a_refusal_that_no_longer_holds_is_taken_back() {
    let shown = upper(
        json!({}),
        json!({"phase": "Running", "conditions": [{"type": "virtual-kubelet.io/Accepted", "status": "False"}]}),
    );
    let mut pair = pair(shown, Lower::Present(lower(json!({"phase": "Running"}))));
    assert_eq!(plan(&pair, NOW), Action::Report);
    pair.memory.refusal = Some(1);
    assert_eq!(plan(&pair, NOW), Action::Nothing, "it still holds");
}

#[test]
fn a_changed_generation_is_acknowledged_on_servers_that_know_it() {
    let old = upper(json!({"generation": 2}), json!({"phase": "Running", "observedGeneration": 1}));
    let below = || Lower::Present(lower(json!({"phase": "Running"})));
    assert_eq!(next(old, below()), Action::Report);
    let unaware = upper(json!({"generation": 2}), json!({"phase": "Running"}));
    assert_eq!(next(unaware, below()), Action::Nothing);
}

mod lives;
