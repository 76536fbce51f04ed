// SPDX-License-Identifier: Apache-2.0
//! The descheduler: from "no room below" until a pod runs elsewhere, what that costs, and its memory; or very many kills.

mod glimpse;

use std::time::Duration;

use anyhow::ensure;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::glimpse::Glimpses;
use super::statistics::{milliseconds, per_pod, percentile};
use super::table::{Row, table};
use crate::cluster::Cluster;
use crate::descheduler::kills::kill_at_random;
use crate::descheduler::lab;
use crate::kwok::NodeShape;
use crate::link::Link;
use crate::process::Process;
use crate::webhook::Installation;
use crate::{binaries, cargo, namespace, service, wait};

/// The longest that anything may take; beyond it something hangs.
const DEADLINE: Duration = Duration::from_secs(600);
/// Requests of the benchmark that are under way at the same time.
const IN_FLIGHT: usize = 64;
/// Evictions that are under way at the same time, as many as of the descheduler.
const EVICTIONS: usize = 32;
/// Namespace of webhook and exclusions.
const OURS: &str = "tensile";
/// Label that west's nodes have and east's have not.
const LABEL: &str = "disk";
/// Pods are moved at once.
const POLICY: &str = "
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: bench
  pluginConfig:
  - name: RemovePodsUnschedulableBelow
    args: {minUnschedulableSeconds: 0}
  plugins: {deschedule: {enabled: [RemovePodsUnschedulableBelow]}}
";

/// What is measured.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Settings {
    /// Pods that are stuck at once, each of an owner of its own; 0 leaves this out.
    #[arg(long, default_value_t = 1_000)]
    pods: usize,
    /// The same, one after another; 0 leaves this out.
    #[arg(long, default_value_t = 300)]
    paced: usize,
    /// Of these, so many a second.
    #[arg(long, default_value_t = 20)]
    per_second: u32,
    /// Pods that are watched while memory is measured; 0 leaves this out.
    #[arg(long, default_value_t = 50_000)]
    watched: usize,
    /// Kills the descheduler so many times under load instead, and audits what became of the load.
    #[arg(long, default_value_t = 0)]
    kills: usize,
    /// What the kills begin with: others kill at other moments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(super) async fn run(settings: &Settings) -> anyhow::Result<()> {
    tokio::try_join!(cargo::build_services(), binaries::everything(&binaries::SUPPORTED[..1]))?;
    if settings.kills > 0 {
        return kills(settings).await;
    }
    let mut rows = Vec::new();
    if settings.pods + settings.paced > 0 {
        rows.extend(Box::pin(moves(settings)).await?);
    }
    if settings.watched > 0 {
        rows.extend(memory(settings.watched).await?);
    }
    println!("{}", table(&rows));
    Ok(())
}

async fn kills(settings: &Settings) -> anyhow::Result<()> {
    let lab = lab::Lab::shared().await?;
    let begin = Instant::now();
    let tell = |kills: usize| {
        eprintln!("{kills} of {} kills after {:.0} s", settings.kills, begin.elapsed().as_secs_f64());
    };
    lab.alone("kills", async |above| kill_at_random(lab, above, settings.kills, settings.seed, tell).await).await?;
    let seconds = begin.elapsed().as_secs_f64();
    println!("{} kills in {seconds:.0} s: every owner has its replicas, every other pod is there once", settings.kills);
    Ok(())
}

/// Two lower clusters: pods prefer east and can run in west alone.
struct Lab {
    upper: Cluster,
    descheduler: Process,
    _lowers: [Cluster; 2],
    _links: [Link; 2],
    _webhook: Installation,
}

impl Lab {
    async fn start(pods: usize) -> anyhow::Result<Self> {
        let per_node = 250;
        let lower = async |name: &str, labels: &[(&str, &str)]| {
            let cluster = Cluster::builder(name).start().await?;
            let nodes = NodeShape {
                count: (pods * 5 / 4).div_ceil(per_node).max(2),
                cpu: "128".to_owned(),
                pods: u32::try_from(per_node)?,
                labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
                ..NodeShape::default()
            };
            cluster.kwok_nodes(nodes).await?;
            anyhow::Ok(cluster)
        };
        // Controllers are as fast as the machine allows: they are not what is measured.
        let fast = ["--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-replicaset-syncs=32"];
        let upper = Cluster::builder("upper").audit(true).controller_manager_args(&fast);
        let (upper, east, west) =
            tokio::try_join!(upper.start(), lower("east", &[]), lower("west", &[(LABEL, "ssd")]))?;
        let links = tokio::try_join!(Link::start(&upper, &east, "east"), Link::start(&upper, &west, "west"))?;
        let webhook = Installation::start(&upper, OURS, 1, &json!({})).await?;
        let descheduler = descheduler(&upper)?;
        Ok(Self { upper, descheduler, _lowers: [east, west], _links: links.into(), _webhook: webhook })
    }
}

