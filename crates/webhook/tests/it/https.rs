// SPDX-License-Identifier: Apache-2.0
//! HTTPS, over real sockets.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tensile_runtime::tls::{CertificateFiles, Clients, TlsListener, server_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

/// Less than a silent client is waited for, so that waiting for one of them is seen.
const PATIENCE: Duration = Duration::from_secs(5);

/// A CA, with its certificate and that of a server in a folder.
struct Files {
    folder: TempDir,
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let files = Self { folder, ca };
        let (cert, key) = files.issue();
        std::fs::write(files.path("cert.pem"), cert.pem()).unwrap();
        std::fs::write(files.path("key.pem"), key.serialize_pem()).unwrap();
        std::fs::write(files.path("ca.pem"), files.ca.pem()).unwrap();
        files
    }

    fn issue(&self) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (CertificateParams::new(vec!["webhook.test".to_owned()]).unwrap().signed_by(&key, &self.ca).unwrap(), key)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Serves `GET /` with `hello`, to clients of `client_ca` alone if given.
    async fn serve(&self, client_ca: Option<&Path>) -> SocketAddr {
        let certificate = CertificateFiles::load(&self.path("cert.pem"), &self.path("key.pem")).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let clients = client_ca.map_or(Clients::Any, Clients::Of);
        let listener = TlsListener::new(listener, server_config(&certificate.served(), clients).unwrap()).unwrap();
        tokio::spawn(async move {
            axum::serve(listener, Router::new().route("/", get(async || "hello"))).await.unwrap();
        });
        address
    }

    /// What a client that trusts the CA is answered.
    async fn ask(&self, address: SocketAddr, with_certificate: bool) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.der().clone()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        let config = if with_certificate {
            let (cert, key) = self.issue();
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            config.with_client_auth_cert(vec![cert.der().clone()], key).unwrap()
        } else {
            config.with_no_client_auth()
        };
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("webhook.test").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: webhook.test\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

#[tokio::test]
async fn a_client_that_trusts_the_ca_is_answered() {
    let files = Files::new();
    let address = files.serve(None).await;
    let answer = files.ask(address, false).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn a_client_that_never_speaks_holds_up_nobody() {
    let files = Files::new();
    let address = files.serve(None).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let answer = tokio::time::timeout(PATIENCE, files.ask(address, false)).await;
    assert!(answer.expect("answered while others are silent").unwrap().ends_with("hello"));
}

#[tokio::test]
async fn with_a_client_ca_only_its_clients_are_served() {
    let files = Files::new();
    let address = files.serve(Some(&files.path("ca.pem"))).await;
    assert!(files.ask(address, true).await.unwrap().ends_with("hello"));
    assert!(files.ask(address, false).await.is_err());
}

#[tokio::test]
async fn a_client_ca_that_is_none_is_named() {
    let files = Files::new();
    let certificate = CertificateFiles::load(&files.path("cert.pem"), &files.path("key.pem")).unwrap();
    for name in ["key.pem", "nowhere.pem"] {
        let error = server_config(&certificate.served(), Clients::Of(&files.path(name))).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("holds no PEM certificate"), "{error}");
    }
}
