// SPDX-License-Identifier: Apache-2.0
//! The Node upstairs: what it says, what others write on it, and that it comes back.

use anyhow::ensure;
use e2e::pods::{PATIENCE, condition, uid};
use e2e::wait::eventually;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{World, world};

fn heartbeat(node: &Value) -> String {
    condition(node, "Ready")["lastHeartbeatTime"].as_str().unwrap_or_default().to_owned()
}

/// Waits until the node's lease is held by it and belongs to exactly this Node.
async fn holds_its_lease(world: &World, node: &Value) -> anyhow::Result<()> {
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let leases: Api<Lease> = Api::namespaced(world.upper.client(), "kube-node-lease");
    eventually(PATIENCE, "the lease is held and owned", async || {
        let lease = leases.get(name).await?;
        let spec = lease.spec.unwrap_or_default();
        ensure!(spec.holder_identity.as_deref() == Some(name), "{spec:?}");
        ensure!(spec.lease_duration_seconds == Some(40) && spec.renew_time.is_some(), "{spec:?}");
        let owners: Vec<_> = lease.metadata.owner_references.into_iter().flatten().map(|owner| owner.uid).collect();
        ensure!(owners == [uid(node)], "{owners:?}");
        Ok(())
    })
    .await
}

#[test]
fn a_node_says_what_stands_behind_it() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .with_link("introduced", async |link, _, _| {
                let node = link.until_ready().await?;
                let labels = &node["metadata"]["labels"];
                for (key, value) in [
                    ("type", "virtual-kubelet"),
                    ("clusterID", "introduced"),
                    ("kubernetes.io/role", "agent"),
                    ("kubernetes.io/hostname", "introduced"),
                    ("kubernetes.io/os", "linux"),
                    ("kubernetes.io/arch", "amd64"),
                ] {
                    ensure!(labels[key] == value, "{key} is {}", labels[key]);
                }
                let provider = json!({ "key": "virtual-kubelet.io/provider", "value": "k8s", "effect": "NoSchedule" });
                // The control plane's own taint of a new node may still be there.
                let taints = node["spec"]["taints"].as_array();
                ensure!(taints.is_some_and(|taints| taints.contains(&provider)), "{}", node["spec"]);
                for kind in ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"] {
                    ensure!(condition(&node, kind)["status"] == "False", "{kind}: {}", node["status"]);
                }
                let info = &node["status"]["nodeInfo"];
                ensure!(info["kubeletVersion"].as_str().is_some_and(|version| !version.is_empty()), "{info}");
                for resource in ["cpu", "memory", "pods", "ephemeral-storage"] {
                    ensure!(node["status"]["allocatable"][resource].is_string(), "{resource}: {}", node["status"]);
                }
                holds_its_lease(world, &node).await
            })
            .await
    })
}

#[test]
fn a_deleted_node_is_registered_again_and_its_pods_go_on() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .with_link("reborn", async |link, above, below| {
                above.create(&link.pod("goes-on")).await?;
                let before = above.until_ready("goes-on").await?;
                let lower = below.get("goes-on").await?;
                let first = link.until_ready().await?;
                let nodes: Api<Node> = Api::all(world.upper.client());
                nodes.delete(link.name(), &DeleteParams::default()).await?;

                let ready = |node: &Value| condition(node, "Ready")["status"] == "True";
                let second = link.until_node("is another one", |node| uid(node) != uid(&first) && ready(node)).await?;
                holds_its_lease(world, &second).await?;
                above.create(&link.pod("new")).await?;
                above.until_ready("new").await?;
                ensure!(uid(&above.until_ready("goes-on").await?) == uid(&before), "the upper pod was replaced");
                ensure!(uid(&below.get("goes-on").await?) == uid(&lower), "the lower pod was replaced");
                Ok(())
            })
            .await
    })
}

#[test]
fn what_others_write_on_the_node_stays() -> anyhow::Result<()> {
    const FOREIGN: &str = "example.org/Checked";
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .with_link("shared", async |link, _, _| {
                let nodes: Api<Node> = Api::all(world.upper.client());
                let marks = json!({ "example.org/mark": "theirs" });
                let theirs = json!({ "metadata": { "labels": marks, "annotations": marks } });
                nodes.patch(link.name(), &PatchParams::default(), &Patch::Strategic(theirs)).await?;
                world.upper.kubectl(&["taint", "node", link.name(), "example.org/theirs:PreferNoSchedule"]).await?;
                world.upper.kubectl(&["cordon", link.name()]).await?;
                let checked = json!({ "type": FOREIGN, "status": "True", "reason": "Seen" });
                let status = Patch::Strategic(json!({ "status": { "conditions": [checked] } }));
                let marked = nodes.patch_status(link.name(), &PatchParams::default(), &status).await?;
                let before = heartbeat(&serde_json::to_value(marked)?);

                // A restart writes everything anew; heartbeats are in whole seconds.
                eventually(PATIENCE, "a second passes", async || {
                    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                    ensure!(now > before, "it is still {now}");
                    Ok(())
                })
                .await?;
                link.restart()?;
                let node = link.until_node("is written again", |node| heartbeat(node) != before).await?;
                for map in ["labels", "annotations"] {
                    ensure!(node["metadata"][map]["example.org/mark"] == "theirs", "{map}: {}", node["metadata"]);
                }
                ensure!(node["spec"]["unschedulable"] == true, "{}", node["spec"]);
                let taints = node["spec"]["taints"].as_array();
                let keys: Vec<_> = taints.into_iter().flatten().map(|taint| &taint["key"]).collect();
                for key in ["example.org/theirs", "virtual-kubelet.io/provider"] {
                    ensure!(keys.iter().any(|found| *found == key), "{keys:?}");
                }
                ensure!(condition(&node, FOREIGN)["reason"] == "Seen", "{}", node["status"]);
                Ok(())
            })
            .await
    })
}

#[test]
fn a_node_that_was_lost_has_its_pods_ready_again_once_it_is_back() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .with_link("lost", async |link, above, below| {
                above.create(&link.pod("goes-on")).await?;
                let before = above.until_ready("goes-on").await?;
                let lower = below.get("goes-on").await?;
                link.kill();
                // The upper control plane marks the pods of a node it does not hear of; only a kubelet takes that back.
                let unready = |pod: &Value| condition(pod, "Ready")["status"] == "False";
                above.until("goes-on", "is not ready", unready).await?;
                link.restart()?;
                let after = above.until_ready("goes-on").await?;
                link.until_ready().await?;
                ensure!(uid(&after) == uid(&before), "the upper pod was replaced");
                ensure!(below.get("goes-on").await? == lower, "the lower pod changed");
                Ok(())
            })
            .await
    })
}
