// SPDX-License-Identifier: Apache-2.0
//! The two clusters of the benchmark, and making and removing many pods in them.

use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tensile_core::names;

use crate::cluster::Cluster;
use crate::kwok::NodeShape;
use crate::link::Link;
use crate::timeline::Timeline;
use crate::wait;

/// The longest that any number of pods may take; beyond it something hangs.
pub(super) const DEADLINE: Duration = Duration::from_secs(1200);
/// Requests of the benchmark that are under way at the same time.
const IN_FLIGHT: usize = 64;
/// Pods per simulated node.
const PODS_PER_NODE: u32 = 250;
/// The virtual node.
const NODE: &str = "lower";
/// Label of the simulated nodes.
const SIMULATED: (&str, &str) = ("bench.tensile.io/nodes", "simulated");

/// An upper and a lower cluster, both with simulated nodes: those of the upper one are for the reference.
pub(super) struct Lab {
    pub(super) upper: Cluster,
    pub(super) lower: Cluster,
}

/// Where a pod shall run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// On the virtual node.
    VirtualNode,
    /// On a simulated node of the cluster it is created in.
    Simulated,
}

impl Lab {
    /// Clusters with room for `pods` pods each.
    pub(super) async fn start(version: &str, pods: usize) -> anyhow::Result<Self> {
        let per_node = usize::try_from(PODS_PER_NODE)?;
        let start = async |name| {
            let cluster = Cluster::builder(name).version(version).audit(true).start().await?;
            let nodes = NodeShape {
                // A quarter more, so that the scheduler has a choice.
                count: (pods * 5 / 4).div_ceil(per_node),
                cpu: "64".to_owned(),
                pods: PODS_PER_NODE,
                labels: [(SIMULATED.0.to_owned(), SIMULATED.1.to_owned())].into(),
                ..NodeShape::default()
            };
            cluster.kwok_nodes(nodes).await?;
            anyhow::Ok(cluster)
        };
        let (upper, lower) = tokio::try_join!(start("upper"), start(NODE))?;
        Ok(Self { upper, lower })
    }

    /// A fresh process of the virtual node, whose node takes pods: the taints that it got while no process served it
    /// are gone.
    pub(super) async fn link(&self) -> anyhow::Result<Link> {
        let link = Link::start(&self.upper, &self.lower, NODE).await?;
        let is_served = |node: &Value| {
            let taints = node["spec"]["taints"].as_array().into_iter().flatten();
            !taints.filter_map(|taint| taint["key"].as_str()).any(|key| key.starts_with("node.kubernetes.io/"))
        };
        link.until_node("takes pods", is_served).await?;
        Ok(link)
    }

    /// Makes the namespace in both clusters and watches its pods there.
    pub(super) async fn watch(&self, namespace: &str) -> anyhow::Result<(Timeline, Timeline)> {
        for cluster in [&self.upper, &self.lower] {
            ensure_namespace(cluster, namespace).await?;
        }
        Ok((Timeline::begin(&self.upper, namespace).await?, Timeline::begin(&self.lower, namespace).await?))
    }

    /// Creates `count` pods as fast as the API servers take them: upstairs, or on simulated nodes of both clusters.
    pub(super) async fn create(&self, namespace: &str, count: usize, target: Target) -> anyhow::Result<()> {
        let clusters = match target {
            Target::VirtualNode => vec![&self.upper],
            Target::Simulated => vec![&self.upper, &self.lower],
        };
        stream::iter(0..count)
            .flat_map(|number| stream::iter(clusters.clone()).map(move |cluster| (cluster, number)))
            .map(|(cluster, number)| Ok(create_one(cluster.client(), request(namespace, number, target)?)))
            .try_buffer_unordered(IN_FLIGHT * clusters.len())
            .try_collect()
            .await
    }

    /// Creates one pod upstairs; the result needs no reference to this lab.
    pub(super) fn create_one(
        &self,
        namespace: &str,
        number: usize,
        target: Target,
    ) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + use<>> {
        Ok(create_one(self.upper.client(), request(namespace, number, target)?))
    }

    /// Deletes all pods of the namespace where they were created, and waits until they are gone in both clusters.
    pub(super) async fn clear(
        &self,
        namespace: &str,
        target: Target,
        above: &Timeline,
        below: &Timeline,
    ) -> anyhow::Result<()> {
        let clear = async |cluster: &Cluster| {
            let pods: Api<Pod> = Api::namespaced(cluster.client(), namespace);
            pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await
        };
        clear(&self.upper).await?;
        if let Target::Simulated = target {
            clear(&self.lower).await?;
        }
        for timeline in [above, below] {
            timeline.reached(|life| life.gone, timeline.lives().len(), "gone", DEADLINE).await?;
        }
        Ok(())
    }
}

pub(super) async fn ensure_namespace(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Api::<Namespace>::all(cluster.client()).create(&PostParams::default(), &namespace).await?;
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(cluster.client(), name);
    wait::eventually(DEADLINE, "the default service account exists", async || {
        Ok(accounts.get("default").await.map(drop)?)
    })
    .await
}

fn request(namespace: &str, number: usize, target: Target) -> anyhow::Result<http::Request<Vec<u8>>> {
    let body = serde_json::to_vec(&pod(&format!("pod-{number}"), target))?;
    let request = http::Request::post(format!("/api/v1/namespaces/{namespace}/pods"));
    Ok(request.header(http::header::CONTENT_TYPE, "application/json").body(body)?)
}

/// The answer is not decoded: the CPU is for what is measured.
async fn create_one(client: Client, request: http::Request<Vec<u8>>) -> anyhow::Result<()> {
    client.request_text(request).await?;
    Ok(())
}

/// An ordinary pod of a Deployment, about as large as they are.
pub(super) fn pod(name: &str, target: Target) -> Value {
    let (selector, tolerations) = match target {
        Target::VirtualNode => {
            (json!({ names::CLUSTER_ID: NODE }), json!([{ "key": names::PROVIDER_TAINT, "operator": "Exists" }]))
        }
        Target::Simulated => (json!({ SIMULATED.0: SIMULATED.1 }), json!([])),
    };
    let environment: Vec<Value> = (0..10)
        .map(|number| json!({ "name": format!("SETTING_{number}"), "value": "a value of usual length" }))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": { "app": "bench", "app.kubernetes.io/name": "bench", "pod-template-hash": "5d4f8c7b9d" },
            "annotations": { "prometheus.io/scrape": "true", "prometheus.io/port": "8080" },
        },
        "spec": {
            "nodeSelector": selector,
            "tolerations": tolerations,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "main",
                "image": "registry.example.org/team/application:1.2.3",
                "args": ["--listen=:8080", "--log-level=info"],
                "env": environment,
                "ports": [{ "name": "http", "containerPort": 8080 }],
                "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
                "readinessProbe": { "httpGet": { "path": "/ready", "port": "http" } },
            }],
        },
    })
}
