// SPDX-License-Identifier: Apache-2.0
//! Wiring: what a provider of any kind has to start.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use prometheus::Registry;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;
use virtual_kubelet::{
    node::{NodeController, NodeControllerConfig},
    pod::{PodController, PodControllerConfig, PodsHandle},
    server::{
        ClientCa, KubeletServer, KubeletServerConfig, NoStats,
        certificate::{CertificateController, ServingCertificate},
        server_config,
        websocket::OverWebSocket,
    },
};

use crate::pods::Memory;

/// Runs the node named on the command line until it is told to stop.
pub(crate) async fn run() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let node = std::env::args().nth(1).unwrap_or_else(|| "memory".to_owned());
    let address = std::env::var("NODE_IP").unwrap_or_else(|_| "127.0.0.1".to_owned());
    let client = Client::try_default().await?;
    let listener = TcpListener::bind((address.as_str(), 0)).await?;
    let provider = Arc::new(Memory::new(&node, &address, listener.local_addr()?.port()));
    let (token, registry) = (CancellationToken::new(), Registry::new());
    let config = PodControllerConfig { node: node.clone(), workers: 8 };
    let pods = PodController::new(client.clone(), provider.clone(), &config, &registry)?;
    let api = serve(listener, &client, provider.clone(), pods.pods(), &registry, token.clone()).await?;
    let nodes = NodeController::new(client, provider, NodeControllerConfig::new(&node));
    let stop = {
        let token = token.clone();
        async move {
            let stopped = tokio::signal::ctrl_c().await;
            token.cancel();
            stopped
        }
    };
    let ((), (), node, stopped) = tokio::join!(api, pods.run(token.clone()), nodes.run(token), stop);
    stopped?;
    Ok(node?)
}

/// The kubelet API of the node, behind a certificate that the upper cluster is asked for. What is returned serves it.
async fn serve(
    listener: TcpListener,
    client: &Client,
    provider: Arc<Memory>,
    pods: PodsHandle,
    registry: &Registry,
    token: CancellationToken,
) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let (node, addresses) = (provider.node.clone(), [provider.address.clone()].into());
    let certificate = ServingCertificate::self_signed(&node, &addresses)?;
    let (_, addresses) = watch::channel(addresses);
    let requests = CertificateController::new(client.clone(), certificate.clone(), &node, addresses, registry)?;
    let (_, client_ca) = watch::channel(client_ca(client).await?);
    let config = KubeletServerConfig { node, client: client.clone(), pods, client_ca, registry: registry.clone() };
    let server = KubeletServer::new(Arc::new(OverWebSocket::new(provider)), Arc::new(NoStats), config);
    let tls = Arc::new(server_config(certificate)?);
    let stop = token.clone();
    Ok(async move {
        tokio::join!(server.serve(listener, tls, token), requests.run(stop));
    })
}

/// Whose client certificates count: as the upper API server publishes it. A real provider follows it.
async fn client_ca(client: &Client) -> anyhow::Result<ClientCa> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let map = maps.get("extension-apiserver-authentication").await?;
    let pem = map.data.unwrap_or_default().remove("client-ca-file").unwrap_or_default();
    Ok(ClientCa::from_pem(pem.as_bytes())?)
}
