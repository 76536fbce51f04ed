// SPDX-License-Identifier: Apache-2.0
//! Clients against servers that are fine, away, untrusted or unwilling, and against files that are wrong.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use http::HeaderMap;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::tls::CertificateFiles;
use crate::upper_id::cluster_id;

/// What a server was asked: method and path, headers, body.
type Asked = Arc<Mutex<Vec<(String, HeaderMap, Bytes)>>>;

/// A directory for kubeconfigs and the files they name.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A kubeconfig with one context `a`; `cluster` and `user` are lines of YAML in flow style.
    fn kubeconfig(&self, cluster: &str, user: &str) -> PathBuf {
        self.write(
            "kubeconfig",
            &format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n"
            ),
        )
    }
}

fn source(path: &Path) -> ClientSource {
    ClientSource::new("virtual-node", Some(path.to_owned()))
}

async fn refused(path: &Path) -> String {
    match connect(&source(path)).await {
        Ok(_) => panic!("a client was made"),
        Err(error) => error.to_string().replace(&path.parent().unwrap().display().to_string(), "DIR"),
    }
}

/// An API server that answers every request with `status` and `body`, and notes what it was asked.
fn answering(status: u16, body: serde_json::Value) -> (Router, Asked) {
    let asked = Asked::default();
    let notes = asked.clone();
    let router = Router::new().fallback(async move |request: Request| {
        let (parts, body_sent) = request.into_parts();
        let sent = axum::body::to_bytes(body_sent, 1 << 20).await.unwrap();
        notes.lock().unwrap().push((format!("{} {}", parts.method, parts.uri), parts.headers, sent));
        (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
    });
    (router, asked)
}

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    addr
}

async fn plain(status: u16, body: serde_json::Value) -> (Client, Asked) {
    let (router, asked) = answering(status, body);
    let files = Files::new();
    let path = files.kubeconfig(&format!("server: 'http://{}'", serve(router).await), "token: t0ken");
    (connect(&source(&path)).await.unwrap(), asked)
}

fn version(minor: &str) -> serde_json::Value {
    json!({"major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.2"), "platform": "linux/amd64"})
}

fn failure(code: u16, message: &str) -> serde_json::Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
           "reason": "Any", "code": code})
}

#[tokio::test]
async fn a_client_names_itself_and_shows_its_token() {
    let (client, asked) = plain(200, version("36")).await;
    assert_eq!(probe(&client).await.unwrap().to_string(), "v1.36.2");
    let asked = asked.lock().unwrap();
    let (line, headers, _) = &asked[0];
    assert_eq!(line, "GET /version");
    let header = |name: &str| headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!(header("user-agent"), concat!("tensile-virtual-node/", env!("CARGO_PKG_VERSION")));
    assert_eq!(header("authorization"), "Bearer t0ken");
    assert!(headers.get("accept-encoding").is_none(), "compression is off");
}

#[tokio::test]
async fn what_is_overloaded_is_asked_once() {
    let (client, asked) = plain(503, failure(503, "starting")).await;
    let error = probe(&client).await.unwrap_err();
    assert!(error.is_away(), "{error}");
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_expired_token_is_said_to_be_one() {
    let (client, _) = plain(401, failure(401, "Unauthorized")).await;
    assert_eq!(probe(&client).await, Err(ProbeError::Unauthorized));
}

#[tokio::test]
async fn what_is_no_api_server_is_said_to_be_none() {
    let (client, _) = plain(200, json!(["hello"])).await;
    assert!(matches!(probe(&client).await, Err(ProbeError::Unexpected { .. })));
}

#[tokio::test]
async fn nobody_there_is_away() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let files = Files::new();
    let path = files.kubeconfig(&format!("server: 'http://{addr}'"), "");
    let error = probe(&connect(&source(&path)).await.unwrap()).await.unwrap_err();
    assert!(error.is_away() && error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn the_cluster_is_known_by_the_uid_of_kube_system() {
    let (client, asked) = plain(
        200,
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
               "metadata": {"name": "kube-system", "uid": "0b8e7d7c-aaaa-bbbb-cccc-000000000001"}}),
    )
    .await;
    assert_eq!(cluster_id(&client).await.unwrap(), "0b8e7d7c-aaaa-bbbb-cccc-000000000001");
    assert!(asked.lock().unwrap()[0].0.starts_with("GET /api/v1/namespaces/kube-system"));
}

