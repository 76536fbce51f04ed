// SPDX-License-Identifier: Apache-2.0
//! What containers use, as the kubelet API of a virtual node says it: real containers below, real readers above.

mod documents;
mod scaling;
mod sources;

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::fixture::RealPair;
use e2e::metrics_server::{self, MetricsServer};
use e2e::pods::Pods;
use e2e::real_node;
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Runs until it is deleted and uses some CPU all the time, but less than a fifth of a core.
const BUSY: &str = "trap 'exit 0' TERM; while :; do :; done";

/// What all tests here share: two clusters, each with a metrics-server of its own.
struct World {
    pair: RealPair,
    above: MetricsServer,
    below: MetricsServer,
}

/// The one that all tests here share.
async fn world() -> anyhow::Result<&'static World> {
    static SHARED: OnceCell<World> = OnceCell::const_new();
    SHARED
        .get_or_try_init(async || {
            let upper = Cluster::builder("upper").apiserver_args(metrics_server::APISERVER_ARGS);
            let upper = upper.controller_manager_args(&[
                "--horizontal-pod-autoscaler-sync-period=2s",
                "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
                "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
            ]);
            let lower = Cluster::builder("lower").apiserver_args(metrics_server::APISERVER_ARGS);
            let pair = RealPair::start(upper, lower, &[]).await?;
            let address = pair.node.address();
            let (above, below) = tokio::try_join!(
                MetricsServer::start(&pair.upper, address),
                MetricsServer::start(&pair.lower, address)
            )?;
            Ok(World { pair, above, below })
        })
        .await
}

/// Runs a test in a namespace of its own, beside others: with the pods of that namespace above and below.
fn test(name: &str, test: impl AsyncFnOnce(&World, &Pods, &Pods) -> anyhow::Result<()>) -> anyhow::Result<()> {
    if !real_node::can_run() {
        return Ok(());
    }
    e2e::run(async {
        let world = world().await?;
        world.pair.within(name, async |above, below| test(world, above, below).await).await
    })
}

impl World {
    /// A pod that is busy, within limits that leave the machine to others.
    fn busy(&self, name: &str) -> Value {
        let mut pod = self.pair.pod(name, BUSY);
        pod["spec"]["containers"][0]["resources"] =
            json!({ "requests": { "cpu": "50m", "memory": "16Mi" }, "limits": { "cpu": "150m", "memory": "64Mi" } });
        pod
    }
}

/// What the kubelet API of a node says at `path`, through its API server: media type and text.
async fn ask(cluster: &Cluster, node: &str, path: &str) -> anyhow::Result<(String, String)> {
    let request = Request::get(format!("/api/v1/nodes/{node}/proxy/{path}")).body(Body::empty())?;
    let answer = cluster.client().send(request).await?;
    let (status, kind) = (answer.status(), answer.headers().get("content-type").cloned());
    let text = String::from_utf8(answer.into_body().collect_bytes().await?.to_vec())?;
    ensure!(status.is_success(), "{status} to {path}: {text}");
    Ok((kind.context("no media type")?.to_str()?.to_owned(), text))
}

/// A sample of Prometheus' text: its value, and its time in milliseconds if it has one.
fn sample(text: &str, series: &str) -> anyhow::Result<(f64, Option<u64>)> {
    let rest =
        text.lines().find_map(|line| line.strip_prefix(series)).with_context(|| format!("no {series} in\n{text}"))?;
    let mut words = rest.split_whitespace();
    let value = words.next().context("no value")?.parse()?;
    Ok((value, words.next().map(str::parse).transpose()?))
}
