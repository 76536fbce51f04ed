// SPDX-License-Identifier: Apache-2.0
//! Who is let in, and what everybody else is told.

use http::Request;
use http_body_util::Empty;
use rcgen::ExtendedKeyUsagePurpose;

use super::{
    super::*,
    scene::{Scene, authority, read, signed},
};

/// Method, path, what `full` gets, what `getter` gets.
const PATHS: &[(&str, &str, u16, u16)] = &[
    ("GET", "/pods", 200, 200),
    ("GET", "/runningpods/", 200, 200),
    ("GET", "/healthz", 200, 200),
    ("GET", "/configz", 200, 200),
    ("GET", "/metrics", 200, 200),
    ("GET", "/metrics/resource", 501, 501),
    ("GET", "/stats/summary", 501, 501),
    ("GET", "/containerLogs/ns/absent/main", 404, 404),
    ("GET", "/exec/ns/web/main?output=1&command=id", 400, 403),
    ("POST", "/exec/ns/web/main?output=1&command=id", 400, 403),
    ("GET", "/attach/ns/web/main?output=1", 400, 403),
    ("GET", "/portForward/ns/web", 400, 403),
    ("POST", "/run/ns/web/main", 400, 403),
    ("POST", "/run/ns/absent/main?cmd=id", 404, 403),
    ("GET", "/run/ns/web/main?cmd=id", 405, 403),
    ("POST", "/checkpoint/ns/web/main", 501, 403),
    ("GET", "/checkpoint/ns/web/main", 405, 405),
    ("DELETE", "/pods", 405, 403),
    ("GET", "/nothing", 404, 404),
];

#[tokio::test]
async fn every_path_is_closed_to_whoever_has_no_right_to_it() {
    let scene = Scene::start().await;
    for (method, path, full, getter) in PATHS {
        for (token, expected) in [
            (None, 401),
            (Some("bad"), 401),
            (Some("broken"), 401),
            (Some("powerless"), 403),
            (Some("unsure"), 500),
            (Some("getter"), *getter),
            (Some("full"), *full),
        ] {
            let (status, body) = read(scene.send(token, method, path).await).await;
            assert_eq!(status, expected, "{token:?} {method} {path}: {body}");
            assert!(!body.contains("secret"), "{body}");
        }
    }
    assert!(scene.backend.asked.lock().unwrap().is_empty(), "nothing reached the provider");
}

#[tokio::test]
async fn certificates_are_known_by_their_authority() {
    let scene = Scene::start().await;
    let stranger = Some(signed(&authority(), "full", ExtendedKeyUsagePurpose::ClientAuth));
    let cases = [(Some(scene.known("full")), 200), (Some(scene.known("powerless")), 403), (stranger, 401), (None, 401)];
    for (identity, expected) in cases {
        let request = Request::get("/healthz").header("host", "v").body(Empty::new()).unwrap();
        assert_eq!(scene.connect(identity).await.send_request(request).await.unwrap().status(), expected);
    }
}

#[tokio::test]
async fn a_new_authority_counts_on_connections_that_exist() {
    let scene = Scene::start().await;
    let mut connection = scene.connect(Some(scene.known("full"))).await;
    let request = || Request::get("/healthz").header("host", "v").body(Empty::new()).unwrap();
    assert_eq!(read(connection.send_request(request()).await.unwrap()).await, (200, "ok".to_owned()));
    scene.client_ca.send_replace(ClientCa::from_pem(authority().pem().as_bytes()).unwrap());
    assert_eq!(read(connection.send_request(request()).await.unwrap()).await, (401, "Unauthorized".to_owned()));
}

#[tokio::test]
async fn a_refusal_says_no_more_than_the_caller_knows() {
    let scene = Scene::start().await;
    let (_, body) = read(scene.send(Some("powerless"), "GET", "/pods").await).await;
    assert_eq!(body, "Forbidden (user=powerless, verb=get, resource=nodes, subresource(s)=[pods proxy])");
    let refusal = scene.send(Some("full"), "PUT", "/exec/ns/web/main").await;
    assert_eq!((refusal.status().as_u16(), &refusal.headers()["allow"]), (405, &"GET, POST".parse().unwrap()));
}

#[tokio::test]
async fn pods_are_those_of_the_node_as_the_api_server_has_them() {
    let scene = Scene::start().await;
    let (_, all) = scene.full("GET", "/pods").await;
    assert_eq!(all, r#"{"asked":"resourceVersion=0&fieldSelector=spec.nodeName=v","kind":"PodList"}"#);
    let (_, running) = scene.full("GET", "/runningpods/").await;
    assert!(running.contains("spec.nodeName=v,status.phase=Running"), "{running}");
}

#[tokio::test]
async fn metrics_have_the_kubelets_types_and_what_a_provider_lacks_is_not_implemented() {
    let scene = Scene::start().await;
    scene.backend.measures.store(true, std::sync::atomic::Ordering::Relaxed);
    let text = "text/plain; version=0.0.4; charset=utf-8";
    for (path, status, kind, body) in [
        ("/metrics/resource", 200, text, "resource"),
        ("/stats/summary", 200, "application/json", "summary, brief: false"),
        ("/stats/summary?only_cpu_and_memory=true", 200, "application/json", "summary, brief: true"),
        ("/metrics/cadvisor", 501, "text/plain; charset=utf-8", "this node does not support metrics of cAdvisor"),
        ("/metrics/probes", 501, "text/plain; charset=utf-8", "this node does not support metrics of probes"),
    ] {
        let answer = scene.send(Some("full"), "GET", path).await;
        assert_eq!(answer.headers()["content-type"], kind, "{path}");
        assert_eq!(read(answer).await, (status, body.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn every_path_tells_other_methods_what_is_allowed() {
    let scene = Scene::start().await;
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    for (path, allowed) in [
        ("/pods", "GET"),
        ("/runningpods/", "GET"),
        ("/containerLogs/ns/web/main", "GET"),
        ("/stats/summary", "GET"),
        ("/metrics", "GET"),
        ("/metrics/resource", "GET"),
        ("/metrics/cadvisor", "GET"),
        ("/metrics/probes", "GET"),
        ("/healthz", "GET"),
        ("/healthz/ping", "GET"),
        ("/configz", "GET"),
        ("/exec/ns/web/main", "GET, POST"),
        ("/attach/ns/web/main", "GET, POST"),
        ("/portForward/ns/web", "GET, POST"),
        ("/run/ns/web/main", "POST"),
        ("/checkpoint/ns/web/main", "POST"),
    ] {
        for method in methods {
            let answer = scene.send(Some("full"), method, path).await;
            let (status, allow) = (answer.status(), answer.headers().get("allow").cloned());
            if allowed.split(", ").any(|name| name == method) {
                assert!(status != 405 && allow.is_none(), "{method} {path}: {status} {allow:?}");
            } else {
                let allow = allow.unwrap_or_else(|| panic!("{method} {path}: {status} without Allow"));
                assert_eq!((status.as_u16(), allow.to_str().unwrap()), (405, allowed), "{method} {path}");
            }
        }
    }
}
