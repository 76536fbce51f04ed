// SPDX-License-Identifier: Apache-2.0
//! Which right each path needs, and how long an answer counts.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::{Request, Response};
use kube::client::Body;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::server::request::{Endpoint, route};

#[test]
fn every_path_needs_the_right_that_the_kubelet_asks_for() {
    let fine = |part: &'static str| vec![part, "proxy"];
    for (path, expected) in [
        ("/pods", fine("pods")),
        ("/pods/", fine("pods")),
        ("/runningpods/", fine("pods")),
        ("/healthz", fine("healthz")),
        ("/healthz/syncloop", fine("healthz")),
        ("/configz", fine("configz")),
        ("/statusz", fine("statusz")),
        ("/stats/summary", vec!["stats"]),
        ("/metrics", vec!["metrics"]),
        ("/metrics/cadvisor", vec!["metrics"]),
        ("/logs/", vec!["log"]),
        ("/checkpoint/n/p/c", vec!["checkpoint"]),
        ("/containerLogs/n/p/c", vec!["proxy"]),
        ("/debug/pprof/profile", vec!["proxy"]),
        ("/podsx", vec!["proxy"]),
        ("/metricsx", vec!["proxy"]),
        ("/", vec!["proxy"]),
        ("", vec!["proxy"]),
    ] {
        assert_eq!(attributes(&Method::GET, path).subresources, expected, "{path}");
    }
}

#[test]
fn methods_are_verbs() {
    for (method, verb) in [
        (Method::GET, "get"),
        (Method::POST, "create"),
        (Method::PUT, "update"),
        (Method::PATCH, "patch"),
        (Method::DELETE, "delete"),
        (Method::HEAD, ""),
        (Method::OPTIONS, ""),
    ] {
        assert_eq!(attributes(&method, "/pods").verb, verb);
    }
}

#[test]
fn writing_into_a_container_is_create_however_it_is_asked_for() {
    for path in ["/exec/n/p/c", "/attach/n/p/u/c", "/run/n/p/c", "/portForward/n/p"] {
        let expected = Attributes { verb: "create", subresources: &["proxy"] };
        assert_eq!((attributes(&Method::GET, path), attributes(&Method::POST, path)), (expected, expected), "{path}");
    }
    assert_eq!(attributes(&Method::GET, "/containerLogs/n/p/c").verb, "get");
}

proptest! {
    /// No spelling of a path is authorized as one thing and answered as another.
    #[test]
    fn what_reaches_a_container_always_needs_the_whole_proxy(
        segments in prop::collection::vec(
            prop::sample::select(vec!["exec", "attach", "run", "portForward", "containerLogs", "pods", "metrics", "..", "", "a"]),
            0..6,
        ),
        post in any::<bool>(),
    ) {
        let path = format!("/{}", segments.join("/"));
        let method = if post { Method::POST } else { Method::GET };
        let needed = attributes(&method, &path);
        match route(&method, &path) {
            Ok(Endpoint::Exec(_) | Endpoint::Attach(_) | Endpoint::Run(_) | Endpoint::PortForward(_)) => {
                prop_assert_eq!(needed, Attributes { verb: "create", subresources: &["proxy"] });
            }
            Ok(Endpoint::Logs(_)) => prop_assert_eq!(needed.subresources, &["proxy"]),
            _ => {}
        }
    }
}

/// An API server that allows user `may` to `get` `nodes/pods`, and counts its reviews.
fn reviewing() -> (Client, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let counted = counted.clone();
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            let body = request.into_body().collect_bytes().await.unwrap();
            let review: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let asked = &review["spec"]["resourceAttributes"];
            assert_eq!(
                (&asked["resource"], &asked["name"], &asked["version"]),
                (&json!("nodes"), &json!("v"), &json!("v1"))
            );
            let right = asked["verb"] == "get" && asked["subresource"] == "pods";
            let answer = match review["spec"]["user"].as_str() {
                Some("broken") => json!({"kind": "Status", "status": "Failure", "code": 500}),
                user => json!({"spec": review["spec"], "status": {"allowed": user == Some("may") && right}}),
            };
            let code = answer["code"].as_u64().map_or(201, |_| 500);
            Ok::<_, std::convert::Infallible>(
                Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap(),
            )
        }
    });
    (Client::new(service, "default"), count)
}

fn user(name: &str) -> Identity {
    Identity { username: name.to_owned(), ..Identity::default() }
}

const PODS: Attributes = Attributes { verb: "get", subresources: &["pods", "proxy"] };

#[tokio::test(start_paused = true)]
async fn a_yes_counts_for_five_minutes() {
    let (client, asked) = reviewing();
    let authorizer = Authorizer::new(client, "v");
    for _ in 0..3 {
        assert!(authorizer.allows(&user("may"), PODS).await.unwrap());
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(299)).await;
    assert!(authorizer.allows(&user("may"), PODS).await.unwrap());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(authorizer.allows(&user("may"), PODS).await.unwrap());
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_no_counts_for_thirty_seconds_and_for_one_user_and_verb() {
    let (client, asked) = reviewing();
    let authorizer = Authorizer::new(client, "v");
    assert!(!authorizer.allows(&user("other"), PODS).await.unwrap());
    assert!(!authorizer.allows(&user("other"), PODS).await.unwrap());
    assert_eq!(asked.load(Ordering::SeqCst), 2, "one for each of the two subresources");
    assert!(authorizer.allows(&user("may"), PODS).await.unwrap());
    assert!(!authorizer.allows(&user("may"), Attributes { verb: "create", ..PODS }).await.unwrap());
    assert_eq!(asked.load(Ordering::SeqCst), 5);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert!(!authorizer.allows(&user("other"), PODS).await.unwrap());
    assert_eq!(asked.load(Ordering::SeqCst), 7);
}

#[tokio::test]
async fn a_review_that_fails_is_neither_yes_nor_no_and_is_not_remembered() {
    let (client, asked) = reviewing();
    let authorizer = Authorizer::new(client, "v");
    assert!(authorizer.allows(&user("broken"), PODS).await.is_err());
    assert!(authorizer.allows(&user("broken"), PODS).await.is_err());
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}
