// SPDX-License-Identifier: Apache-2.0
//! A running server, its clients, and what stands behind it.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    sign::{CertifiedKey, SingleCertAndKey},
};
use serde_json::{Value, json};
use tokio::{io::DuplexStream, sync::mpsc, task::JoinHandle};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::super::*;
use crate::{
    pod::PodId,
    server::{ByteStream, IoError, StatsProvider, UpgradeRequest, Upgraded, options::LogOptions, server_config},
};

type Issuer = CertifiedIssuer<'static, KeyPair>;
type Pem = (CertificateDer<'static>, PrivateKeyDer<'static>);

pub(super) fn authority() -> Issuer {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

pub(super) fn signed(by: &Issuer, name: &str, usage: ExtendedKeyUsagePurpose) -> Pem {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, by).unwrap();
    (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

/// What a test sees of, and does to, the provider.
#[derive(Default)]
pub(super) struct Backend {
    /// Requests for logs and streams, as they came.
    pub(super) asked: Mutex<Vec<String>>,
    /// The last upgrade's.
    pub(super) headers: Mutex<http::HeaderMap>,
    /// What the next log yields.
    pub(super) log: Mutex<Option<mpsc::Receiver<Bytes>>>,
    /// The far end of the next stream.
    pub(super) far: Mutex<Option<DuplexStream>>,
    /// It tells what containers use.
    pub(super) measures: AtomicBool,
}

impl StatsProvider for Backend {
    async fn summary(&self, brief: bool) -> Result<Bytes, IoError> {
        self.measured(&format!("summary, brief: {brief}"))
    }

    async fn resource(&self) -> Result<Bytes, IoError> {
        self.measured("resource")
    }
}

impl Backend {
    fn measured(&self, what: &str) -> Result<Bytes, IoError> {
        let measures = self.measures.load(Ordering::Relaxed);
        if measures { Ok(what.to_owned().into()) } else { Err(IoError::Unsupported("metrics")) }
    }
}

impl ContainerIo for Backend {
    async fn logs(&self, pod: &PodId, container: &str, options: &LogOptions) -> Result<ByteStream, IoError> {
        self.asked.lock().unwrap().push(format!("{pod} {container} {options:?}"));
        if container != "main" {
            return Err(IoError::NotFound(format!("container {container:?} not found in pod {:?}", pod.name)));
        }
        let log = self.log.lock().unwrap().take().unwrap_or_else(|| mpsc::channel(1).1);
        Ok(futures::stream::unfold(log, async |mut log| log.recv().await.map(|line| (Ok(line), log))).boxed())
    }

    async fn run(&self, pod: &PodId, container: &str, command: &[String]) -> Result<Bytes, IoError> {
        self.asked.lock().unwrap().push(format!("run {pod} {container} {command:?}"));
        Ok(Bytes::from_static(b"what it wrote"))
    }

    async fn relay(&self, request: UpgradeRequest) -> Result<Upgraded, IoError> {
        self.asked.lock().unwrap().push(format!("{} {} {:?}", request.method, request.pod, request.target));
        *self.headers.lock().unwrap() = request.headers.clone();
        let Some(far) = self.far.lock().unwrap().take() else {
            return Err(IoError::Refused { status: StatusCode::CONFLICT, message: "container not started".to_owned() });
        };
        Ok(Upgraded { headers: request.headers, stream: Box::new(far) })
    }
}

/// Who may what, upstairs: `full` everything, `getter` only `get`; `unsure` breaks the authorizer.
fn api(request: &http::request::Parts, body: &Value) -> (u16, Value) {
    match request.uri.path() {
        "/apis/authentication.k8s.io/v1/tokenreviews" => match body["spec"]["token"].as_str() {
            Some("bad") => (201, json!({"spec": {"token": ""}, "status": {"authenticated": false}})),
            Some("broken") => (500, json!({"kind": "Status", "code": 500, "message": "secret of the API server"})),
            name => {
                (201, json!({"spec": {"token": ""}, "status": {"authenticated": true, "user": {"username": name}}}))
            }
        },
        "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
            let allowed = match body["spec"]["user"].as_str() {
                Some("full") => true,
                Some("getter") => body["spec"]["resourceAttributes"]["verb"] == "get",
                Some("unsure") => return (500, json!({"message": "secret of the API server"})),
                _ => false,
            };
            (201, json!({"spec": body["spec"], "status": {"allowed": allowed}}))
        }
        "/api/v1/pods" => (200, json!({"kind": "PodList", "asked": request.uri.query()})),
        other => panic!("nobody asks for {other}"),
    }
}

/// A running server.
pub(super) struct Scene {
    pub(super) address: SocketAddr,
    /// Signs the server and its known clients.
    pub(super) ca: Issuer,
    pub(super) client_ca: watch::Sender<ClientCa>,
    pub(super) backend: Arc<Backend>,
    pub(super) stop: CancellationToken,
    pub(super) served: JoinHandle<()>,
}

impl Scene {
    pub(super) async fn start() -> Self {
        let service = tower::service_fn(async |request: Request<Body>| {
            let (parts, body) = request.into_parts();
            let body = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
            let (code, answer) = api(&parts, &body);
            Ok::<_, Infallible>(
                Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap(),
            )
        });
        let ca = authority();
        let (client_ca, receiver) = watch::channel(ClientCa::from_pem(ca.pem().as_bytes()).unwrap());
        let backend = Arc::new(Backend::default());
        let config = KubeletServerConfig {
            node: "v".to_owned(),
            client: Client::new(service, "default"),
            pods: PodsHandle::of(&[PodId::new("ns", "web", "uid-1")]),
            client_ca: receiver,
            registry: Registry::new(),
        };
        let (certificate, key) = signed(&ca, "node", ExtendedKeyUsagePurpose::ServerAuth);
        let certified = CertifiedKey::from_der(vec![certificate], key, &aws_lc_rs::default_provider()).unwrap();
        let tls = Arc::new(server_config(Arc::new(SingleCertAndKey::from(certified))).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let served = tokio::spawn(KubeletServer::new(backend.clone(), backend.clone(), config).serve(
            listener,
            tls,
            stop.clone(),
        ));
        Self { address, ca, client_ca, backend, stop, served }
    }

    /// A TLS connection, as a client with this certificate that speaks HTTP/1.1.
    pub(super) async fn dial(&self, identity: Option<Pem>) -> TlsStream<TcpStream> {
        self.dial_to_speak(&[b"http/1.1"], identity).await
    }

    /// A TLS connection, as a client with this certificate that speaks these protocols.
    pub(super) async fn dial_to_speak(&self, protocols: &[&[u8]], identity: Option<Pem>) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.ca.der().to_vec())).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let tcp = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap()
    }

    /// A certificate of a user that the server's authority signed.
    pub(super) fn known(&self, user: &str) -> Pem {
        signed(&self.ca, user, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A connection for HTTP requests.
    pub(super) async fn connect(&self, identity: Option<Pem>) -> http1::SendRequest<Empty<Bytes>> {
        let (sender, connection) = http1::handshake(TokioIo::new(self.dial(identity).await)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        sender
    }

    /// One request with a token, or as nobody.
    pub(super) async fn send(&self, token: Option<&str>, method: &str, path: &str) -> Response<Incoming> {
        let mut request = Request::builder().method(method).uri(path).header("host", "v");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.connect(None).await.send_request(request.body(Empty::new()).unwrap()).await.unwrap()
    }

    /// The same with everybody's rights: status and body.
    pub(super) async fn full(&self, method: &str, path: &str) -> (u16, String) {
        read(self.send(Some("full"), method, path).await).await
    }

    /// An upgrade of everybody's rights.
    pub(super) async fn upgrade(&self, method: &str, path: &str) -> Response<Incoming> {
        let request =
            Request::builder().method(method).uri(path).header("host", "v").header("authorization", "Bearer full");
        let request = request.header("connection", "Upgrade").header("upgrade", "SPDY/3.1");
        let request = request.header("x-stream-protocol-version", "v4.channel.k8s.io");
        self.connect(None).await.send_request(request.body(Empty::new()).unwrap()).await.unwrap()
    }
}

pub(super) async fn read(response: Response<Incoming>) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}
