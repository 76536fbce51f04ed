// SPDX-License-Identifier: Apache-2.0
//! What pods bring along costs: requests for copies of ConfigMaps that many pods share, and for one change; memory for many
//! of them; requests for tokens.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use super::lab::{self, DEADLINE, Lab, Target};
use super::table::{Row, table};
use super::tokens;
use crate::objects::Objects;
use crate::{binaries, cargo};

/// How the virtual node calls itself to API servers.
pub(super) const USER_AGENT: &str = "tensile-virtual-node/";
/// Requests of the benchmark that are under way at the same time.
pub(super) const IN_FLIGHT: usize = 64;
/// ConfigMaps that one pod mounts, when memory is measured.
const MOUNTED: usize = 100;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Settings {
    /// Pods that share ConfigMaps.
    #[arg(long, default_value_t = 1_000)]
    pods: usize,
    /// ConfigMaps that they share.
    #[arg(long, default_value_t = 50)]
    shared: usize,
    /// ConfigMaps at once, for memory.
    #[arg(long, default_value_t = 5_000)]
    many: usize,
    /// Pods whose tokens are renewed; 0 leaves that out.
    #[arg(long, default_value_t = 10_000)]
    tokens: usize,
}

pub(super) async fn run(settings: &Settings) -> anyhow::Result<()> {
    let newest = &binaries::SUPPORTED[..1];
    tokio::try_join!(cargo::build_services(), binaries::everything(newest))?;
    let lab = Lab::start(newest[0], settings.pods.max(settings.many.div_ceil(MOUNTED)).max(settings.tokens)).await?;
    let link = lab.link().await?;
    let mut rows = shared(&lab, settings).await?;

    let before = link.process().usage()?.rss;
    let (above, below) = lab.watch("many").await?;
    create::<ConfigMap>(&lab, "many", (0..settings.many).map(config_map).collect()).await?;
    let holders = settings.many.div_ceil(MOUNTED);
    let pods = (0..holders).map(|pod| mounting(pod, pod * MOUNTED..((pod + 1) * MOUNTED).min(settings.many)));
    create::<Pod>(&lab, "many", pods.collect()).await?;
    above.reached(|life| life.running, holders, "Running", DEADLINE).await?;
    let used = link.process().usage()?.rss.saturating_sub(before);
    rows.push(
        Row::new(format!("memory of {} objects", settings.many), format!("{:.1} MB", megabytes(used)))
            .target("<= 20 MB"),
    );
    lab.clear("many", Target::VirtualNode, &above, &below).await?;
    if settings.tokens > 0 {
        rows.extend(tokens::measure(&lab, settings.tokens).await?);
    }
    println!("{}", table(&rows));
    Ok(())
}

async fn shared(lab: &Lab, settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let (above, below) = lab.watch("shared").await?;
    create::<ConfigMap>(lab, "shared", (0..settings.shared).map(config_map).collect()).await?;
    let asked = counts(lab)?;
    let pods = (0..settings.pods).map(|pod| mounting(pod, pod % settings.shared..pod % settings.shared + 1));
    create::<Pod>(lab, "shared", pods.collect()).await?;
    above.reached(|life| life.running, settings.pods, "Running", DEADLINE).await?;
    let had = counts(lab)?;
    let maps = Objects::within::<ConfigMap>(&lab.upper, "shared");
    maps.merge("map-0", json!({ "data": { "key": "changed" } })).await?;
    let copies = Objects::within::<ConfigMap>(&lab.lower, "shared");
    copies.until("map-0", "has changed", |map| map["data"]["key"] == "changed").await?;
    let has = counts(lab)?;
    lab.clear("shared", Target::VirtualNode, &above, &below).await?;

    let many = format!("{} pods, {} ConfigMaps: ", settings.pods, settings.shared);
    let row = |what: &str, count: usize| Row::new(format!("{many}{what}"), count.to_string());
    Ok(vec![
        row("copies made", had.created - asked.created).target("one each"),
        row("GETs above", had.got - asked.got).target("one each"),
        row("other requests below", had.others - asked.others).target("0"),
        Row::new("one change: requests below", (has.others - had.others).to_string()).target("1"),
    ])
}

/// Requests of the virtual node for ConfigMaps by name.
struct Counts {
    got: usize,
    created: usize,
    others: usize,
}

fn counts(lab: &Lab) -> anyhow::Result<Counts> {
    let count = |cluster: &crate::cluster::Cluster, verbs: &[&str]| -> anyhow::Result<usize> {
        let requests = cluster.audit()?.by(USER_AGENT).requests;
        let of_maps = requests.iter().filter(|request| {
            request.object_ref.as_ref().is_some_and(|object| object.resource == "configmaps")
                && verbs.contains(&request.verb.as_str())
        });
        Ok(of_maps.count())
    };
    Ok(Counts {
        got: count(&lab.upper, &["get"])?,
        created: count(&lab.lower, &["create"])?,
        others: count(&lab.lower, &["get", "update", "patch", "delete"])?,
    })
}

fn config_map(number: usize) -> Value {
    json!({ "metadata": { "name": format!("map-{number}") }, "data": { "key": "x".repeat(1_000) } })
}

/// A pod that mounts these ConfigMaps.
fn mounting(number: usize, maps: std::ops::Range<usize>) -> Value {
    let mut pod = lab::pod(&format!("pod-{number}"), Target::VirtualNode);
    let volumes = maps.map(|map| json!({ "name": format!("v{map}"), "configMap": { "name": format!("map-{map}") } }));
    pod["spec"]["volumes"] = volumes.collect();
    pod
}

pub(super) async fn create<K: Resource<DynamicType = ()>>(
    lab: &Lab,
    namespace: &str,
    objects: Vec<Value>,
) -> anyhow::Result<()> {
    let client: Client = lab.upper.client();
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &ApiResource::erase::<K>(&()));
    stream::iter(objects)
        .map(|object| {
            let api = api.clone();
            anyhow::Ok(async move {
                api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
                anyhow::Ok(())
            })
        })
        .try_buffer_unordered(IN_FLIGHT)
        .try_collect()
        .await
}

fn megabytes(bytes: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let bytes = bytes as f64;
    bytes / 1e6
}
