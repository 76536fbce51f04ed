// SPDX-License-Identifier: Apache-2.0
//! HTTPS: connections are handed to the server once their handshake is done, so that a slow client holds up nobody.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::ServedCertificate;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections that wait to be taken over; more than that wait in the kernel.
const BACKLOG: usize = 128;
/// How long to wait after an error that is the process' own, such as too many open files.
const PAUSE: Duration = Duration::from_secs(1);

/// Why clients cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum ClientCaError {
    /// The file cannot be read or holds no certificate.
    #[error("{} holds no PEM certificate that could be a CA: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Which clients a handshake succeeds with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients<'a> {
    /// All of them; they are not asked for a certificate.
    Any,
    /// Those with a certificate of this CA (PEM).
    Of(&'a Path),
    /// Those with a certificate of this CA, and those without any: what these may do is decided for each request.
    OfOrWithout(&'a Path),
}

/// TLS settings that serve `certificate` to `clients`.
pub fn server_config(
    certificate: &Arc<ServedCertificate>,
    clients: Clients<'_>,
) -> Result<ServerConfig, ClientCaError> {
    let (path, required) = match clients {
        Clients::Any => return Ok(certificate.server_config()),
        Clients::Of(path) => (path, true),
        Clients::OfOrWithout(path) => (path, false),
    };
    let unreadable = |reason: String| ClientCaError::Unreadable { path: path.to_owned(), reason };
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))? {
        roots.add(ca.map_err(|error| unreadable(error.to_string()))?).map_err(|error| unreadable(error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder(roots.into());
    let verifier = if required { verifier } else { verifier.allow_unauthenticated() };
    let verifier = verifier.build().map_err(|error| unreadable(error.to_string()))?;
    let mut config =
        ServerConfig::builder().with_client_cert_verifier(verifier).with_cert_resolver(certificate.clone());
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// A listener whose connections speak TLS.
#[derive(Debug)]
pub struct TlsListener {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    /// Starts to accept on `listener`. Call within a runtime; it stops when this is dropped.
    pub fn new(listener: TcpListener, config: ServerConfig) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (sender, ready) = mpsc::channel(BACKLOG);
        tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), sender));
        Ok(Self { ready, address })
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The accepting task ends only with this receiver.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, ready: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ready.closed() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (acceptor, ready) = (acceptor.clone(), ready.clone());
                tokio::spawn(async move {
                    match handshake(stream, acceptor).await {
                        // An error means that the server has ended, and the connection with it.
                        Ok(stream) => drop(ready.send((stream, peer)).await),
                        Err(error) => tracing::debug!(%peer, %error, "no TLS with a client"),
                    }
                });
            }
            Err(error) if is_of_the_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections, trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn handshake(stream: TcpStream, acceptor: TlsAcceptor) -> io::Result<TlsStream<TcpStream>> {
    stream.set_nodelay(true)?;
    tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await?
}

fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
