// SPDX-License-Identifier: Apache-2.0
//! The demo: pods created in an upper cluster run in two lower ones, told as it happens.

#![allow(clippy::print_stdout, reason = "the demo is what it prints")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tensile_core::names;
use tokio::time::Instant;

use crate::binaries;
use crate::cargo;
use crate::cluster::Cluster;
use crate::kwok::NodeShape;
use crate::link::Link;
use crate::timeline::Timeline;

/// The lower clusters: the name, also of their virtual node upstairs, and how many simulated nodes they have.
const LOWERS: [(&str, usize); 2] = [("east", 3), ("west", 2)];
const REPLICAS: usize = 8;
const DEPLOYMENT: &str = "web";
const NAMESPACE: &str = "default";
const DEADLINE: Duration = Duration::from_secs(120);

/// The clusters of the demo, and the time since it began.
struct Stage {
    begin: Instant,
    upper: Cluster,
    lowers: Vec<Cluster>,
}

/// Runs the demo; `once` ends it when everything was seen, else it stays until Ctrl-C.
pub(crate) async fn run(once: bool) -> anyhow::Result<()> {
    println!("Building what is not built yet: the services with cargo, Kubernetes' own binaries with Go.");
    let newest = &binaries::SUPPORTED[..1];
    tokio::try_join!(cargo::build_services(), binaries::everything(newest))?;

    let stage = Stage::set(newest[0]).await?;
    let links = stage.join().await?;
    stage.show(&stage.upper, &["get", "nodes"]).await?;
    stage.deploy().await?;
    stage.show(&stage.upper, &["get", "pods", "-o", "wide"]).await?;
    for lower in &stage.lowers {
        stage.show(lower, &["get", "pods", "-o", "wide"]).await?;
    }
    if once {
        stage.clear().await?;
        stage.say("everything was seen");
    } else {
        println!("\nTry it:");
        for cluster in stage.clusters() {
            println!(
                "  kubectl --kubeconfig {} get pods -o wide   # {}",
                cluster.kubeconfig().display(),
                cluster.name()
            );
        }
        println!("Ctrl-C ends it and removes everything.");
        tokio::signal::ctrl_c().await?;
    }
    // Before the clusters that they serve.
    drop(links);
    Ok(())
}

impl Stage {
    async fn set(version: &str) -> anyhow::Result<Self> {
        let begin = Instant::now();
        let start = async |name| Cluster::builder(name).version(version).start().await;
        let lower = async |(name, count)| {
            let cluster = start(name).await?;
            cluster.kwok_nodes(NodeShape { count, pods: 100, ..NodeShape::default() }).await?;
            anyhow::Ok(cluster)
        };
        let (upper, east, west) = tokio::try_join!(start("upper"), lower(LOWERS[0]), lower(LOWERS[1]))?;
        let stage = Self { begin, upper, lowers: vec![east, west] };
        stage.say(&format!("three clusters run Kubernetes {version}, each with its own API server:"));
        println!("           upper   without a single node");
        for (name, count) in LOWERS {
            println!("           {name:7} with {count} simulated nodes");
        }
        Ok(stage)
    }

    fn say(&self, text: &str) {
        println!("[{:5.1} s] {text}", self.begin.elapsed().as_secs_f64());
    }

    fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(&self.upper).chain(&self.lowers)
    }

    /// Starts a virtual node for each lower cluster.
    async fn join(&self) -> anyhow::Result<Vec<Link>> {
        let mut links = Vec::new();
        for lower in &self.lowers {
            let link = Link::builder(&self.upper, lower, lower.name()).spawn()?;
            let node = link.until_ready().await?;
            let amount = |name: &str| node["status"]["allocatable"][name].as_str().unwrap_or("?");
            let (cpu, memory, pods) = (amount("cpu"), amount("memory"), amount("pods"));
            self.say(&format!("{} is a node of upper now: {cpu} CPU, {memory} memory, {pods} pods", link.name()));
            links.push(link);
        }
        Ok(links)
    }

    /// Shows what kubectl shows.
    async fn show(&self, cluster: &Cluster, args: &[&str]) -> anyhow::Result<()> {
        let output = cluster.kubectl(args).await?;
        println!("\n({}) $ kubectl {}", cluster.name(), args.join(" "));
        println!("{}", String::from_utf8_lossy(&output.stdout).trim_end());
        Ok(())
    }

    /// Creates the Deployment upstairs and tells what becomes of its pods, until all run and both clusters have some.
    async fn deploy(&self) -> anyhow::Result<()> {
        let above = Timeline::begin(&self.upper, NAMESPACE).await?;
        let mut below = Vec::new();
        for lower in &self.lowers {
            below.push(Timeline::begin(lower, NAMESPACE).await?);
        }
        let deployments: Api<Deployment> = Api::namespaced(self.upper.client(), NAMESPACE);
        println!();
        self.say(&format!("creating a Deployment of {REPLICAS} pods in upper, spread over both clusters"));
        println!(
            "           pod                    bound to   created below   running below on       shown Running above"
        );
        let created = Instant::now();
        deployments.create(&PostParams::default(), &deployment()?).await?;

        let mut told = BTreeSet::new();
        while told.len() < REPLICAS {
            let left = DEADLINE.checked_sub(created.elapsed()).unwrap_or_default();
            ensure!(!left.is_zero(), "only {} of {REPLICAS} pods were shown Running in upper", told.len());
            above.changed(left).await?;
            for (name, life) in above.lives() {
                let (Some(bound), Some(shown)) = (life.bound, life.running) else { continue };
                let node = life.node.unwrap_or_default();
                let lower = self.lowers.iter().position(|lower| lower.name() == node);
                let lower = lower.with_context(|| format!("{name} was bound to {node}, which is no lower cluster"))?;
                // What upper shows was seen below before, but its own watch may bring it later.
                below[lower].reached(|life| life.running, 1, "Running", left).await?;
                let Some(life) = below[lower].lives().remove(&name) else { continue };
                let (Some(made), Some(running)) = (life.created, life.running) else { continue };
                if told.insert(name.clone()) {
                    let after = |moment: Instant| format!("{:.3} s", moment.duration_since(created).as_secs_f64());
                    let on = life.node.unwrap_or_default();
                    println!(
                        "           {name:22} {node:4} {}   {}         {on:12} {}   {}",
                        after(bound),
                        after(made),
                        after(running),
                        after(shown)
                    );
                }
            }
        }
        let mut share: BTreeMap<String, usize> = BTreeMap::new();
        for life in above.lives().into_values() {
            *share.entry(life.node.unwrap_or_default()).or_default() += 1;
        }
        ensure!(share.len() == LOWERS.len(), "the pods are not spread: {share:?}");
        let share: Vec<String> = share.iter().map(|(node, count)| format!("{count} in {node}")).collect();
        self.say(&format!("all {REPLICAS} pods run: {}", share.join(", ")));
        Ok(())
    }

    /// Deletes the Deployment and sees its pods go everywhere.
    async fn clear(&self) -> anyhow::Result<()> {
        let mut timelines = Vec::new();
        for cluster in self.clusters() {
            timelines.push(Timeline::begin(cluster, NAMESPACE).await?);
        }
        println!();
        self.say("deleting the Deployment");
        let deployments: Api<Deployment> = Api::namespaced(self.upper.client(), NAMESPACE);
        deployments.delete(DEPLOYMENT, &DeleteParams::background()).await?;
        for timeline in &timelines {
            timeline.reached(|life| life.gone, timeline.lives().len(), "gone", DEADLINE).await?;
        }
        self.say("all its pods are gone, above and below");
        Ok(())
    }
}

/// An ordinary Deployment: it tolerates the virtual nodes' taint and spreads over clusters.
fn deployment() -> anyhow::Result<Deployment> {
    let labels = json!({ "app": DEPLOYMENT });
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": DEPLOYMENT },
        "spec": {
            "replicas": REPLICAS,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "containers": [{
                        "name": "web",
                        "image": "example.org/web:1",
                        "resources": { "requests": { "cpu": "1", "memory": "1Gi" } },
                    }],
                    "tolerations": [{ "key": names::PROVIDER_TAINT, "operator": "Exists" }],
                    "topologySpreadConstraints": [{
                        "maxSkew": 1,
                        "topologyKey": names::CLUSTER_ID,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": { "matchLabels": labels },
                    }],
                },
            },
        },
    }))?)
}
