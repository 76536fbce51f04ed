// SPDX-License-Identifier: Apache-2.0
//! A real node of a cluster on this machine: the unmodified kubelet with containerd, and real containers.
//!
//! ```no_run
//! use e2e::{cluster::Cluster, real_node::{self, RealNode}};
//!
//! # async fn test() -> anyhow::Result<()> {
//! if !real_node::can_run() {
//!     return Ok(()); // told and counted as skipped: only root can make nodes
//! }
//! let cluster = Cluster::builder("lower").start().await?;
//! let node = RealNode::start(&cluster, "real").await?; // Ready, and pods can be bound to it
//! let pod = real_node::pod("greeter", "echo hello; exec sleep 1000000");
//! # Ok(())
//! # }
//! ```
//!
//! Several may run at once, in one cluster or several: each has namespaces of its own for processes and mounts, a bridge
//! with a network of its own, and a control group. All of it goes on drop, and when this process is killed (`reaper`).
//! The machine reaches pods by their addresses, and pods reach the machine at [`RealNode::address`]. There is no
//! kube-proxy and no DNS, ports of the host lead nowhere. Images are [`BUSYBOX`], [`AGNHOST`] and
//! what [`RealNode::import`] brings: there is no registry.

mod files;
mod images;
mod machine;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::{Value, json};

use crate::binaries::{self, NodePrograms};
use crate::cluster::Cluster;
use crate::folder::Folder;
use crate::kubeconfig::{self, User, kubeconfig};
use crate::kwok;
use crate::process::{Launch, Process};

pub use images::{AGNHOST, BUSYBOX};
use machine::Place;

/// The kubelet's port, at the node's own address.
pub const PORT: u16 = 10250;
/// A node is ready within this time.
const READY: Duration = Duration::from_secs(120);
/// Bash, for its `wait -n`: the first process of the node's namespaces.
const START: &str = include_str!("real_node/start.sh");

/// Whether real nodes can run here. If not, it prints the line by which the running test counts as skipped.
#[allow(clippy::print_stdout, reason = "`cargo accept` counts what is skipped")]
pub fn can_run() -> bool {
    let possible = is_possible();
    if !possible {
        let thread = std::thread::current();
        println!("skipped: {}: a real node needs root", thread.name().unwrap_or("a test"));
    }
    possible
}

/// The same, without a word.
pub(crate) fn is_possible() -> bool {
    machine::is_root()
}

/// A pod with one container `main` of [`BUSYBOX`] that runs a shell script. It ends at once when it is deleted.
pub fn pod(name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "main", "image": BUSYBOX, "command": ["sh", "-c", script] }],
        },
    })
}

/// A running node. Everything of it ends on drop.
pub struct RealNode {
    name: String,
    // In this order: what is below goes when nothing uses it any more.
    process: Process,
    ctr: PathBuf,
    site: Site,
}

/// What a node that is not started yet has of this machine: so its address is known before its cluster is started.
pub struct Site {
    place: Place,
    folder: Folder,
}

impl Site {
    /// Takes an address and a folder.
    pub fn take() -> anyhow::Result<Self> {
        machine::ensure_complete()?;
        let folder = Folder::new("node")?;
        // The random end of the folder's name.
        let unique = folder.path().to_string_lossy();
        let place = Place::take(&format!("tensile-{}", unique.rsplit('-').next().unwrap_or_default()))?;
        Ok(Self { place, folder })
    }

    /// The address of the node to come, and of this machine towards its pods.
    pub fn address(&self) -> Ipv4Addr {
        self.place.address()
    }

    /// Adds a node here to `cluster`, as [`RealNode::start`] does.
    pub async fn start(self, cluster: &Cluster, name: &str) -> anyhow::Result<RealNode> {
        let started = async {
            let node = RealNode::launch(cluster, name, self).await?;
            node.until_usable(cluster).await
        };
        started.await.with_context(|| format!("cannot start node {name} of {}", cluster.name()))
    }
}

