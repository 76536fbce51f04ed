// SPDX-License-Identifier: Apache-2.0
//! The multi-scheduler: how long an answer takes over HTTPS at a fixed rate, how many pods a second a real kube-scheduler binds
//! with it and without it, and what becomes of more pods than there is room for.

mod reference;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use futures::future::try_join_all;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::lab::{DEADLINE, ensure_namespace};
use super::load::{Target, rate};
use super::statistics::{median, milliseconds, percentile};
use super::table::{Row, table};
use crate::cluster::Cluster;
use crate::kwok::NodeShape;
use crate::link::Link;
use crate::multi_scheduler::{MultiScheduler, SCHEDULER};
use crate::pods::{Pods, condition};
use crate::timeline::Timeline;
use crate::{binaries, cargo, wait};

/// A resource of which half of a pod's share is left on each node: the sum promises more than fits.
const SLOT: &str = "example.com/slot";
/// Slots of a node, and of a pod: two pods fit on a node.
const SLOTS: &str = "5";
const ASKED: &str = "2";
const PODS_PER_NODE: usize = 2;
/// CPU of the pod that questions are about.
const ASKED_CPU: &str = "500m";
/// Pods that are put to a kube-scheduler.
const REFERENCES: usize = 200;
/// Requests that create pods and are under way at the same time.
const IN_FLIGHT: usize = 64;

/// What is measured how long.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Settings {
    /// Lower clusters.
    #[arg(long, default_value_t = 2)]
    clusters: usize,
    /// Simulated nodes of each.
    #[arg(long, default_value_t = 200)]
    nodes: usize,
    /// Answers a second.
    #[arg(long, default_value_t = 500.0)]
    rate: f64,
    /// Seconds that they are asked for.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Connections that are kept alive.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Pods of a burst that fits, for pods a second.
    #[arg(long, default_value_t = 600)]
    pods: usize,
    /// Bursts with the multi-scheduler, and without, alternately; medians are taken.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Pods for which there is room for four fifths only, at most; 0 leaves them out.
    #[arg(long, default_value_t = 1_000)]
    burst: usize,
}

/// All clusters, with their virtual nodes.
struct Lab {
    upper: Cluster,
    lowers: Vec<Cluster>,
    _links: Vec<Link>,
}

pub(super) async fn run(settings: &Settings) -> anyhow::Result<()> {
    let newest = &binaries::SUPPORTED[..1];
    tokio::try_join!(cargo::build_services(), binaries::everything(newest))?;
    eprintln!("starting one upper and {} lower clusters", settings.clusters);
    let lab = Lab::start(newest[0], settings).await?;
    let mut rows = lab.answers(settings).await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds.max(1) {
        for asked in [false, true] {
            let multi = lab.multi(asked).await?;
            let name = format!("round-{round}-{}", if asked { "with" } else { "without" });
            let per_second = lab.pods_per_second(&name, settings.pods).await?;
            eprintln!("{name}: {per_second:.0} pods/s");
            if asked {
                with.push(per_second);
            } else {
                without.push(per_second);
            }
            drop(multi);
        }
    }
    let (with, without) = (median(with), median(without));
    rows.push(Row::new(format!("{} pods bound upstairs, without it", settings.pods), format!("{without:.0} pods/s")));
    rows.push(Row::new("the same with it", format!("{with:.0} pods/s")));
    rows.push(Row::new("ratio", format!("{:.2}", with / without)).target(">= 0.9"));
    if settings.burst > 0 {
        rows.extend(lab.burst(settings).await?);
    }
    println!("{}", table(&rows));
    Ok(())
}

impl Lab {
    async fn start(version: &str, settings: &Settings) -> anyhow::Result<Self> {
        let start = async |number: usize| {
            let cluster = Cluster::builder(&format!("lower-{number}")).version(version).start().await?;
            let nodes = NodeShape {
                count: settings.nodes,
                cpu: "64".to_owned(),
                extended: [(SLOT.to_owned(), SLOTS.to_owned())].into(),
                ..NodeShape::default()
            };
            cluster.kwok_nodes(nodes).await?;
            anyhow::Ok(cluster)
        };
        let upper = Cluster::builder("upper").version(version).start();
        let (upper, lowers) = tokio::try_join!(upper, try_join_all((0..settings.clusters.max(1)).map(start)))?;
        let links = try_join_all(lowers.iter().map(|lower| Link::start(&upper, lower, lower.name()))).await?;
        Ok(Self { upper, lowers, _links: links })
    }

    /// A scheduler that asks a multi-scheduler, or one that asks nobody, and then none runs.
    async fn multi(&self, asked: bool) -> anyhow::Result<MultiScheduler> {
        let lowers: Vec<&Cluster> = self.lowers.iter().collect();
        let builder = MultiScheduler::builder(&self.upper).args(&["--log-level=info"]);
        if asked {
            return builder.start(&lowers).await;
        }
        let multi = builder.unasked().start(&lowers).await?;
        multi.process().kill();
        Ok(multi)
    }

