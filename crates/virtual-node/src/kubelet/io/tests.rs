//! What the lower API server's answers become, without one.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use tensile_core::pod::LinkView;
use virtual_kubelet::server::{UpgradeTarget, options::Streams};

use super::*;

type Asked = Arc<Mutex<Vec<String>>>;

/// A lower cluster that answers requests for pod `ns/web` with `pod`, and all others with `code` and `body`.
fn lower(pod: serde_json::Value, code: u16, body: &'static str) -> (LowerCluster, Asked) {
    let asked = Asked::default();
    let seen = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().to_string();
        let (code, body) = match path.as_str() {
            "/api/v1/namespaces/ns/pods/web" => (200, pod.to_string()),
            _ => (code, body.to_owned()),
        };
        seen.lock().unwrap().push(format!("{} {path}", request.method()));
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap()) }
    });
    let link = LinkView { upper_cluster: "up".to_owned(), virtual_node: "v".to_owned(), ..LinkView::default() };
    (LowerCluster::new(kube::Client::new(service, "default"), link, String::new(), true), asked)
}

/// The lower pod that node `v` of cluster `up` made for the upper pod with this UID.
fn made_for(uid: &str) -> serde_json::Value {
    serde_json::json!({"metadata": {
        "name": "web", "namespace": "ns", "uid": "below", "resourceVersion": "1",
        "labels": {"tensile.io/upper-cluster": "up", "tensile.io/virtual-node": "v"},
        "annotations": {"tensile.io/upper-uid": uid, "tensile.io/upper-name": "ns/web"},
    }})
}

fn web() -> PodId {
    PodId::new("ns", "web", "uid")
}

#[tokio::test]
async fn a_log_is_read_from_the_pod_that_was_made_for_this_one() {
    let (lower, asked) = lower(made_for("uid"), 200, "line\n");
    let log = lower.logs(&web(), "main", &LogOptions::default()).await.unwrap();
    let chunks: Vec<Bytes> = log.try_collect().await.unwrap();
    assert_eq!(chunks.concat(), b"line\n");
    assert_eq!(
        *asked.lock().unwrap(),
        ["GET /api/v1/namespaces/ns/pods/web", "GET /api/v1/namespaces/ns/pods/web/log?container=main"]
    );
}

#[tokio::test]
async fn a_pod_without_a_node_has_an_empty_log() {
    let (lower, _) = lower(made_for("uid"), 204, "");
    let log = lower.logs(&web(), "main", &LogOptions::default()).await.unwrap();
    assert!(log.try_collect::<Vec<Bytes>>().await.unwrap().concat().is_empty());
}

#[tokio::test]
async fn nobody_looks_into_a_pod_that_was_made_for_another_or_by_others() {
    let mut foreign = made_for("uid");
    foreign["metadata"]["labels"] = serde_json::json!({});
    for pod in [made_for("an earlier one"), foreign] {
        let (lower, asked) = lower(pod, 200, "secret");
        let error = lower.logs(&web(), "main", &LogOptions::default()).await.err().unwrap();
        assert_eq!(error.status(), 400, "{error}");
        let target = UpgradeTarget::Attach { container: "main".to_owned(), streams: Streams::default() };
        let request = UpgradeRequest { pod: web(), target, method: http::Method::GET, headers: http::HeaderMap::new() };
        assert_eq!(lower.relay(request).await.unwrap_err().status(), 400);
        assert_eq!(asked.lock().unwrap().len(), 2, "only the pod itself was asked for");
    }
}

#[tokio::test]
async fn a_refusal_is_passed_on_in_the_servers_own_words() {
    let status = r#"{"kind":"Status","status":"Failure","message":"container x is not valid for pod web","code":400}"#;
    let target = || UpgradeTarget::PortForward { ports: vec![] };
    let request =
        || UpgradeRequest { pod: web(), target: target(), method: http::Method::POST, headers: http::HeaderMap::new() };
    for (code, body, expected, words) in [
        (400, status, 400, "container x is not valid for pod web"),
        (403, "no\n", 403, "no"),
        (500, "", 500, ""),
        (401, "Unauthorized", 502, "the lower API server does not accept this node's credentials"),
        (302, "", 502, "the lower API server answers 302 Found"),
    ] {
        let (lower, _) = lower(made_for("uid"), code, body);
        let errors = [
            lower.logs(&web(), "x", &LogOptions::default()).await.err().unwrap(),
            lower.relay(request()).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!((error.status().as_u16(), error.to_string().as_str()), (expected, words));
        }
    }
}
