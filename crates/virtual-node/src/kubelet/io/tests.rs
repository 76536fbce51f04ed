// SPDX-License-Identifier: Apache-2.0
//! What the lower API server's answers become, without one.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use tensile_core::pod::LinkView;
use virtual_kubelet::server::{UpgradeTarget, options::Streams};

use super::*;
use crate::{
    identity::Identity,
    lower::namespaces::Namespaces,
    objects::{Objects, OnConflict},
};

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
    (cluster(kube::Client::new(service, "default"), link), asked)
}

fn cluster(client: kube::Client, link: LinkView) -> LowerCluster {
    let namespaces = Namespaces::new(client.clone(), link.clone(), None);
    let objects = Objects::new(client.clone(), client.clone(), link.clone(), namespaces.clone(), OnConflict::default());
    let identity = Identity::new(client.clone(), client.clone(), link.clone(), &prometheus::Registry::new()).unwrap();
    LowerCluster::new(client, link, String::new(), true, namespaces, objects, identity)
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

#[tokio::test]
async fn a_command_that_is_run_is_refused_in_the_servers_words_too() {
    let status =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods \"web\" is forbidden","code":403}"#;
    let command = ["ls".to_owned(), "a b".to_owned()];
    let (below, asked) = lower(made_for("uid"), 403, status);
    let error = below.run(&web(), "main", &command).await.unwrap_err();
    assert_eq!((error.status().as_u16(), error.to_string().as_str()), (403, "pods \"web\" is forbidden"));
    let path = "/api/v1/namespaces/ns/pods/web/exec?";
    let asked = asked.lock().unwrap().pop().unwrap();
    assert!(asked.starts_with(&format!("GET {path}")) && asked.ends_with("command=ls&command=a+b"), "{asked}");
    let (below, asked) = lower(made_for("an earlier one"), 200, "");
    assert_eq!(below.run(&web(), "main", &command).await.unwrap_err().status(), 400);
    assert_eq!(asked.lock().unwrap().len(), 1, "only the pod itself was asked for");
}

/// An API server on a socket: it shows pod `ns/web`, switches to any protocol that is asked for, and then says everything
/// back. Returns its address; what was asked of it comes through the channel.
async fn on_a_socket() -> (std::net::SocketAddr, tokio::sync::mpsc::UnboundedReceiver<String>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, heads) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let asked = asked.clone();
            tokio::spawn(async move {
                loop {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else { return };
                        head.push(byte);
                    }
                    let head = String::from_utf8(head).unwrap();
                    let switch = head.contains("upgrade: SPDY/3.1");
                    asked.send(head).unwrap();
                    if switch {
                        let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                                      X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\nfirst";
                        stream.write_all(answer.as_bytes()).await.unwrap();
                        let (mut reader, mut writer) = split(stream);
                        copy(&mut reader, &mut writer).await.unwrap();
                        return writer.shutdown().await.unwrap();
                    }
                    let pod = made_for("uid").to_string();
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{pod}", pod.len());
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    (address, heads)
}

#[tokio::test]
async fn an_upgrade_is_made_below_and_carries_bytes_both_ways() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (address, mut heads) = on_a_socket().await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let config = serde_json::json!({
        "clusters": [{"name": "a", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "a", "user": {"token": "of-the-node"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let source = tensile_runtime::clients::ClientSource::new("virtual-node", Some(kubeconfig));
    let client = tensile_runtime::clients::connect(&source).await.unwrap();
    let link = LinkView { upper_cluster: "up".to_owned(), virtual_node: "v".to_owned(), ..LinkView::default() };
    let lower = cluster(client, link);

    let mut headers = http::HeaderMap::new();
    headers.insert("connection", http::HeaderValue::from_static("Upgrade"));
    headers.insert("upgrade", http::HeaderValue::from_static("SPDY/3.1"));
    headers.append("x-stream-protocol-version", http::HeaderValue::from_static("v5.channel.k8s.io"));
    headers.append("x-stream-protocol-version", http::HeaderValue::from_static("v4.channel.k8s.io"));
    let streams = Streams { stdin: true, stdout: true, stderr: false, tty: false };
    let target = UpgradeTarget::Exec { container: "main".to_owned(), command: vec!["sh".to_owned()], streams };
    let request = UpgradeRequest { pod: web(), target, method: http::Method::POST, headers };
    let upgraded = lower.relay(request).await.unwrap();
    assert_eq!(upgraded.headers["x-stream-protocol-version"], "v4.channel.k8s.io");
    // Silence for longer than any clock here has patience with requests and connections that nobody uses.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(5 * 3600)).await;
    tokio::time::resume();

    assert!(heads.recv().await.unwrap().starts_with("GET /api/v1/namespaces/ns/pods/web HTTP/1.1\r\n"));
    let head = heads.recv().await.unwrap();
    let path = "POST /api/v1/namespaces/ns/pods/web/exec?container=main&command=sh&stdin=true&stdout=true&stderr=false&tty=false";
    assert!(head.starts_with(path), "{head}");
    for line in ["x-stream-protocol-version: v5.channel.k8s.io", "x-stream-protocol-version: v4.channel.k8s.io"] {
        assert!(head.contains(line), "{head}");
    }
    assert!(head.contains("authorization: Bearer of-the-node"), "{head}");

    let big = vec![7; 300_000];
    let (mut reader, mut writer) = tokio::io::split(upgraded.stream);
    let sent = big.clone();
    let write = tokio::spawn(async move {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    let mut came = Vec::new();
    reader.read_to_end(&mut came).await.unwrap();
    write.await.unwrap();
    assert_eq!(came.strip_prefix(b"first"), Some(big.as_slice()), "what came with the head is not lost");
}
