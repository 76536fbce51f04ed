// SPDX-License-Identifier: Apache-2.0
//! Simulated nodes: one kwok process per cluster plays kubelet for all of them.
//!
//! A pod there is only an object: it runs at once, ends when its annotation [`FINISH`] says so, goes at once when it is
//! deleted unless [`HOLD`] holds it, and has no logs, no exec and no metrics.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};

use crate::binaries::{self, into_place};
use crate::cluster::{Cluster, Component};

/// Annotation on a running pod that ends it: `Succeeded` or `Failed`.
pub const FINISH: &str = "kwok.tensile.io/finish";
/// Annotation on a pod whose containers do not end when it is deleted, until the annotation is taken away.
pub const HOLD: &str = "kwok.tensile.io/hold";

/// Only nodes with this annotation are simulated: virtual nodes are left alone.
const MANAGED: (&str, &str) = ("kwok.x-k8s.io/node", "fake");
/// kwok's own stages that are used, in its source.
const UPSTREAM_STAGES: &[&str] = &[
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
];
const OWN_STAGES: &str = include_str!("kwok/stages.yaml");
/// Nodes are ready within this time.
const READY: Duration = Duration::from_secs(120);

/// Clusters with simulated nodes so far: pods of two clusters get different addresses, so that they can be told apart.
static CLUSTERS: AtomicU8 = AtomicU8::new(0);

/// Nodes that are all alike.
#[derive(Clone, Debug)]
pub struct NodeShape {
    /// They are called `CLUSTER-NAME-1`, `CLUSTER-NAME-2`, ...
    pub name: String,
    /// How many.
    pub count: usize,
    /// Of each.
    pub cpu: String,
    /// Of each.
    pub memory: String,
    /// Of each.
    pub pods: u32,
    /// More resources, such as `nvidia.com/gpu`.
    pub extended: BTreeMap<String, String>,
    /// More labels, over the usual ones.
    pub labels: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<Taint>,
}

impl Default for NodeShape {
    fn default() -> Self {
        Self {
            name: "node".to_owned(),
            count: 1,
            cpu: "32".to_owned(),
            memory: "256Gi".to_owned(),
            pods: 200,
            extended: BTreeMap::new(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }
}

impl NodeShape {
    fn node(&self, cluster: &str, number: usize) -> Node {
        let name = format!("{cluster}-{}-{number}", self.name);
        let usual =
            [("kubernetes.io/hostname", name.as_str()), ("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")];
        let mut labels: BTreeMap<String, String> = usual.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        labels.extend(self.labels.clone());
        let resources = [
            ("cpu", self.cpu.as_str()),
            ("memory", &self.memory),
            ("pods", &self.pods.to_string()),
            ("ephemeral-storage", "100Gi"),
        ]
        .into_iter()
        .chain(self.extended.iter().map(|(name, amount)| (name.as_str(), amount.as_str())))
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
        .collect::<BTreeMap<_, _>>();
        Node {
            metadata: ObjectMeta {
                name: Some(name),
                labels: Some(labels),
                annotations: Some([(MANAGED.0.to_owned(), MANAGED.1.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec { taints: Some(self.taints.clone()), ..NodeSpec::default() }),
            status: Some(NodeStatus {
                allocatable: Some(resources.clone()),
                capacity: Some(resources),
                ..NodeStatus::default()
            }),
        }
    }
}

impl Cluster {
    /// Adds simulated nodes and waits until pods can be bound to them.
    pub async fn kwok_nodes(&self, shape: NodeShape) -> anyhow::Result<()> {
        self.start_kwok().await?;
        let nodes: Api<Node> = Api::all(self.client());
        let names: Vec<String> = stream::iter(1..=shape.count)
            .map(|number| {
                let (nodes, node) = (nodes.clone(), shape.node(self.name(), number));
                async move { nodes.create(&PostParams::default(), &node).await.map(|node| node.name_any()) }
            })
            .buffered(16)
            .try_collect()
            .await
            .with_context(|| format!("cannot create nodes in {}", self.name()))?;
        let taints = shape.taints.len();
        self.eventually(READY, "its simulated nodes are ready", async || {
            let all = nodes.list(&ListParams::default()).await?;
            let ready = all.iter().filter(|node| names.contains(&node.name_any()) && is_usable(node, taints)).count();
            ensure!(ready == names.len(), "{ready} of {} are", names.len());
            Ok(())
        })
        .await
    }

    /// Starts kwok if it does not run yet.
    async fn start_kwok(&self) -> anyhow::Result<()> {
        if self.has(Component::Kwok) {
            return Ok(());
        }
        let (program, upstream) = (binaries::kwok().await?, upstream_stages().await?);
        let own = self.folder().join("kwok-stages.yaml");
        fs::write(&own, OWN_STAGES)?;
        let launch = Component::Kwok
            .launch(self.name(), &program, self.folder())
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .arg("--config")
            .arg(upstream)
            .arg("--config")
            .arg(own)
            .arg("--manage-all-nodes=false")
            .arg(format!("--manage-nodes-with-annotation-selector={}={}", MANAGED.0, MANAGED.1))
            .arg(format!("--cidr=10.{}.0.0/16", 128 + CLUSTERS.fetch_add(1, Ordering::Relaxed) % 100))
            .args(["--node-ip=10.0.0.1", "--v=WARN", "--node-lease-duration-seconds=40"]);
        self.start_component(Component::Kwok, launch)
    }
}

/// Ready, and the controller manager has taken away the taints of a new node.
pub(crate) fn is_usable(node: &Node, taints: usize) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let tainted = node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).map_or(0, Vec::len);
    tainted == taints && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// A file in the cache with kwok's own stages, so that Go is needed only once.
async fn upstream_stages() -> anyhow::Result<PathBuf> {
    let file = binaries::cache()?.join(format!("kwok-stages-{}.yaml", binaries::KWOK));
    if !file.is_file() {
        let stages = binaries::kwok_source().await?.join("kustomize/stage");
        let texts = UPSTREAM_STAGES.iter().map(|stage| fs::read_to_string(stages.join(stage)));
        let texts = texts.collect::<std::io::Result<Vec<_>>>().context("cannot read kwok's stages")?;
        into_place(&file, |path| Ok(fs::write(path, texts.join("\n---\n"))?))?;
    }
    Ok(file)
}