impl RealNode {
    /// Adds a node to `cluster`, whose kubelet has the cluster's version, and waits until pods can be bound to it.
    pub async fn start(cluster: &Cluster, name: &str) -> anyhow::Result<Self> {
        Site::take()?.start(cluster, name).await
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of the node, and of this machine towards its pods. Not a loopback one: API servers agree to proxy to it.
    pub fn address(&self) -> Ipv4Addr {
        self.site.address()
    }

    /// Gives it the images of an archive, as `docker save` writes them.
    pub async fn import(&self, archive: &Path) -> anyhow::Result<()> {
        let mut ctr = tokio::process::Command::new(&self.ctr);
        // The node sees this file as /run/containerd/containerd.sock.
        ctr.arg("--address").arg(self.site.folder.join("run/containerd/containerd.sock"));
        ctr.args(["--namespace", "k8s.io", "images", "import"]).arg(archive).kill_on_drop(true);
        let output = ctr.output().await.context("cannot run ctr")?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cannot import {}: {}", archive.display(), told.trim());
        Ok(())
    }

    async fn launch(cluster: &Cluster, name: &str, site: Site) -> anyhow::Result<Self> {
        let programs = binaries::node(cluster.version()).await?;
        let Site { place, folder } = &site;
        write_files(cluster, name, folder.path(), place, &programs)?;
        let arguments = [
            format!("--kubeconfig={}", folder.join("kubeconfig").display()),
            format!("--config={}", folder.join("kubelet.json").display()),
            format!("--root-dir={}", folder.join("kubelet").display()),
            format!("--hostname-override={name}"),
            format!("--node-ip={}", place.address()),
        ];
        let log = cluster.folder().join(format!("node-{name}.log"));
        let process = Launch::new(format!("node {name} of {}", cluster.name()), "unshare", log)
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", START, "node"])
            .env("FOLDER", folder.path())
            .env("CONTAINERD", &programs.containerd)
            .env("CTR", &programs.ctr)
            .env("KUBELET", &programs.kubelet)
            .env("KUBELET_ARGS", arguments.join(" "))
            .start()?;
        Ok(Self { name: name.to_owned(), process, ctr: programs.ctr, site })
    }

    /// Fails at once when containerd or the kubelet has ended.
    async fn until_usable(mut self, cluster: &Cluster) -> anyhow::Result<Self> {
        let nodes: Api<Node> = Api::all(cluster.client());
        let name = self.name.clone();
        let about = format!("node {name} is ready");
        let usable = cluster.eventually(READY, &about, async || {
            if let Err(ended) = self.process.ensure_running() {
                return Ok(Err(ended));
            }
            let node = nodes.get(&name).await?;
            ensure!(kwok::is_usable(&node, 0), "its status is {:?}", node.status);
            Ok(Ok(()))
        });
        usable.await??;
        Ok(self)
    }
}

fn write_files(
    cluster: &Cluster,
    name: &str,
    folder: &Path,
    place: &Place,
    programs: &NodePrograms,
) -> anyhow::Result<()> {
    let (authority, user, address) = (cluster.authority(), format!("system:node:{name}"), place.address().to_string());
    fs::write(folder.join("ca.crt"), authority.identity().certificate)?;
    authority.server(&user, &[name, &address])?.write(folder, "serving")?;
    let identity = authority.client(&user, &["system:nodes"])?;
    let ca = authority.identity().certificate;
    let config = kubeconfig(cluster.name(), &cluster.server(), Some(&ca), &User::Certificate(&identity));
    kubeconfig::write(&folder.join("kubeconfig"), &config)?;

    let needed = |program: &str| machine::program(program).with_context(|| format!("there is no {program}"));
    fs::write(folder.join("containerd.toml"), files::containerd(folder, &programs.shim, &needed("runc")?))?;
    fs::create_dir(folder.join("cni"))?;
    fs::write(folder.join("cni/10-bridge.conflist"), files::network(place).to_string())?;
    fs::write(folder.join("kubelet.json"), files::kubelet(folder, place).to_string())?;
    // Pods get no resolver: nothing here would answer.
    fs::write(folder.join("resolv.conf"), "")?;
    images::write(&folder.join("images.tar"), &needed("busybox")?, &programs.agnhost).context("cannot write images")
}
