// SPDX-License-Identifier: Apache-2.0
//! The HTTP around the decision.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};
use tower::ServiceExt;
use webhook::metrics::Metrics;
use webhook::mutate::Policy;
use webhook::router::{Admission, MAX_BODY, router};

use super::{review, virtual_pod};

fn service(registry: &Registry) -> Arc<Admission> {
    let metrics = Metrics::new(registry).unwrap();
    Arc::new(Admission {
        policy: Policy::default(),
        exclusions: Arc::default(),
        selected: Arc::default(),
        deadline: Duration::from_secs(10),
        metrics,
    })
}

async fn send(registry: &Registry, request: Request<Body>) -> (StatusCode, String) {
    let response = router(service(registry)).oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn post(body: impl Into<Body>) -> Request<Body> {
    let request = Request::post("/mutate?timeout=10s").header("Content-Type", "application/json");
    request.body(body.into()).unwrap()
}

#[tokio::test]
async fn a_review_is_answered_and_counted() {
    let registry = Registry::new();
    let pod = virtual_pod(&json!({"nodeSelector": {"disk": "ssd"}}));
    let (status, body) = send(&registry, post(review("CREATE", "default", &pod).to_string())).await;
    assert_eq!(status, StatusCode::OK);
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    let metrics = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    for line in [
        r#"tensile_webhook_reviews_total{outcome="changed"} 1"#,
        r#"tensile_webhook_reviews_total{outcome="denied"} 0"#,
        r#"tensile_webhook_reviews_total{outcome="refused"} 0"#,
        r#"tensile_webhook_reviews_total{outcome="untouched"} 0"#,
        "tensile_webhook_review_seconds_count 1",
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn what_is_not_a_review_is_a_bad_request_with_the_reason() {
    let registry = Registry::new();
    let (status, body) = send(&registry, post("{")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(body, "the body is not an AdmissionReview: EOF while parsing an object at line 1 column 1\n");
    let metrics = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    assert!(metrics.contains(r#"tensile_webhook_reviews_total{outcome="refused"} 1"#), "{metrics}");
}

#[tokio::test]
async fn another_media_type_is_refused() {
    for given in ["text/plain", "application/jsonx", ""] {
        let request = Request::post("/mutate").header("Content-Type", given).body(Body::from("{}")).unwrap();
        let (status, body) = send(&Registry::new(), request).await;
        assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert_eq!(body, format!("expected a body of type application/json, got {given:?}\n"));
    }
}

#[tokio::test]
async fn a_media_type_with_a_charset_is_taken() {
    let body = review("CREATE", "default", &json!({})).to_string();
    let request = Request::post("/mutate").header("Content-Type", "Application/JSON ; charset=utf-8");
    assert_eq!(send(&Registry::new(), request.body(Body::from(body)).unwrap()).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_body_over_the_limit_is_not_read_on() {
    let (status, body) = send(&Registry::new(), post(vec![b' '; MAX_BODY + 1])).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(body, "the body breaks off or is longer than 7340032 bytes\n");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_not_waited_for() {
    let never = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let (status, body) = send(&Registry::new(), post(never)).await;
    assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
    assert_eq!(body, "the body did not arrive within 10 s\n");
}

#[tokio::test]
async fn other_paths_and_methods_are_not_there() {
    for (method, path, expected) in [
        (Method::GET, "/mutate", StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/", StatusCode::NOT_FOUND),
        (Method::GET, "/healthz", StatusCode::OK),
    ] {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        assert_eq!(send(&Registry::new(), request).await.0, expected, "{path}");
    }
}