fn descheduler(upper: &Cluster) -> anyhow::Result<Process> {
    let policy = upper.folder().join("policy.yaml");
    std::fs::write(&policy, POLICY)?;
    let launch = service::launch("descheduler", "descheduler", upper.folder())?;
    launch
        .args(["--metrics-addr=127.0.0.1:0", "--log-level=info", "--leader-elect=false"])
        .arg(format!("--namespace={OURS}"))
        .arg(format!("--policy-config-file={}", policy.display()))
        .arg(format!("--kubeconfig={}", upper.kubeconfig().display()))
        .start()
}

/// Waits until the descheduler has said this.
async fn until_said(process: &mut Process, what: &str) -> anyhow::Result<()> {
    let log = process.log().to_owned();
    wait::eventually(DEADLINE, &format!("the descheduler says that {what}"), async || {
        if let Err(ended) = process.ensure_running() {
            return Ok(Err(ended));
        }
        ensure!(std::fs::read_to_string(&log)?.contains(what), "not yet");
        Ok(Ok(()))
    })
    .await?
}

async fn moves(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    eprintln!("starting an upper and two lower clusters");
    let mut lab = Lab::start(settings.pods + settings.paced).await?;
    until_said(&mut lab.descheduler, "exclusions are enforced").await?;
    let mut rows = Vec::new();
    // First: what many at once leave to be done is none of these.
    if settings.paced > 0 {
        rows.extend(measure(&lab, "paced", settings.paced, Some(settings.per_second)).await?);
    }
    if settings.pods > 0 {
        rows.extend(measure(&lab, "burst", settings.pods, None).await?);
    }
    rows.push(evictions(&lab, settings.pods.max(settings.paced)).await?);
    Ok(rows)
}

/// Creates so many `ReplicaSet`s of one pod each, and waits until all run in west.
async fn measure(lab: &Lab, name: &str, pods: usize, per_second: Option<u32>) -> anyhow::Result<Vec<Row>> {
    namespace::make(name, &lab.upper).await?;
    let glimpses = Glimpses::begin(&lab.upper, name);
    let asked = lab.upper.audit()?.requests.len();
    let path = format!("/apis/apps/v1/namespaces/{name}/replicasets");
    let client = lab.upper.client();
    match per_second {
        None => create(&client, &path, (0..pods).map(|number| replica_set(number).to_string())).await?,
        Some(per_second) => {
            let mut ticks = interval(Duration::from_secs(1) / per_second.max(1));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for number in 0..pods {
                ticks.tick().await;
                create(&client, &path, [replica_set(number).to_string()]).await?;
            }
        }
    }
    let seen = glimpses.until_running(pods, "west", DEADLINE).await?;
    let moved = seen.added.len();
    ensure!(moved > 0, "no pod was stuck");
    let writes = lab.upper.audit()?.after(asked).by("tensile-descheduler").counts();
    let writes: Vec<_> = writes.into_iter().filter(|(kind, _)| is_write(kind)).collect();
    let per_move = per_pod(writes.iter().map(|(_, count)| count).sum(), moved);
    let kinds: Vec<String> =
        writes.iter().map(|(kind, count)| format!("{kind} {:.2}", per_pod(*count, moved))).collect();
    let at = |times: &[Duration], percent| milliseconds(percentile(times, percent));
    let about = per_second.map_or_else(|| format!("{moved} stuck at once"), |rate| format!("{rate} a second"));
    Ok(vec![
        Row::new(
            format!("{about}: from \"no room\" shown upstairs until evicted"),
            format!("p50 {:.0} ms, p99 {:.0} ms", at(&seen.added, 50), at(&seen.added, 99)),
        )
        .target("p99 < 1 s")
        .tensile_kube("10 s, and 180 s old"),
        Row::new(
            format!("{about}: the same until its successor runs elsewhere"),
            format!("p50 {:.0} ms, p99 {:.0} ms", at(&seen.whole, 50), at(&seen.whole, 99)),
        ),
        Row::new(format!("{about}: API writes per move"), format!("{per_move:.2} ({})", kinds.join(", ")))
            .target("<= 3"),
        Row::new(
            format!("{about}: peak memory so far"),
            format!("{:.1} MB", lab.descheduler.usage()?.peak_megabytes()),
        ),
    ])
}