    /// Answers over HTTPS, with all clusters known.
    async fn answers(&self, settings: &Settings) -> anyhow::Result<Vec<Row>> {
        let multi = self.multi(true).await?;
        let names: Vec<&str> = self.lowers.iter().map(Cluster::name).collect();
        let mut asked = pod("asked", SCHEDULER, &json!({ "cpu": ASKED_CPU }));
        asked["metadata"]["uid"] = json!("705ab4f5-6393-11e8-b7cc-42010a800002");
        asked["metadata"]["namespace"] = json!("default");
        let body = json!({ "Pod": asked, "Nodes": null, "NodeNames": names }).to_string();
        let address: SocketAddr = multi.server().trim_start_matches("https://").parse()?;
        let ca = multi.authority().identity().certificate;
        let target = Target::new(address, &ca, Some(multi.identity()), "/v1/filter", body.as_bytes())?;
        target.saturate(settings.connections, Duration::from_secs(1)).await?;
        let (before, time) = (multi.process().usage()?.cpu, Duration::from_secs(settings.seconds));
        let latencies = target.paced(settings.connections, settings.rate, time).await?;
        let cpu = multi.process().usage()?.cpu.saturating_sub(before);
        let quantile = |percent| milliseconds(percentile(&latencies, percent));
        let nodes = settings.nodes * self.lowers.len();
        let peak = multi.process().usage()?.peak_megabytes();
        Ok(vec![
            Row::new(
                format!("filter over HTTPS at {:.0} a second, {nodes} lower nodes", rate(latencies.len(), time)),
                format!("p50 {:.2} ms, p99 {:.2} ms", quantile(50), quantile(99)),
            )
            .target("p99 < 3 ms"),
            Row::new("CPU of an answer", format!("{:.2} ms", milliseconds(cpu) / count(latencies.len()))),
            reference::measure(&self.lowers[0], settings.nodes, REFERENCES).await?,
            Row::new("peak memory", format!("{peak:.1} MB")),
        ])
    }

    /// Pods that fit, created as fast as the API server takes them, until the last one is bound.
    async fn pods_per_second(&self, namespace: &str, pods: usize) -> anyhow::Result<f64> {
        ensure_namespace(&self.upper, namespace).await?;
        let above = Timeline::begin(&self.upper, namespace).await?;
        let begin = Instant::now();
        create(&self.upper, namespace, SCHEDULER, pods, &json!({ "cpu": "10m" })).await?;
        let end = above.reached(|life| life.bound, pods, "bound", DEADLINE).await?;
        self.clear(namespace, &above).await?;
        Ok(count(pods) / (end - begin).as_secs_f64())
    }

    /// More pods than fit, though the sums promise room for all of them.
    async fn burst(&self, settings: &Settings) -> anyhow::Result<Vec<Row>> {
        let multi = self.multi(true).await?;
        let room = PODS_PER_NODE * settings.nodes * self.lowers.len();
        let pods = settings.burst.max(room * 5 / 4);
        let namespace = "burst";
        ensure_namespace(&self.upper, namespace).await?;
        let begin = Instant::now();
        create(&self.upper, namespace, SCHEDULER, pods, &json!({ SLOT: ASKED })).await?;
        let all = Pods::of(&self.upper, namespace);
        let bound = |pod: &Value| pod["spec"]["nodeName"].is_string();
        let refused = |pod: &Value| condition(pod, "PodScheduled")["reason"] == "Unschedulable";
        let counted = wait::eventually(DEADLINE, "all pods are bound or refused", async || {
            let all = all.list().await?;
            let bound = all.iter().filter(|pod| bound(pod)).count();
            anyhow::ensure!(all.iter().all(|pod| bound_or(pod, refused)), "{bound} are bound");
            Ok(bound)
        });
        let first = counted.await?;
        let settled = wait::eventually(Duration::from_secs(60), "what fits is bound", async || {
            let count = all.list().await?.iter().filter(|pod| bound(pod)).count();
            anyhow::ensure!(count >= room, "{count} of {room} are bound");
            Ok(count)
        });
        let settled = settled.await.unwrap_or(first);
        let time = begin.elapsed();
        let mut without = 0;
        for lower in &self.lowers {
            let below = Pods::of(lower, namespace).list().await?;
            without += below.iter().filter(|pod| refused(pod)).count();
        }
        // They are left behind: to delete thousands at once takes longer than an API server gives a request.
        drop(multi);
        Ok(vec![
            Row::new(format!("{pods} pods into room for {room}: bound"), settled.to_string()).target("the room"),
            Row::new("of them without a node below", without.to_string()).target("0"),
            Row::new("until then", format!("{:.1} s", time.as_secs_f64())),
        ])
    }

    async fn clear(&self, namespace: &str, above: &Timeline) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.upper.client(), namespace);
        pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        above.reached(|life| life.gone, above.lives().len(), "gone", DEADLINE).await?;
        for lower in &self.lowers {
            Pods::of(lower, namespace).until_all(0, "are gone", |_| true).await?;
        }
        Ok(())
    }
}

/// Creates so many pods of this scheduler.
async fn create(
    cluster: &Cluster,
    namespace: &str,
    scheduler: &str,
    pods: usize,
    requests: &Value,
) -> anyhow::Result<()> {
    let client = cluster.client();
    let create = |number: usize| {
        let body = serde_json::to_vec(&pod(&format!("pod-{number}"), scheduler, requests));
        let request = http::Request::post(format!("/api/v1/namespaces/{namespace}/pods"))
            .header(http::header::CONTENT_TYPE, "application/json");
        let client = client.clone();
        async move { client.request_text(request.body(body?)?).await.map(drop).context("cannot create a pod") }
    };
    stream::iter(0..pods).map(create).buffer_unordered(IN_FLIGHT).try_collect().await
}

fn bound_or(pod: &Value, refused: impl Fn(&Value) -> bool) -> bool {
    pod["spec"]["nodeName"].is_string() || refused(pod)
}

/// A pod for any virtual node, or any other.
fn pod(name: &str, scheduler: &str, requests: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": "bench" } },
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "tolerations": [{ "key": "virtual-kubelet.io/provider", "operator": "Exists" }],
            "containers": [{
                "name": "main",
                "image": "example.org/app:1",
                "resources": { "requests": requests, "limits": requests },
            }],
        },
    })
}

fn count(number: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let number = number as f64;
    number
}
