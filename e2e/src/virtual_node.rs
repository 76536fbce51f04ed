//! A link under test: the virtual-node service between two clusters.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};

use crate::cluster::Cluster;
use crate::port::Port;
use crate::process::Process;
use crate::{service, wait};

/// How the service calls itself to API servers, for audit logs.
pub const USER_AGENT: &str = "tensile-virtual-node/";

/// The binary.
const BINARY: &str = "virtual-node";
/// A started service has registered its node, and the node is Ready, within this time.
const READY: Duration = Duration::from_secs(60);

/// How a virtual node shall be started.
#[derive(Clone)]
pub struct Builder {
    name: String,
    upper: PathBuf,
    lower: PathBuf,
    folder: PathBuf,
    client: Client,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Builder {
    /// Another kubeconfig for the upper cluster, such as one that goes through a proxy or has few rights.
    #[must_use]
    pub fn upper_kubeconfig(self, path: &Path) -> Self {
        Self { upper: path.to_owned(), ..self }
    }

    /// Another kubeconfig for the lower cluster.
    #[must_use]
    pub fn lower_kubeconfig(self, path: &Path) -> Self {
        Self { lower: path.to_owned(), ..self }
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().copied().map(str::to_owned));
        self
    }

    /// An environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it without waiting: it may well be meant to fail.
    pub fn spawn(self) -> anyhow::Result<VirtualNode> {
        let (admin, kubelet) = (Port::reserve()?, Port::reserve()?);
        let log = format!("{BINARY}-{}", self.name);
        let launch = service::launch(BINARY, &log, &self.folder)?
            .arg("--nodename")
            .arg(&self.name)
            .arg("--kubeconfig")
            .arg(&self.upper)
            .arg("--client-kubeconfig")
            .arg(&self.lower)
            .arg(format!("--metrics-addr=127.0.0.1:{}", admin.number()))
            .arg(format!("--kubelet-port={}", kubelet.number()))
            .arg("--node-ip=127.0.0.1")
            .args(self.args);
        let launch = self.env.into_iter().fold(launch, |launch, (name, value)| launch.env(name, value));
        Ok(VirtualNode { name: self.name, client: self.client, process: launch.start()?, admin, _kubelet: kubelet })
    }

    /// Starts it and waits until its node is Ready upstairs.
    pub async fn start(self) -> anyhow::Result<VirtualNode> {
        let mut node = self.spawn()?;
        node.ready().await?;
        Ok(node)
    }
}

/// A running virtual node; killed on drop.
pub struct VirtualNode {
    name: String,
    client: Client,
    process: Process,
    admin: Port,
    _kubelet: Port,
}

impl VirtualNode {
    /// A virtual node called `name` upstairs, with the administrators' kubeconfigs of both clusters.
    pub fn between(name: &str, upper: &Cluster, lower: &Cluster) -> Builder {
        Builder {
            name: name.to_owned(),
            upper: upper.kubeconfig(),
            lower: lower.kubeconfig(),
            folder: upper.folder().to_owned(),
            client: upper.client(),
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The service's process: to kill, freeze, restart and measure it, and for its log.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The address of `/metrics`, `/healthz` and `/readyz`.
    pub fn admin(&self) -> String {
        format!("http://127.0.0.1:{}", self.admin.number())
    }

    /// Waits until the node is Ready upstairs, shows capacity and takes pods; fails at once if the service ended.
    pub async fn ready(&mut self) -> anyhow::Result<Node> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        wait::eventually(READY, &format!("virtual node {} is Ready", self.name), async || {
            if let Err(ended) = self.process.ensure_running() {
                return Ok(Err(ended));
            }
            let node = nodes.get(&self.name).await?;
            let status = node.status.as_ref().context("it has no status")?;
            let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
            let ready = ready.context("it has no condition Ready")?;
            ensure!(ready.status == "True", "Ready is {}: {}", ready.status, ready.message.as_deref().unwrap_or("?"));
            let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
            let taints: Vec<&str> = taints.map(|taint| taint.key.as_str()).collect();
            ensure!(!taints.iter().any(|key| key.starts_with("node.kubernetes.io/")), "it still has taints {taints:?}");
            ensure!(status.allocatable.as_ref().is_some_and(|amounts| !amounts.is_empty()), "it has no capacity");
            Ok(Ok(node))
        })
        .await?
    }
}