/// What the API server takes to evict so many pods that nobody schedules: no descheduler moves pods faster.
async fn evictions(lab: &Lab, pods: usize) -> anyhow::Result<Row> {
    let (client, namespace) = (lab.upper.client(), "evicted");
    namespace::make(namespace, &lab.upper).await?;
    let names: Vec<String> = (0..pods).map(|number| format!("pod-{number}")).collect();
    let bodies = names.iter().map(|name| {
        let mut pod = pod(name);
        pod["spec"]["schedulerName"] = json!("nobody");
        pod["metadata"]["labels"] = json!({});
        pod.to_string()
    });
    create(&client, &format!("/api/v1/namespaces/{namespace}/pods"), bodies).await?;
    let begin = Instant::now();
    let evicted = stream::iter(&names).map(|name| {
        let client = client.clone();
        async move {
            let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } });
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
            let request = Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
            let asked = Instant::now();
            client.request_text(request.body(eviction.to_string().into_bytes())?).await?;
            anyhow::Ok(asked.elapsed())
        }
    });
    let times: Vec<Duration> = evicted.buffer_unordered(EVICTIONS).try_collect().await?;
    let took = begin.elapsed().as_secs_f64();
    Ok(Row::new(
        format!("{} evictions asked for directly, {EVICTIONS} at once, while nothing else goes on", times.len()),
        format!("{took:.1} s, each p50 {:.0} ms", milliseconds(percentile(&times, 50))),
    ))
}

fn is_write(kind: &str) -> bool {
    let reads = ["get ", "list ", "watch "].iter().any(|verb| kind.starts_with(verb));
    !reads && !kind.contains("accessreviews")
}

async fn create(client: &Client, path: &str, bodies: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
    let requests = bodies.into_iter().map(|body| {
        let request = Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
        anyhow::Ok(request.body(body.into_bytes())?)
    });
    let created = stream::iter(requests).map_ok(|request| {
        let client = client.clone();
        async move {
            client.request_text(request).await?;
            anyhow::Ok(())
        }
    });
    created.try_buffer_unordered(IN_FLIGHT).try_collect().await
}

fn replica_set(number: usize) -> Value {
    let name = format!("owner-{number}");
    let mut pod = pod(&name);
    pod["metadata"]["labels"]["owner"] = json!(name);
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": name },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "owner": name } },
            "template": { "metadata": { "labels": pod["metadata"]["labels"] }, "spec": pod["spec"] },
        },
    })
}

/// A pod about as large as they are, that prefers east and can run in west alone.
fn pod(name: &str) -> Value {
    let east = json!([{ "key": "clusterID", "operator": "In", "values": ["east"] }]);
    let env: Vec<Value> =
        (0..10).map(|n| json!({ "name": format!("SETTING_{n}"), "value": "a value of usual length" })).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": "bench", "virtual-pod": "true" } },
        "spec": {
            "nodeSelector": { LABEL: "ssd" },
            "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
                { "weight": 100, "preference": { "matchExpressions": east } },
            ] } },
            "tolerations": [{ "key": "virtual-kubelet.io/provider", "operator": "Exists" }],
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "main", "image": "registry.example.org/team/application:1.2.3", "env": env,
                "resources": { "requests": { "cpu": "100m", "memory": "128Mi" } },
            }],
        },
    })
}

/// Pods that wait on a virtual node which nobody serves: what the descheduler keeps of them.
async fn memory(pods: usize) -> anyhow::Result<Vec<Row>> {
    eprintln!("creating {pods} pods to be watched");
    let upper = Cluster::builder("watched").scheduler(false).start().await?;
    namespace::make("watched", &upper).await?;
    namespace::make(OURS, &upper).await?;
    let node = json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "nobody", "labels": { "type": "virtual-kubelet", "clusterID": "nobody" } } });
    create(&upper.client(), "/api/v1/nodes", [node.to_string()]).await?;
    let bodies = (0..pods).map(|number| {
        let mut pod = pod(&format!("pod-{number}"));
        pod["spec"]["nodeName"] = json!("nobody");
        pod["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
        pod.to_string()
    });
    create(&upper.client(), "/api/v1/namespaces/watched/pods", bodies).await?;
    let mut process = descheduler(&upper)?;
    let begin = Instant::now();
    until_said(&mut process, "everything is listed").await?;
    let listed = begin.elapsed();
    let usage = process.usage()?;
    #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let resident = usage.rss as f64 / 1e6;
    Ok(vec![
        Row::new(
            format!("resident memory at {pods} watched pods that have not started"),
            format!("{resident:.1} MB, peak {:.1} MB", usage.peak_megabytes()),
        )
        .target("<= 40 MB"),
        Row::new(format!("start with {pods} pods until all are listed"), format!("{:.1} s", listed.as_secs_f64())),
    ])
}
