// SPDX-License-Identifier: Apache-2.0
//! The loops against a small API server, on a paused clock: time passes only when everybody waits.

use std::sync::atomic::Ordering;

use serde_json::json;

use super::*;
use crate::node::fake::Fake;

mod scene;

use scene::Scene;

#[tokio::test(start_paused = true)]
async fn a_node_is_created_only_after_it_was_not_found_and_then_gets_its_lease() {
    let scene = Scene::registered().await;
    let asked: Vec<_> = scene
        .fake
        .asked()
        .into_iter()
        .filter(|asked| !asked.starts_with("LIST") && !asked.starts_with("WATCH"))
        .collect();
    assert_eq!(asked, ["GET node", "POST node", "GET lease", "POST lease"]);
    let (node, lease) = scene.objects();
    assert_eq!(node["metadata"]["name"], "v");
    assert_eq!(node["metadata"]["labels"], json!({"type": "virtual-kubelet"}));
    assert_eq!(node["spec"]["taints"][0]["key"], "virtual-kubelet.io/provider");
    assert_eq!(patch::ready(&node), Some("True"));
    assert_eq!(lease["spec"]["holderIdentity"], "v");
    assert_eq!(
        lease["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Node", "name": "v", "uid": node["metadata"]["uid"]}])
    );
    let state = scene.state.borrow().clone();
    assert_eq!(state, NodeState { uid: Some("uid-1".into()), backend: Backend::Present, failure: None, recoveries: 1 });
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_there_is_patched_and_what_others_wrote_stays() {
    let fake = Fake::new();
    let foreign = json!({
        "metadata": {"name": "v", "uid": "old", "labels": {"pool": "x"}, "annotations": {"note": "y"}},
        "spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}], "unschedulable": true},
        "status": {"conditions": [{"type": "KernelDeadlock", "status": "False"}],
            "addresses": [{"type": "ExternalIP", "address": "192.0.2.1"}], "allocatable": {"example.com/dongle": "1"}},
    });
    fake.meddle(|node| *node = foreign.clone());
    let scene = Scene::begin(&fake, &[Some(Ok(()))]);
    scene.until_ready_is("True").await;
    assert!(!fake.asked().contains(&"POST node".to_owned()));
    let node = fake.contents().node.clone().unwrap();
    assert_eq!(node["spec"], foreign["spec"]);
    assert_eq!(node["metadata"]["labels"], json!({"pool": "x", "type": "virtual-kubelet"}));
    assert_eq!(node["metadata"]["annotations"]["note"], "y");
    assert_eq!(node["status"]["conditions"][0], foreign["status"]["conditions"][0]);
    assert_eq!(node["status"]["addresses"], foreign["status"]["addresses"]);
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "1", "example.com/dongle": "1"}));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_is_away_at_the_start_gives_a_node_that_is_not_ready_and_recovers() {
    let scene = Scene::begin(&Fake::new(), &[Some(Err("connection refused")), Some(Ok(()))]);
    scene.until_ready_is("False").await;
    let condition = scene.ready_condition();
    assert_eq!(
        (&condition["reason"], &condition["message"]),
        (&"BackendUnreachable".into(), &"connection refused".into())
    );
    assert_eq!(scene.state.borrow().recoveries, 0);
    scene.until_ready_is("True").await;
    assert_eq!(scene.ready_condition()["message"], "fine");
    assert!(scene.seconds(Instant::now()) < 11.0);
    scene.until_state(|state| state.recoveries == 1).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_goes_unnoticed_when_the_provider_needs_a_moment_to_be_ready() {
    let fake = Fake::new();
    let known = json!({"metadata": {"name": "v", "uid": "old"}, "spec": {}, "status": {
        "conditions": [{"type": "Ready", "status": "True"}]}});
    fake.meddle(|node| *node = known);
    let scene = Scene::begin(&fake, &[Some(Ok(()))]);
    scene.provider.set_ready("False");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(fake.times("PATCH node"), []);
    scene.provider.set_ready("True");
    fake.until("a patch", |contents| contents.asked("PATCH node") > 0).await;
    assert!(scene.seconds(Instant::now()) < 4.1);
    assert_eq!(scene.ready_condition()["status"], "True");
    scene.until_state(|state| state.uid.is_some() && state.recoveries == 0).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_stays_not_ready_is_shown_so_after_a_while() {
    let scene = Scene::begin(&Fake::new(), &[Some(Ok(()))]);
    scene.provider.set_ready("False");
    scene.until_ready_is("False").await;
    assert!((5.0..5.1).contains(&scene.seconds(Instant::now())));
    scene.provider.set_ready("True");
    scene.until_ready_is("True").await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_is_away_is_shown_without_waiting_for_the_provider() {
    let scene = Scene::begin(&Fake::new(), &[Some(Err("connection refused"))]);
    scene.provider.set_ready("False");
    scene.until_ready_is("False").await;
    assert!(scene.seconds(Instant::now()) < 0.1);
    assert_eq!(scene.ready_condition()["reason"], "BackendUnreachable");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_ping_that_never_answers_counts_as_a_failure_and_no_second_one_runs_beside_it() {
    let scene = Scene::begin(&Fake::new(), &[None]);
    scene.until_ready_is("False").await;
    assert_eq!(scene.ready_condition()["message"], "no answer within 5s");
    assert_eq!(scene.provider.pinged.load(Ordering::Relaxed), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_failed_ping_leaves_the_node_ready() {
    let scene = Scene::registered().await;
    scene.provider.set_pings(&[Some(Err("blip")), Some(Ok(()))]);
    let before = scene.provider.pinged.load(Ordering::Relaxed);
    scene.fake.until("some more pings", |_| scene.provider.pinged.load(Ordering::Relaxed) > before + 3).await;
    assert!(scene.fake.times("PATCH node").is_empty());
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn while_the_backend_is_away_the_node_says_so_and_its_lease_is_renewed() {
    let scene = Scene::registered().await;
    scene.provider.set_pings(&[Some(Err("gone"))]);
    let failed_at = Instant::now();
    scene.until_ready_is("False").await;
    assert!(failed_at.elapsed() < Duration::from_secs(13), "{:?}", failed_at.elapsed());
    assert_eq!(scene.ready_condition()["reason"], "BackendUnreachable");
    let renewed = scene.fake.times("PUT lease").len();
    scene.fake.until("renewals", |contents| contents.asked("PUT lease") >= renewed + 5).await;
    assert_eq!(scene.ready_condition()["status"], "False");
    scene.provider.set_pings(&[Some(Ok(()))]);
    scene.until_ready_is("True").await;
    scene.until_state(|state| state.recoveries == 2).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_changes_the_status_is_written_each_minute_and_the_lease_renewed_each_ten_seconds() {
    let scene = Scene::registered().await;
    scene.fake.until("three patches", |contents| contents.asked("PATCH node") == 3).await;
    let patches: Vec<f64> = scene.fake.times("PATCH node").into_iter().map(|at| scene.seconds(at).round()).collect();
    assert_eq!(patches, [60.0, 120.0, 180.0]);
    assert_eq!(scene.state.borrow().recoveries, 1);
    let renewals: Vec<Instant> = scene.fake.times("PUT lease");
    let gaps: Vec<u128> = renewals.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert!(gaps.len() > 10 && gaps.iter().all(|gap| (10_000..=10_401).contains(gap)), "{gaps:?}");
    assert!(gaps.windows(2).any(|pair| pair[0] != pair[1]), "no jitter: {gaps:?}");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_change_is_written_at_once_and_a_burst_of_further_ones_together() {
    let scene = Scene::registered().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let begin = Instant::now();
    for cpu in 2..100 {
        scene.provider.set_cpu(&cpu.to_string());
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    scene
        .fake
        .until("the last value", |contents| contents.node.as_ref().unwrap()["status"]["allocatable"]["cpu"] == "99")
        .await;
    let waits: Vec<u128> = scene.fake.times("PATCH node").into_iter().map(|at| (at - begin).as_millis()).collect();
    assert_eq!(waits.len(), 2, "{waits:?}");
    assert!(waits[0] <= 5 && (500..=510).contains(&waits[1]), "{waits:?}");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_registered_again_and_its_lease_gets_the_new_owner() {
    let scene = Scene::registered().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let deleted_at = Instant::now();
    scene.fake.meddle(|node| *node = Value::Null);
    // uid-2 was the lease.
    scene
        .fake
        .until("a new owner", |contents| {
            contents.lease.as_ref().unwrap()["metadata"]["ownerReferences"][0]["uid"] == "uid-3"
        })
        .await;
    assert!(deleted_at.elapsed() < Duration::from_secs(1), "{:?}", deleted_at.elapsed());
    let node = scene.fake.contents().node.clone().unwrap();
    assert_eq!(node["metadata"]["uid"], "uid-3");
    assert_eq!(node["spec"]["taints"][0]["value"], "test");
    assert_eq!(
        scene.fake.contents().lease.as_ref().unwrap()["metadata"]["ownerReferences"].as_array().unwrap().len(),
        1
    );
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_collected_with_the_old_node_is_made_again() {
    let scene = Scene::registered().await;
    scene.fake.contents().lease = None;
    scene.fake.meddle(|node| *node = Value::Null);
    scene.fake.until("a lease", |contents| contents.lease.is_some()).await;
    let (node, lease) = scene.objects();
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_others_replaced_is_taken_over_with_its_lease() {
    let scene = Scene::registered().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let replaced_at = Instant::now();
    scene.fake.meddle(|node| *node = json!({"metadata": {"name": "v", "uid": "theirs"}, "spec": {}, "status": {}}));
    scene.until_ready_is("True").await;
    scene
        .fake
        .until("a new owner", |contents| {
            contents.lease.as_ref().unwrap()["metadata"]["ownerReferences"][0]["uid"] == "theirs"
        })
        .await;
    assert!(replaced_at.elapsed() < Duration::from_secs(1), "{:?}", replaced_at.elapsed());
    assert_eq!(scene.fake.times("POST node").len(), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_declared_unknown_is_written_at_once_and_counts_as_recovered() {
    let scene = Scene::registered().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let declared_at = Instant::now();
    scene.fake.meddle(|node| node["status"]["conditions"][0]["status"] = "Unknown".into());
    scene.until_ready_is("True").await;
    assert!(declared_at.elapsed() < Duration::from_secs(1), "{:?}", declared_at.elapsed());
    scene.until_state(|state| state.recoveries == 2).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_fail_hang_or_conflict_are_repeated_until_they_succeed() {
    let fake = Fake::new();
    fake.contents().faults.extend([
        ("GET node", 500),
        ("GET node", 0),
        ("POST node", 403),
        ("POST node", 409),
        ("GET lease", 500),
        ("POST lease", 0),
    ]);
    let scene = Scene::begin(&fake, &[Some(Ok(()))]);
    for failure in [
        "the API server answered 500: refused with 500",
        "no answer from the API server within 10s",
        "the API server answered 403: refused with 403",
        "refused with 409",
    ] {
        scene.until_state(|state| state.failure.as_deref() == Some(failure)).await;
    }
    scene.until_state(|state| state.failure.is_none()).await;
    fake.until("a lease", |contents| contents.lease.is_some()).await;
    assert!(fake.contents().faults.is_empty());
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_for_long_is_asked_each_few_seconds_and_not_given_up() {
    let fake = Fake::new();
    fake.contents().faults.extend(std::iter::repeat_n(("GET node", 500), 400));
    let scene = Scene::begin(&fake, &[Some(Ok(()))]);
    tokio::time::sleep(Duration::from_secs(3000)).await;
    let times = fake.times("GET node");
    let waits: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.len() > 250, "{}", waits.len());
    assert!(waits[8..].iter().all(|wait| (7400..=10_100).contains(&wait.as_millis())), "{waits:?}");
    fake.contents().faults.clear();
    scene.until_ready_is("True").await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_work_at_once_also_in_the_midst_of_a_request_and_leaves_node_and_lease() {
    let scene = Scene::registered().await;
    scene.fake.contents().faults.extend([("GET node", 0), ("PUT lease", 0)]);
    scene.provider.set_cpu("7");
    scene.fake.until("a request that hangs", |contents| contents.faults.len() == 1).await;
    let (fake, cancelled_at) = (scene.fake.clone(), Instant::now());
    scene.end().await;
    assert_eq!(cancelled_at.elapsed(), Duration::ZERO);
    assert!(fake.contents().node.is_some() && fake.contents().lease.is_some());
    assert!(!fake.asked().iter().any(|asked| asked.starts_with("DELETE")));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_describes_no_node_is_an_error() {
    let scene = Scene::begin(&Fake::new(), &[Some(Ok(()))]);
    let (fake, provider) = (scene.fake.clone(), scene.provider.clone());
    scene.end().await;
    *provider.node.lock().unwrap() = json!("v");
    let controller = NodeController::new(fake.client(), provider, NodeControllerConfig::new("v"));
    assert_eq!(controller.run(CancellationToken::new()).await, Err(NodeError::NotANode("v".into())));
}
