// SPDX-License-Identifier: Apache-2.0
//! Tables of what a lease looks like and what follows an answer.

use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn terms() -> LeaseTerms {
    LeaseTerms { node: "v".into(), duration: MS(40_000), interval: MS(10_000) }
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05.678901Z".parse().unwrap()
}

fn lease(version: &str) -> Value {
    json!({"metadata": {"name": "v", "resourceVersion": version}})
}

/// Answers one after another: which requests were sent, and what came after each.
fn course(answers: &[Answer]) -> Vec<(&'static str, Next)> {
    let mut renewal = Renewal::default();
    let course = answers.iter().map(|answer| {
        let request = match renewal.request(&terms(), "u", now()) {
            Request::Get => "get",
            Request::Create(_) => "create",
            Request::Replace(_) => "replace",
        };
        (request, renewal.answered(answer.clone(), 0.0))
    });
    course.collect()
}

const AT_ONCE: Next = Next::Again(Duration::ZERO);

#[test]
fn a_new_lease_names_its_holder_its_owner_and_its_time() {
    let mut renewal = Renewal::default();
    renewal.answered(Answer::NotFound, 0.0);
    let Request::Create(made) = renewal.request(&terms(), "u1", now()) else { panic!("not created") };
    assert_eq!(
        made,
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "v", "namespace": "kube-node-lease",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "v", "uid": "u1"}]},
            "spec": {"holderIdentity": "v", "leaseDurationSeconds": 40, "renewTime": "2026-01-02T03:04:05.678901Z"},
        })
    );
}

#[test]
fn a_renewal_keeps_what_is_not_ours_and_replaces_an_old_owner() {
    let mut renewal = Renewal::default();
    let old = json!({
        "metadata": {"name": "v", "resourceVersion": "7", "labels": {"a": "b"}, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "v", "uid": "gone"},
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "x"},
        ]},
        "spec": {"leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z", "newField": 1},
    });
    renewal.answered(Answer::Lease(old), 0.0);
    let Request::Replace(renewed) = renewal.request(&terms(), "new", now()) else { panic!("not replaced") };
    assert_eq!(renewed["metadata"]["resourceVersion"], "7");
    assert_eq!(renewed["metadata"]["labels"], json!({"a": "b"}));
    let owners = renewed["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.iter().map(|owner| owner["uid"].as_str().unwrap()).collect::<Vec<_>>(), ["x", "new"]);
    assert_eq!(renewed["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(renewed["spec"]["newField"], 1);
    assert_eq!(renewed["spec"]["renewTime"], "2026-01-02T03:04:05.678901Z");
}

#[test]
fn an_absent_lease_is_made_and_then_renewed_without_reading_it_again() {
    assert_eq!(
        course(&[Answer::NotFound, Answer::Lease(lease("1")), Answer::Lease(lease("2")), Answer::Lease(lease("3"))]),
        [("get", AT_ONCE), ("create", Next::Renewed), ("replace", Next::Renewed), ("replace", Next::Renewed)]
    );
}

#[test]
fn a_lease_that_is_there_is_renewed_at_once() {
    assert_eq!(
        course(&[Answer::Lease(lease("1")), Answer::Lease(lease("2"))]),
        [("get", AT_ONCE), ("replace", Next::Renewed)]
    );
}

#[test]
fn a_lease_that_another_wrote_or_deleted_is_read_again_at_once() {
    for outdated in [Answer::Conflict, Answer::NotFound] {
        assert_eq!(
            course(&[Answer::Lease(lease("1")), outdated, Answer::Lease(lease("5")), Answer::Lease(lease("6"))]),
            [("get", AT_ONCE), ("replace", AT_ONCE), ("get", AT_ONCE), ("replace", Next::Renewed)]
        );
    }
}

#[test]
fn a_lease_made_by_another_in_between_is_read_again_at_once() {
    assert_eq!(
        course(&[Answer::NotFound, Answer::Conflict, Answer::Lease(lease("1"))]),
        [("get", AT_ONCE), ("create", AT_ONCE), ("get", AT_ONCE)]
    );
}

#[test]
fn a_renewal_that_fails_is_repeated_five_times_at_once_and_then_begins_anew_with_waits() {
    let mut answers = vec![Answer::Lease(lease("1"))];
    answers.extend(std::iter::repeat_n(Answer::Failed, 15));
    let course = course(&answers);
    assert_eq!(course[1..6], [("replace", AT_ONCE); 5]);
    assert_eq!(course[6], ("replace", Next::Again(MS(100))));
    let waits: Vec<_> = course[7..].iter().map(|(request, next)| (*request, *next)).collect();
    let expected = [200, 400, 800, 1600, 3200, 6400, 7000, 7000, 7000].map(|wait| ("get", Next::Again(MS(wait))));
    assert_eq!(waits, expected);
}

#[test]
fn conflicts_without_end_wait_too() {
    let answers: Vec<_> = std::iter::repeat_n([Answer::Lease(lease("1")), Answer::Conflict], 8).flatten().collect();
    let course = course(&answers);
    let waits: Vec<_> = course.iter().filter(|(request, _)| *request == "replace").map(|(_, next)| *next).collect();
    assert_eq!(waits[..5], [AT_ONCE; 5]);
    assert_eq!(waits[5..], [100, 200, 400].map(|wait| Next::Again(MS(wait))));
}

#[test]
fn a_success_forgets_all_failures() {
    let mut renewal = Renewal::default();
    for _ in 0..20 {
        renewal.answered(Answer::Failed, 0.0);
    }
    renewal.answered(Answer::NotFound, 0.0);
    assert_eq!(renewal.answered(Answer::Lease(lease("1")), 0.0), Next::Renewed);
    assert_eq!(renewal, Renewal { step: Step::Renew(lease("1")), repeated: 0, failures: 0 });
}
