// SPDX-License-Identifier: Apache-2.0
//! A proxy in front of a real API server that misbehaves on command.
//!
//! The client speaks plain HTTP/1.1 on loopback; the proxy speaks TLS to the API server, with a client certificate, so
//! whoever connects has that user's rights. Each connection of the client has its own connection to the API server:
//! what is cut on one side is cut on the other. [`Rule`]s say which requests go wrong, and how; what is open already is
//! commanded by [`FaultProxy::command_watches`].

mod answer;
mod relay;
mod rule;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

pub use rule::{Command, Fault, Rule, Seen};

/// The API server behind the proxy, and who the proxy is to it.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Port on loopback.
    pub port: u16,
    /// The authority that signed its certificate (PEM).
    pub ca: String,
    /// Client certificate (PEM).
    pub certificate: String,
    /// Its key (PEM).
    pub key: String,
}

/// A running proxy. It ends, with all its connections, on drop.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    // Aborts on drop.
    _accepting: JoinSet<()>,
}

/// What connections share with the test.
struct Shared {
    rules: Mutex<Vec<Rule>>,
    seen: Mutex<Vec<Seen>>,
    answered: Mutex<Vec<Seen>>,
    commands: broadcast::Sender<Command>,
    upstream: SocketAddr,
    tls: TlsConnector,
}

impl FaultProxy {
    /// Starts a proxy on a free port. Without rules it changes nothing.
    pub async fn start(upstream: &Upstream) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            rules: Mutex::default(),
            seen: Mutex::default(),
            answered: Mutex::default(),
            commands: broadcast::channel(16).0,
            upstream: SocketAddr::from((Ipv4Addr::LOCALHOST, upstream.port)),
            tls: connector(upstream).map_err(io::Error::other)?,
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, shared.clone()));
        Ok(Self { address, shared, _accepting: accepting })
    }

    /// The address for the client's kubeconfig.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on `rule` holds, after those that were added before: the first that matches a request decides.
    pub fn add(&self, rule: Rule) {
        lock(&self.shared.rules).push(rule);
    }

    /// From now on no rule holds. What is stalled stays stalled.
    pub fn clear(&self) {
        lock(&self.shared.rules).clear();
    }

    /// Does `command` to all watches that are open now; returns how many there are.
    pub fn command_watches(&self, command: Command) -> usize {
        // An error means that no watch is open.
        self.shared.commands.send(command).unwrap_or(0)
    }

    /// The requests so far for which `which` holds.
    pub fn requests(&self, which: impl Fn(&Seen) -> bool) -> Vec<Seen> {
        lock(&self.shared.seen).iter().filter(|seen| which(seen)).cloned().collect()
    }

    /// How many requests for which `which` holds the API server has begun to answer: they have had their effect.
    pub fn answered(&self, which: impl Fn(&Seen) -> bool) -> usize {
        lock(&self.shared.answered).iter().filter(|seen| which(seen)).count()
    }
}

impl Shared {
    /// Notes the request and says what the rules have in store for it.
    fn decide(&self, seen: &Seen) -> Option<Fault> {
        lock(&self.seen).push(seen.clone());
        lock(&self.rules).iter_mut().find_map(|rule| rule.apply(seen))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connector(upstream: &Upstream) -> Result<TlsConnector, Box<dyn std::error::Error + Send + Sync>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(upstream.ca.as_bytes())?)?;
    let chain = vec![CertificateDer::from_pem_slice(upstream.certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(upstream.key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Aborted together with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => drop(connections.spawn(serve(client, shared.clone()))),
                Err(error) => tracing::warn!(%error, "cannot accept a connection"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One client connection. Whatever goes wrong on either side, the client sees a closed connection.
async fn serve(client: TcpStream, shared: Arc<Shared>) {
    let upstream = match connect(&shared).await {
        Ok(upstream) => upstream,
        Err(error) => return tracing::debug!(%error, "the API server is away"),
    };
    let relay = relay::Relay::new(shared, upstream);
    let service = service_fn(move |request| relay.clone().answer(request));
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(client), service).await {
        tracing::debug!(%error, "a connection ended");
    }
}

async fn connect(shared: &Shared) -> io::Result<relay::Upstream> {
    let tcp = TcpStream::connect(shared.upstream).await?;
    tcp.set_nodelay(true)?;
    let tls = shared.tls.connect(ServerName::from(Ipv4Addr::LOCALHOST), tcp).await?;
    let (upstream, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.map_err(io::Error::other)?;
    // Ends when `upstream` is dropped.
    tokio::spawn(connection);
    Ok(upstream)
}
