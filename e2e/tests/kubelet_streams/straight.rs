// SPDX-License-Identifier: Apache-2.0
//! Requests straight to the kubelet API of the virtual node, and the same to the real kubelet below.

use anyhow::Context as _;
use e2e::cluster::{Cluster, client_of};
use e2e::kubeconfig::{self, User, kubeconfig};
use e2e::real_node;
use http::Request;
use kube::Client;
use kube::client::Body;

use super::Scene;

/// A client of a kubelet, as the administrator of its cluster.
async fn kubelet(cluster: &Cluster, server: &str) -> anyhow::Result<Client> {
    let path = cluster.folder().join("straight.kubeconfig");
    let ca = cluster.authority().identity().certificate;
    kubeconfig::write(&path, &kubeconfig("kubelet", server, Some(&ca), &User::Certificate(cluster.admin())))?;
    client_of(&path).await
}

pub(crate) async fn port(scene: &Scene<'_>) -> anyhow::Result<u64> {
    let node = scene.world.pair.link.until_ready().await?;
    node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().context("the node announces no port")
}

/// Of the virtual node, and of the real one.
pub(crate) async fn kubelets(scene: &Scene<'_>) -> anyhow::Result<(Client, Client)> {
    let pair = &scene.world.pair;
    let address = pair.node.address();
    let above = kubelet(&pair.upper, &format!("https://{address}:{}", port(scene).await?)).await?;
    Ok((above, kubelet(&pair.lower, &format!("https://{address}:{}", real_node::PORT)).await?))
}

pub(crate) fn upgrade(method: &str, path: &str) -> anyhow::Result<Request<Body>> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("connection", "Upgrade").header("upgrade", "SPDY/3.1");
    Ok(request.header("x-stream-protocol-version", "v4.channel.k8s.io").body(Body::empty())?)
}

pub(crate) async fn told(client: &Client, request: Request<Body>) -> anyhow::Result<(u16, String)> {
    let answer = client.send(request).await?;
    let status = answer.status().as_u16();
    let words = if status == 101 { Vec::new() } else { answer.into_body().collect_bytes().await?.to_vec() };
    Ok((status, String::from_utf8_lossy(&words).into_owned()))
}
