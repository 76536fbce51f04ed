// SPDX-License-Identifier: Apache-2.0
//! The listener of one link's kubelet API, with its certificate and its callers' authority.

use std::{convert::Infallible, sync::Arc};

use kube::Client;
use prometheus::Registry;
use tensile_core::node::NodeSettings;
use tensile_runtime::{listen::ListenAddr, shutdown::Tasks};
use tokio::runtime::Handle;
use virtual_kubelet::{
    pod::PodsHandle,
    server::{KubeletServer, KubeletServerConfig, server_config},
};

use super::{
    certificate::{self, CertificateError},
    client_ca::{Followed, LoadError, Source},
};
use crate::{
    config::KubeletApi,
    lower::LowerCluster,
    stats::{Below, LowerStats, StatsError},
};

/// Why the kubelet API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is taken, or may not be used.
    #[error("cannot listen on --kubelet-port {port}: {reason}")]
    Listen {
        /// The port.
        port: u16,
        /// What the system says.
        reason: std::io::Error,
    },
    /// There is no certificate to serve.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// It is not known whose certificates count.
    #[error("--client-ca-file: {0}")]
    ClientCa(#[from] LoadError),
    /// What containers use cannot be told.
    #[error(transparent)]
    Stats(#[from] StatsError),
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// What of the process it is served with.
#[derive(Debug)]
pub struct Place<'a> {
    /// The metrics of the process.
    pub registry: &'a Registry,
    /// The tasks of the process.
    pub tasks: &'a mut Tasks,
    /// The threads for what keeps a thread busy: streams, and metrics of containers.
    pub threads: &'a Handle,
}

/// Serves the kubelet API of `node` for the pods of `lower`; returns the port.
///
/// # Errors
/// When it cannot be served, in one sentence that names the flag.
pub async fn start(
    api: &KubeletApi,
    node: &NodeSettings,
    upper: Client,
    lower: Arc<LowerCluster>,
    pods: PodsHandle,
    place: Place<'_>,
) -> Result<u16, ServeError> {
    let Place { registry, tasks, threads } = place;
    let certificate = certificate::resolver(&api.certificate, node, &upper, registry, tasks).await?;
    let tls = Arc::new(server_config(certificate)?);
    let source = api.client_ca.clone().map_or_else(|| Source::Upper(upper.clone()), Source::File);
    let (followed, client_ca) = Followed::load(source).await?;

    let refused = |reason| ServeError::Listen { port: api.port, reason };
    let listener = ListenAddr::AllOn(api.port).bind().await.map_err(refused)?;
    let port = listener.local_addr().map_err(refused)?.port();

    let below = Below {
        client: lower.client().clone(),
        selector: lower.selector(),
        roster: {
            let (lower, pods) = (lower.clone(), pods.clone());
            Box::new(move || lower.roster(pods.ids()))
        },
    };
    let stats = Arc::new(LowerStats::new(below, &node.name, &api.stats, registry)?);
    let config =
        KubeletServerConfig { node: node.name.clone(), client: upper, pods, client_ca, registry: registry.clone() };
    let server = KubeletServer::new(lower, stats.clone(), config);
    let stop = tasks.stop();
    tasks.spawn("client authority", {
        let stop = stop.clone();
        async move {
            followed.follow(stop).await;
            Ok::<_, Infallible>(())
        }
    });
    tasks.spawn_on(threads, "metrics of containers", {
        let stop = stop.clone();
        async move {
            stats.run(stop).await;
            Ok::<_, Infallible>(())
        }
    });
    tasks.spawn_on(threads, "kubelet API", async move {
        server.serve(listener, tls, stop).await;
        Ok::<_, Infallible>(())
    });
    tracing::info!(node = node.name, port, "the kubelet API is served");
    Ok(port)
}
