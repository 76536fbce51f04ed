//! What one request to an API server costs this process in CPU time: `cargo run --release -p tensile-runtime --example
//! request_cost`.
//!
//! The server is a process of its own and speaks TLS, like an API server; it answers each request with an object of 6
//! KB. Our client is compared with kube's own stack on the same configuration.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example shows, it does not recover")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures::{StreamExt, stream};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use prometheus::core::Collector;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tensile_runtime::clients::{ClientSource, connect};
use tensile_runtime::process::ProcessCollector;
use tensile_runtime::tls::CertificateFiles;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const REQUESTS: usize = 20_000;
const AT_ONCE: usize = 16;

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve(PathBuf::from(std::env::args().nth(2).unwrap())).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut server = Command::new(std::env::current_exe().unwrap())
        .arg("serve")
        .arg(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let path = dir.path().join("kubeconfig");
    std::fs::write(
        &path,
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{}', certificate-authority: ca.crt}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n",
            port.trim()
        ),
    )
    .unwrap();

    let source = ClientSource::new("virtual-node", Some(path.clone()));
    let (kubeconfig, options) = (Kubeconfig::read_from(&path).unwrap(), KubeConfigOptions::default());
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let clients = [
        ("ours", connect(&source).await.unwrap()),
        ("ours, limited", connect(&source.limit(1e6, 1000)).await.unwrap()),
        ("kube's", Client::try_from(config).unwrap()),
    ];
    for round in 1..=3 {
        for (name, client) in &clients {
            println!("round {round}, {name}: {:.1} us of CPU a request", cost(client).await);
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Microseconds of CPU time of this process for each of many requests.
async fn cost(client: &Client) -> f64 {
    let before = cpu_seconds();
    stream::iter(0..REQUESTS)
        .map(|_| async {
            let request = http::Request::patch("/api/v1/namespaces/default/pods/a/status").body(vec![b'x'; 1000]);
            client.request_text(request.unwrap()).await.unwrap()
        })
        .buffer_unordered(AT_ONCE)
        .for_each(|_| async {})
        .await;
    #[allow(clippy::cast_precision_loss, reason = "a small number")]
    let requests = REQUESTS as f64;
    (cpu_seconds() - before) / requests * 1e6
}

fn cpu_seconds() -> f64 {
    let families = ProcessCollector::new().unwrap().collect();
    let cpu = families.iter().find(|family| family.name() == "process_cpu_seconds_total").unwrap();
    cpu.get_metric()[0].get_counter().get_value()
}

async fn serve(dir: PathBuf) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let files = [("ca.crt", issuer.pem()), ("tls.crt", cert.pem()), ("tls.key", key.serialize_pem())];
    for (name, content) in files {
        std::fs::write(dir.join(name), content).unwrap();
    }
    let served = CertificateFiles::load(&dir.join("tls.crt"), &dir.join("tls.key")).unwrap().served();
    let acceptor = TlsAcceptor::from(Arc::new(served.server_config()));
    let router = axum::Router::new().fallback(async || "y".repeat(6000));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            let stream = acceptor.accept(stream).await.unwrap();
            let service = TowerToHyperService::new(router);
            drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}
