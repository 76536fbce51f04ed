// SPDX-License-Identifier: Apache-2.0
//! A virtual node under test: its process, its Node upstairs, and pods made for it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::pods::{PATIENCE, condition};
use crate::process::{Launch, Process, Signal};
use crate::{service, wait};

/// Key of the taint on virtual nodes.
const TAINT: &str = "virtual-kubelet.io/provider";
/// What pods show as their host: an address for documentation (RFC 5737).
pub const NODE_IP: &str = "192.0.2.10";

/// A virtual node that is not started yet.
#[derive(Clone)]
pub struct Builder<'a> {
    name: String,
    upper: &'a Cluster,
    upper_kubeconfig: PathBuf,
    lower_kubeconfig: PathBuf,
    node_ip: String,
    args: Vec<String>,
}

impl Builder<'_> {
    /// Reaches the upper cluster with this kubeconfig instead of the administrator's.
    #[must_use]
    pub fn upper_kubeconfig(self, path: &Path) -> Self {
        Self { upper_kubeconfig: path.to_owned(), ..self }
    }

    /// Reaches the lower cluster with this kubeconfig instead of the administrator's.
    #[must_use]
    pub fn lower_kubeconfig(self, path: &Path) -> Self {
        Self { lower_kubeconfig: path.to_owned(), ..self }
    }

    /// Is reached at this address: the upper API server dials it for the kubelet API.
    #[must_use]
    pub fn node_ip(self, address: &str) -> Self {
        Self { node_ip: address.to_owned(), ..self }
    }

    /// Serves the kubelet API with a certificate of the upper cluster's authority for its address, which the upper API
    /// server verifies.
    pub fn certified(self) -> anyhow::Result<Self> {
        let (node, file) = (format!("system:node:{}", self.name), format!("kubelet-{}", self.name));
        let certificate = self.upper.authority().server(&node, &[&self.name, &self.node_ip])?;
        certificate.write(self.upper.folder(), &file)?;
        let path = |end: &str| self.upper.folder().join(format!("{file}.{end}")).to_string_lossy().into_owned();
        let (certificate, key) = (path("crt"), path("key"));
        Ok(self.args(&["--tls-cert-file", &certificate, "--tls-private-key-file", &key]))
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().copied().map(str::to_owned));
        self
    }

    /// The process to start.
    pub fn launch(&self) -> anyhow::Result<Launch> {
        let launch = service::launch("virtual-node", &format!("virtual-node-{}", self.name), self.upper.folder())?;
        Ok(launch
            .arg("--kubeconfig")
            .arg(&self.upper_kubeconfig)
            .arg("--client-kubeconfig")
            .arg(&self.lower_kubeconfig)
            .args([
                "--nodename",
                &self.name,
                "--node-ip",
                &self.node_ip,
                "--metrics-addr=",
                "--kubelet-port=0",
                "--log-level=info",
            ])
            .args(&self.args))
    }

    /// Starts it, and does not wait for anything.
    pub fn spawn(self) -> anyhow::Result<Link> {
        let process = Mutex::new(self.launch()?.start()?);
        Ok(Link { nodes: Api::all(self.upper.client()), name: self.name, process })
    }

    /// Starts it and waits until its Node is ready.
    pub async fn start(self) -> anyhow::Result<Link> {
        let link = self.spawn()?;
        link.until_ready().await?;
        Ok(link)
    }
}

/// A running virtual node, or one that was killed. It ends on drop.
pub struct Link {
    name: String,
    nodes: Api<Node>,
    process: Mutex<Process>,
}

impl Link {
    /// A virtual node `name` of `upper` that stands for `lower`.
    pub fn builder<'a>(upper: &'a Cluster, lower: &Cluster, name: &str) -> Builder<'a> {
        Builder {
            name: name.to_owned(),
            upper,
            upper_kubeconfig: upper.kubeconfig(),
            lower_kubeconfig: lower.kubeconfig(),
            node_ip: NODE_IP.to_owned(),
            args: Vec::new(),
        }
    }

    /// The same, started and ready.
    pub async fn start(upper: &Cluster, lower: &Cluster, name: &str) -> anyhow::Result<Self> {
        Self::builder(upper, lower, name).start().await
    }

    /// Name of its Node, also its `clusterID`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A pod that only this virtual node can take, with one container `main`.
    pub fn pod(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name },
            "spec": self.pod_spec(),
        })
    }

    /// The spec of such a pod, for templates.
    pub fn pod_spec(&self) -> Value {
        json!({
            "nodeSelector": { "clusterID": self.name },
            "tolerations": [{ "key": TAINT, "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "example.org/app:1" }],
        })
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Starts it again, killing it if it runs. Does not wait for anything.
    pub fn restart(&self) -> anyhow::Result<()> {
        self.process().restart()
    }

    /// SIGTERM; an error unless it ends with exit code 0 within `deadline`.
    pub async fn terminate(&self, deadline: Duration) -> anyhow::Result<()> {
        self.process().signal(Signal::TERM)?;
        let about = format!("virtual node {} ends", self.name);
        let status = wait::eventually(deadline, &about, async || {
            let ended = self.process().exited();
            ended.context("it is still running")
        });
        let status = status.await?;
        ensure!(status.success(), "virtual node {} ended: {status}", self.name);
        Ok(())
    }

    /// Its process.
    pub fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until its Node is there and `holds` is true of it. Fails at once when the process has ended.
    pub async fn until_node(&self, what: &str, holds: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let about = format!("node {} {what}", self.name);
        let seen = wait::eventually(PATIENCE, &about, async || {
            if let Err(ended) = self.process().ensure_running() {
                return Ok(Err(ended));
            }
            let node = serde_json::to_value(self.nodes.get(&self.name).await?)?;
            if !holds(&node) {
                bail!("its status is {}", node["status"]);
            }
            Ok(Ok(node))
        });
        seen.await?
    }

    /// Waits until its Node is ready.
    pub async fn until_ready(&self) -> anyhow::Result<Value> {
        self.until_node("is ready", |node| condition(node, "Ready")["status"] == "True").await
    }
}
