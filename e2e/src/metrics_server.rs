// SPDX-License-Identifier: Apache-2.0
//! A real metrics-server of a cluster, as its aggregated metrics API.
//!
//! There is no kube-proxy, so the API server has to find it by itself (`--enable-aggregator-routing`), and API servers
//! proxy to no loopback address: it needs one of a real node.

use std::fs;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use crate::binaries;
use crate::cluster::Cluster;
use crate::port::Port;
use crate::process::{Launch, Process};

/// Arguments of the API server without which it does not reach a metrics-server.
pub const APISERVER_ARGS: &[&str] = &["--enable-aggregator-routing=true"];
/// It knows of the nodes within this time: it scrapes every ten seconds, the least it allows.
const READY: Duration = Duration::from_secs(90);

/// A running metrics-server. It ends on drop.
pub struct MetricsServer {
    _process: Process,
    _port: Port,
}

impl MetricsServer {
    /// Starts one for `cluster`, which must have [`APISERVER_ARGS`], at `address` of this machine. It scrapes every node at
    /// its internal address and announced port.
    pub async fn start(cluster: &Cluster, address: Ipv4Addr) -> anyhow::Result<Self> {
        let started = async {
            let program = binaries::metrics_server().await?;
            let port = Port::reserve()?;
            let kubeconfig = cluster.kubeconfig().display().to_string();
            let folder = cluster.folder();
            let process = Launch::new("metrics-server", program, folder.join("metrics-server.log"))
                .args(
                    ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
                        .map(|flag| format!("--{flag}={kubeconfig}")),
                )
                .arg(format!("--cert-dir={}", folder.join("metrics-server").display()))
                .arg(format!("--secure-port={}", port.number()))
                .args([
                    "--kubelet-insecure-tls",
                    "--kubelet-use-node-status-port",
                    "--kubelet-preferred-address-types=InternalIP",
                ])
                .args(["--metric-resolution=10s", "--kubelet-request-timeout=9s"])
                .start()?;
            let manifest = folder.join("metrics-server.json");
            fs::write(&manifest, objects(address, port.number()).to_string())?;
            cluster.kubectl(&["apply", "-f", &manifest.display().to_string()]).await?;
            anyhow::Ok(Self { _process: process, _port: port })
        };
        started.await.with_context(|| format!("cannot start a metrics-server of {}", cluster.name()))
    }

    /// Waits until `kubectl top` with these arguments tells something, and returns its output.
    pub async fn until_told(&self, cluster: &Cluster, top: &[&str]) -> anyhow::Result<String> {
        let args = [&["top"], top].concat();
        cluster
            .eventually(READY, &format!("kubectl {} tells something", args.join(" ")), async || {
                Ok(String::from_utf8(cluster.kubectl(&args).await?.stdout)?)
            })
            .await
    }
}

/// A service without pods, the place it leads to, and the API behind it.
fn objects(address: Ipv4Addr, port: u16) -> serde_json::Value {
    let (name, namespace) = ("metrics-server", "kube-system");
    let ports = json!([{ "name": "https", "port": port, "protocol": "TCP" }]);
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": port }] },
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": { "kubernetes.io/service-name": name },
            },
            "addressType": "IPv4",
            "endpoints": [{ "addresses": [address.to_string()], "conditions": { "ready": true } }],
            "ports": ports,
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": { "name": "v1beta1.metrics.k8s.io" },
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "service": { "name": name, "namespace": namespace },
                "insecureSkipTLSVerify": true,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
    ] })
}
