//! Two clusters with a real node each: the services run as pods in the upper one, what they send down in the lower one.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use super::CHARTS;
use super::images::{Images, SCHEDULER};
use super::release::Release;
use crate::cluster::Cluster;
use crate::metrics_server::APISERVER_ARGS;
use crate::pods::with;
use crate::real_node::{RealNode, Site};
use crate::{door, service};

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
        let (images, upper, lower) = tokio::try_join!(Images::shared(), cluster("upper"), cluster("lower"))?;
        let ((upper, worker), (lower, node)) = (upper, lower);
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

    /// Where pods of lower nodes reach the upper API server, and pods of the upper node the lower one.
    pub fn addresses(&self) -> (String, String) {
        (format!("https://{}", self.upper_door), format!("https://{}", self.lower_door))
    }

    /// The values of the multi-scheduler's chart that name the image of its kube-scheduler.
    pub fn scheduler_image() -> Value {
        json!({ "repository": SCHEDULER.0, "tag": SCHEDULER.1, "pullPolicy": "Never" })
    }

    /// Runs `kubectl tensile` against the upper cluster; it must end well.
    pub async fn plugin(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(service::program("kubectl-tensile")?);
        command.env("KUBECONFIG", self.upper.kubeconfig()).args(args).kill_on_drop(true);
        let output = command.output().await.context("cannot start the plugin")?;
        let (told, said) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        ensure!(output.status.success(), "kubectl tensile {}: {said}{told}", args.join(" "));
        Ok(said.into_owned())
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