#[tokio::test]
async fn the_verbs_that_are_missing_are_all_named() {
    let denies_updates = Router::new().fallback(async |body: Bytes| {
        let mut review: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let verb = review["spec"]["resourceAttributes"]["verb"].clone();
        review["status"] = json!({"allowed": verb != "update"});
        (StatusCode::CREATED, axum::Json(review))
    });
    let files = Files::new();
    let path = files.kubeconfig(&format!("server: 'http://{}'", serve(denies_updates).await), "");
    let client = connect(&source(&path)).await.unwrap();
    require(&client, &[Permission::core("get", "nodes")]).await.unwrap();
    let leases = Permission::of("update", "coordination.k8s.io", "leases").within("kube-node-lease").on("edge-1");
    let error =
        require(&client, &[Permission::core("get", "nodes"), leases, Permission::core("update", "pods/status")])
            .await
            .unwrap_err();
    assert_eq!(
        error.to_string(),
        "RBAC does not allow to update leases.coordination.k8s.io (403 Forbidden): missing: update leases.coordination.k8s.io edge-1 in namespace kube-node-lease; update pods/status in all namespaces"
    );
}

/// A TLS server whose certificate is signed by `issuer` for `name`, answering as an API server.
async fn secure(files: &Files, issuer: &CertifiedIssuer<'static, KeyPair>, name: &str) -> SocketAddr {
    serve_tls(files, issuer, name, &["http/1.1"], answering(200, version("35")).0).await.0
}

/// A TLS server that speaks these protocols, and how many connections it has accepted.
async fn serve_tls(
    files: &Files,
    issuer: &CertifiedIssuer<'static, KeyPair>,
    name: &str,
    protocols: &[&str],
    router: Router,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, issuer).unwrap();
    let served =
        CertificateFiles::load(&files.write("tls.crt", &cert.pem()), &files.write("tls.key", &key.serialize_pem()))
            .unwrap()
            .served();
    let mut config = served.server_config();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let (addr, accepted) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = accepted.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let service = TowerToHyperService::new(router);
                    drop(
                        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await,
                    );
                }
            });
        }
        Ok::<(), Infallible>(())
    });
    (addr, accepted)
}

#[tokio::test]
async fn answers_share_a_connection_where_that_is_wanted_and_the_server_can() {
    let endless = || async { axum::body::Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>()) };
    let router = Router::new().route("/log", axum::routing::get(endless));
    for (protocols, shared, expected) in [
        (["h2", "http/1.1"].as_slice(), true, 1),
        (["h2", "http/1.1"].as_slice(), false, 3),
        (["http/1.1"].as_slice(), true, 3),
    ] {
        let (files, issuer) = (Files::new(), issuer());
        files.write("ca.crt", &issuer.pem());
        let (addr, accepted) = serve_tls(&files, &issuer, "127.0.0.1", protocols, router.clone()).await;
        let path = files.kubeconfig(&format!("server: 'https://{addr}', certificate-authority: ca.crt"), "");
        let source = ClientSource { shared, ..source(&path) };
        let client = connect(&source).await.unwrap();
        let mut answers = Vec::new();
        for _ in 0..3 {
            let request = http::Request::get("/log").body(Body::empty()).unwrap();
            answers.push(client.send(request).await.unwrap());
        }
        assert_eq!(accepted.load(Ordering::Relaxed), expected, "{protocols:?} {shared}");
    }
}

fn issuer() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

