// SPDX-License-Identifier: Apache-2.0
//! The listener: its connections, up to the end of their handshakes.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use kube::Client;
use prometheus::Registry;
use rustls::ServerConfig;
use serde_json::json;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    ClientCa, ContainerIo, StatsProvider, authentication::Authenticator, authorization::Authorizer,
    connection::converse, handle::Handler,
};
use crate::pod::PodsHandle;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at the same time; further clients wait in the kernel.
const HANDSHAKES: usize = 256;
/// Silence after which the kernel asks whether a client lives, and how often it asks: streams are silent for hours.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
/// How long to wait after an error that is the process' own, such as too many open files.
const PAUSE: Duration = Duration::from_secs(1);

/// What a [`KubeletServer`] serves.
#[derive(Clone)]
pub struct KubeletServerConfig {
    /// Name of the virtual node.
    pub node: String,
    /// The upper cluster: it is asked who callers are and what they may do, and for the pods of the node.
    pub client: Client,
    /// The pods of the node.
    pub pods: PodsHandle,
    /// Whose certificates name users, as of now.
    pub client_ca: watch::Receiver<ClientCa>,
    /// What `/metrics` shows.
    pub registry: Registry,
}

/// The kubelet's API of one virtual node.
pub struct KubeletServer<P, S> {
    handler: Handler<P, S>,
}

impl<P: ContainerIo, S: StatsProvider> KubeletServer<P, S> {
    /// A server that has not begun yet. A provider without metrics gives [`super::NoStats`].
    pub fn new(provider: Arc<P>, stats: Arc<S>, config: KubeletServerConfig) -> Self {
        let KubeletServerConfig { node, client, pods, client_ca, registry } = config;
        Self {
            handler: Handler {
                authenticator: Authenticator::new(client.clone(), client_ca),
                authorizer: Authorizer::new(client.clone(), &node),
                client,
                node,
                pods,
                provider,
                stats,
                registry,
                configz: configz(),
                streams: TaskTracker::new(),
                stop: CancellationToken::new(),
            },
        }
    }

    /// Serves until `stop` is cancelled. Requests under way then have five seconds; streams, which have no end of their
    /// own, are cut.
    pub async fn serve(mut self, listener: TcpListener, tls: Arc<ServerConfig>, stop: CancellationToken) {
        self.handler.stop = stop.clone();
        let (handler, acceptor) = (Arc::new(self.handler), TlsAcceptor::from(tls));
        let (connections, handshakes) = (TaskTracker::new(), Arc::new(Semaphore::new(HANDSHAKES)));
        while let Some((Ok(slot), stream)) = stop
            .run_until_cancelled(async { (handshakes.clone().acquire_owned().await, accept(&listener).await) })
            .await
        {
            let (handler, acceptor, stop) = (handler.clone(), acceptor.clone(), stop.clone());
            connections.spawn(async move {
                let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(error)) => return tracing::debug!(%error, "no TLS with a client"),
                    Err(_) => return tracing::debug!("a client did not finish its handshake"),
                };
                drop(slot);
                converse(handler, stream, stop).await;
            });
        }
        drop(listener);
        connections.close();
        handler.streams.close();
        connections.wait().await;
        handler.streams.wait().await;
    }
}

/// The next connection. Errors are waited out: there is no end but the caller's.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let set = stream.set_nodelay(true).and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&KEEPALIVE));
                match set {
                    Ok(()) => return stream,
                    Err(error) => tracing::debug!(%error, "a connection was gone at once"),
                }
            }
            Err(error) if is_of_the_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections, trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// How callers are known and what they may: the part of a kubelet's configuration that this one has too.
fn configz() -> Bytes {
    let configuration = json!({"kubeletconfig": {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true, "cacheTTL": "2m0s"}},
        "authorization": {
            "mode": "Webhook",
            "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
        },
    }});
    configuration.to_string().into()
}

#[cfg(test)]
mod tests;
