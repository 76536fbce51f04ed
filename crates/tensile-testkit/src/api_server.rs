// SPDX-License-Identifier: Apache-2.0
//! A stand-in for an API server, in a process of its own, for examples that count what a client costs: it speaks TLS and
//! answers each path with bytes that were made beforehand.

#![allow(clippy::unwrap_used, reason = "an example shows, it does not recover")]
#![allow(clippy::print_stdout, reason = "the child tells its port")]

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::time::{ClockId, clock_gettime};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// First argument of the child.
const SERVE: &str = "serve";

/// The process; it ends when this is dropped.
#[derive(Debug)]
pub struct ApiServer {
    child: Child,
    folder: TempDir,
    port: String,
}

impl ApiServer {
    /// Starts this program anew, as the server. `answers` makes, in the child, what a path is answered with.
    ///
    /// To be called first of all: in the child it does not return.
    ///
    /// # Panics
    /// When anything goes wrong.
    pub async fn start<A: Fn(&str) -> Bytes + Send + Sync + 'static>(answers: impl FnOnce() -> A) -> Self {
        let mut args = std::env::args().skip(1);
        if args.next().as_deref() == Some(SERVE) {
            serve(Path::new(&args.next().unwrap()), answers()).await;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(SERVE)
            .arg(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, folder, port: port.trim().to_owned() }
    }

    /// Writes a kubeconfig for it.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn kubeconfig(&self) -> PathBuf {
        let path = self.folder.path().join("kubeconfig");
        let cluster = format!("{{server: 'https://127.0.0.1:{}', certificate-authority: ca.crt}}", self.port);
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: c, cluster: {cluster}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        // Errors mean that it is gone.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// CPU time of this process so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    #[allow(clippy::cast_precision_loss, reason = "a short time")]
    let (seconds, nanoseconds) = (time.tv_sec as f64, time.tv_nsec as f64);
    seconds + nanoseconds / 1e9
}

async fn serve(folder: &Path, answer: impl Fn(&str) -> Bytes + Send + Sync + 'static) -> ! {
    let acceptor = TlsAcceptor::from(Arc::new(certified(folder)));
    let answer = Arc::new(answer);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        tokio::spawn(async move {
            let stream = acceptor.accept(stream).await.unwrap();
            let service = service_fn(|request: Request<Incoming>| {
                std::future::ready(Ok::<_, Infallible>(Response::new(Full::new(answer(request.uri().path())))))
            });
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
        });
    }
}

/// A certificate for 127.0.0.1, with its authority in `ca.crt`.
fn certified(folder: &Path) -> ServerConfig {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    std::fs::write(folder.join("ca.crt"), issuer.pem()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(cert.pem().as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    config.with_no_client_auth().with_single_cert(chain, key).unwrap()
}