#[tokio::test]
async fn the_right_ca_is_trusted_and_a_wrong_one_is_named_as_the_cause() {
    let (files, right, wrong) = (Files::new(), issuer(), issuer());
    let addr = secure(&files, &right, "127.0.0.1").await;
    for (issuer, trusted) in [(&right, true), (&wrong, false)] {
        files.write("ca.crt", &issuer.pem());
        let path = files.kubeconfig(&format!("server: 'https://{addr}', certificate-authority: ca.crt"), "");
        let answer = probe(&connect(&source(&path)).await.unwrap()).await;
        match answer {
            Ok(version) => assert!(trusted && version.minor == 35),
            Err(error) => assert!(!trusted && matches!(error, ProbeError::WrongCa { .. }), "{error}"),
        }
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_trusted_unless_that_name_is_asked_for() {
    let (files, issuer) = (Files::new(), issuer());
    let addr = secure(&files, &issuer, "api.example").await;
    files.write("ca.crt", &issuer.pem());
    let cluster = format!("server: 'https://{addr}', certificate-authority: ca.crt");
    let path = files.kubeconfig(&cluster, "");
    let error = probe(&connect(&source(&path)).await.unwrap()).await.unwrap_err();
    assert!(matches!(error, ProbeError::WrongCa { .. }), "{error}");
    let path = files.kubeconfig(&format!("{cluster}, tls-server-name: api.example"), "");
    probe(&connect(&source(&path)).await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_there_is_named() {
    let files = Files::new();
    assert_eq!(
        refused(&files.path("absent")).await,
        "cannot read kubeconfig DIR/absent: No such file or directory (os error 2)"
    );
}

#[tokio::test]
async fn a_broken_kubeconfig_is_told_by_its_place_and_never_by_its_content() {
    let files = Files::new();
    let path = files.write("kubeconfig", "apiVersion: v1\nusers:\n- name: u\n  user: {token: s3cret\nclusters: ]\n");
    let error = refused(&path).await;
    assert!(error.starts_with("kubeconfig DIR/kubeconfig is not valid YAML of a kubeconfig (line "), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_context_that_is_not_there_is_named_with_those_that_are() {
    let files = Files::new();
    let path = files.kubeconfig("server: 'http://127.0.0.1:1'", "");
    let source = source(&path).context(Some("b".to_owned()));
    let error = connect(&source).await.map(drop).unwrap_err().to_string();
    assert!(error.ends_with("has no context \"b\" (it has: a)"), "{error}");
}

#[tokio::test]
async fn an_empty_kubeconfig_has_no_context() {
    let files = Files::new();
    let error = refused(&files.write("kubeconfig", "")).await;
    assert_eq!(error, "kubeconfig DIR/kubeconfig has no current-context: set one, or name a context");
}

#[tokio::test]
async fn files_that_the_kubeconfig_names_are_named() {
    let files = Files::new();
    let server = "server: 'https://127.0.0.1:1'";
    let ca = files.kubeconfig(&format!("{server}, certificate-authority: ca.crt"), "");
    assert!(refused(&ca).await.contains("cannot read certificate-authority DIR/ca.crt"), "{}", refused(&ca).await);
    let token = files.kubeconfig("server: 'http://127.0.0.1:1'", "tokenFile: token");
    assert!(refused(&token).await.contains("cannot read token file DIR/token"), "{}", refused(&token).await);
    let data = files.kubeconfig(&format!("{server}, certificate-authority-data: '*'"), "");
    assert!(
        refused(&data).await.contains("certificate-authority data are not valid base64"),
        "{}",
        refused(&data).await
    );
}

#[tokio::test]
async fn a_limited_client_still_answers() {
    let (router, _) = answering(200, version("36"));
    let files = Files::new();
    let path = files.kubeconfig(&format!("server: 'http://{}'", serve(router).await), "");
    let client = connect(&source(&path).limit(1000.0, 2)).await.unwrap();
    for _ in 0..5 {
        probe(&client).await.unwrap();
    }
}

#[tokio::test]
async fn a_printed_chain_of_causes_does_not_repeat_itself() {
    let files = Files::new();
    let error = connect(&source(&files.path("absent"))).await.map(drop).unwrap_err();
    assert!(std::error::Error::source(&error).is_none());
}
