// SPDX-License-Identifier: Apache-2.0
//! Two clusters with a real node each: the services run as pods in the upper one, what they send down in the lower one.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::CHARTS;
use super::images::{Images, SCHEDULER};
use super::release::Release;
use crate::cluster::Cluster;
use crate::door;
use crate::metrics_server::APISERVER_ARGS;
use crate::pods::with;
use crate::real_node::{RealNode, Site};

/// Where all releases are.
pub const NAMESPACE: &str = "tensile";

/// The clusters, their nodes, and the images on the upper one.
pub struct Lab {
    /// The only node of the lower cluster.
    pub node: RealNode,
    /// The ordinary node of the upper cluster, where the services run.
    pub worker: RealNode,
    /// Where users create pods.
    pub upper: Cluster,
    /// Where they run.
    pub lower: Cluster,
    upper_door: SocketAddr,
    lower_door: SocketAddr,
}

impl Lab {
    /// Starts both, with the images of every chart.
    pub async fn start() -> anyhow::Result<Self> {
        // First: compilers leave a cluster that starts no time.
        let images = Images::shared().await?;
        let ((upper, worker), (lower, node)) = tokio::try_join!(cluster("upper"), cluster("lower"))?;
        for chart in CHARTS {
            worker.import(&images.archive(chart)).await?;
        }
        worker.import(&images.scheduler_of(&upper).await?).await?;
        let upper_door = door::open(&worker, &upper).await?;
        let lower_door = door::open(&node, &lower).await?;
        Ok(Self { node, worker, upper, lower, upper_door, lower_door })
    }

    /// A release in the upper cluster.
    pub fn release<'a>(&'a self, name: &'a str, chart: &'a str) -> Release<'a> {
        Release::new(&self.upper, name, chart, NAMESPACE)
    }

    /// `values`, and what is special here: no registry, and no kube-proxy, so that no pod reaches the address of a Service.
    pub fn values(&self, values: Value) -> Value {
        let variable = |name: &str, value: String| json!({ "name": name, "value": value });
        let api_server = json!([
            variable("KUBERNETES_SERVICE_HOST", self.upper_door.ip().to_string()),
            variable("KUBERNETES_SERVICE_PORT", self.upper_door.port().to_string()),
        ]);
        with(json!({ "image": { "pullPolicy": "Never" }, "env": api_server }), values)
    }

    /// Where pods of lower nodes reach the upper API server.
    pub fn upper_address(&self) -> String {
        format!("https://{}", self.upper_door)
    }

    /// Where pods of the upper node reach the lower API server.
    pub fn lower_address(&self) -> String {
        format!("https://{}", self.lower_door)
    }

    /// The values of the multi-scheduler's chart that name the image of its kube-scheduler.
    pub fn scheduler_image() -> Value {
        json!({ "repository": SCHEDULER.0, "tag": SCHEDULER.1, "pullPolicy": "Never" })
    }
}

/// A cluster with one node, whose API server its pods reach.
async fn cluster(name: &str) -> anyhow::Result<(Cluster, RealNode)> {
    let site = Site::take()?;
    // Without a kube-proxy the API server has to find the webhook by itself.
    let builder = Cluster::builder(name).audit(true).known_as(&site.address().to_string());
    let cluster = builder.apiserver_args(APISERVER_ARGS).start().await?;
    let node = site.start(&cluster, &format!("{name}-worker")).await?;
    Ok((cluster, node))
}
