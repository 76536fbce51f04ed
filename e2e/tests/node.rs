// SPDX-License-Identifier: Apache-2.0
//! What a virtual node must not let show: its restarts, and that another implementation wrote the Node before it.

use anyhow::{Context as _, ensure};
use e2e::cluster::{Cluster, Component};
use e2e::fixture::Pair;
use e2e::link::Link;
use e2e::pods::{PATIENCE, condition};
use e2e::wait::eventually;
use futures::TryStreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use tokio::time::timeout;

/// The clusters, for one test at a time: one of them takes the lower API server away.
async fn turn() -> anyhow::Result<MutexGuard<'static, Pair>> {
    static SHARED: OnceCell<Mutex<Pair>> = OnceCell::const_new();
    let start =
        async || anyhow::Ok(Mutex::new(Pair::start(Cluster::builder("upper"), Cluster::builder("lower")).await?));
    Ok(SHARED.get_or_try_init(start).await?.lock().await)
}

fn heartbeat(node: &Value) -> &str {
    condition(node, "Ready")["lastHeartbeatTime"].as_str().unwrap_or_default()
}

/// Waits until heartbeats, which are in whole seconds, are later than that of `node`.
async fn a_second_passes(node: &Value) -> anyhow::Result<()> {
    eventually(PATIENCE, "a second passes", async || {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        ensure!(now.as_str() > heartbeat(node), "it is still {now}");
        Ok(())
    })
    .await
}

#[test]
fn a_restart_shows_neither_in_readiness_nor_in_what_the_node_offers() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = turn().await?;
        let before = pair.link.until_node("offers", |node| node["status"]["allocatable"]["cpu"].is_string()).await?;
        a_second_passes(&before).await?;
        let nodes: Api<Node> = Api::all(pair.upper.client());
        let ours = WatchParams::default().fields("metadata.name=link");
        let version = before["metadata"]["resourceVersion"].as_str().context("no version")?;
        let mut events = Box::pin(nodes.watch(&ours, version).await?);
        pair.link.restart()?;
        let written_again = async {
            while let Some(event) = events.try_next().await? {
                let WatchEvent::Modified(node) = event else { continue };
                let node = serde_json::to_value(node)?;
                ensure!(condition(&node, "Ready")["status"] == "True", "{}", condition(&node, "Ready"));
                ensure!(node["status"]["allocatable"] == before["status"]["allocatable"], "{}", node["status"]);
                if heartbeat(&node) > heartbeat(&before) {
                    return Ok(());
                }
            }
            anyhow::bail!("the watch ended")
        };
        timeout(PATIENCE, written_again).await.context("it was not written again")?
    })
}

#[test]
fn a_node_that_the_go_library_wrote_is_taken_over_without_leftovers() -> anyhow::Result<()> {
    const NAME: &str = "taken-over";
    e2e::run(async {
        let pair = turn().await?;
        let nodes: Api<Node> = Api::all(pair.upper.client());
        let theirs = json!({
            "capacity": { "cpu": "8", "example.com/old": "1" },
            "conditions": [
                { "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready.",
                    "lastHeartbeatTime": "2024-01-01T00:00:00Z", "lastTransitionTime": "2024-01-01T00:00:00Z" },
                { "type": "OutOfDisk", "status": "False",
                    "lastHeartbeatTime": "2024-01-01T00:00:00Z", "lastTransitionTime": "2024-01-01T00:00:00Z" },
            ],
            "addresses": [{ "type": "InternalIP", "address": "192.0.2.77" }],
            "nodeInfo": { "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": "v1.18.4", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64" },
        });
        let labels =
            json!({ "type": "virtual-kubelet", "alpha.service-controller.kubernetes.io/exclude-balancer": "true" });
        let written = json!({ "name": NAME, "creationTimestamp": null, "labels": labels });
        let node = json!({
            "metadata": {
                "name": NAME,
                "labels": labels,
                "annotations": {
                    "virtual-kubelet.io/last-applied-object-meta": written.to_string(),
                    "virtual-kubelet.io/last-applied-node-status": theirs.to_string(),
                },
            },
            "status": theirs,
        });
        nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        // What somebody else added since is not the library's, so it stays.
        let foreign = json!({
            "metadata": { "labels": { "example.org/mark": "theirs" } },
            "status": {
                "capacity": { "example.org/dongle": "3" },
                "addresses": [{ "type": "ExternalIP", "address": "198.51.100.7" }],
            },
        });
        nodes.patch_status(NAME, &PatchParams::default(), &Patch::Strategic(foreign)).await?;

        let link = Link::start(&pair.upper, &pair.lower, NAME).await?;
        let node = link.until_node("offers", |node| node["status"]["capacity"]["cpu"] != "8").await?;
        let (labels, status) = (&node["metadata"]["labels"], &node["status"]);
        ensure!(labels["example.org/mark"] == "theirs" && labels["clusterID"] == NAME, "{labels}");
        ensure!(labels.get("alpha.service-controller.kubernetes.io/exclude-balancer").is_none(), "{labels}");
        ensure!(status["capacity"]["example.org/dongle"] == "3", "{status}");
        ensure!(status["capacity"].get("example.com/old").is_none(), "{status}");
        ensure!(condition(&node, "OutOfDisk").is_null(), "{status}");
        let addresses: Vec<_> = status["addresses"].as_array().into_iter().flatten().map(|a| &a["address"]).collect();
        ensure!(addresses == [e2e::link::NODE_IP, "198.51.100.7"], "{addresses:?}");
        Ok(())
    })
}

#[test]
fn while_the_lower_cluster_is_away_the_lease_is_renewed_and_the_node_says_why_it_is_not_ready() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = turn().await?;
        pair.link.until_ready().await?;
        pair.lower.kill(Component::ApiServer)?;
        let not_ready = |node: &Value| condition(node, "Ready")["status"] == "False";
        let node = pair.link.until_node("is not ready", not_ready).await?;
        let ready = condition(&node, "Ready");
        ensure!(ready["reason"] == "BackendUnreachable", "{ready}");
        let leases: Api<Lease> = Api::namespaced(pair.upper.client(), "kube-node-lease");
        let renewed = async || {
            let spec = leases.get(pair.link.name()).await?.spec.context("no spec")?;
            spec.renew_time.context("never renewed")
        };
        let before = renewed().await?;
        eventually(PATIENCE, "the lease is renewed twice", async || {
            let since = renewed().await?.0.duration_since(before.0);
            ensure!(since.as_secs() > 15, "only {since:?} since");
            Ok(())
        })
        .await?;
        pair.lower.restart(Component::ApiServer).await?;
        let node = pair.link.until_ready().await?;
        ensure!(condition(&node, "Ready")["reason"] == "KubeletReady", "{}", node["status"]);
        Ok(())
    })
}
