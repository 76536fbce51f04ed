// SPDX-License-Identifier: Apache-2.0
//! A sum that no single node has.

use anyhow::{Context as _, ensure};
use e2e::pods::{PATIENCE, Pods, condition, with};
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::lab::{Lab, filter, node, pod, refusal, shown, stashed};

/// Condition that is `False` while the lower scheduler finds no node.
const SCHEDULED: &str = "virtual-kubelet.io/Scheduled";

#[test]
fn a_pod_goes_only_where_a_node_has_room_and_else_waits_with_the_reason() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.lock().await;
        lab.within("fragments", async |above| {
            for name in ["one", "two"] {
                above.create(&pod(name, json!({ "cpu": "3" }))).await?;
                let running = above.until_phase(name, "Running").await?;
                ensure!(node(&running) == Some("west"), "{:?}", node(&running));
            }
            // Upstairs two CPUs seem to be left in the west.
            above.create(&pod("three", json!({ "cpu": "1500m" }))).await?;
            let waiting = above.until("three", "is refused", |pod| refusal(pod).is_some()).await?;
            let told = refusal(&waiting).unwrap_or_default();
            for words in [
                "lower cluster east: none of 80 nodes has 1.5 CPUs free",
                "lower cluster west: none of 2 nodes has 1.5 CPUs free",
            ] {
                ensure!(told.contains(words), "{words:?} is not in {told:?}");
            }

            // What the sum promises and nobody keeps: the scheduler that knows no lower cluster strands the same pod.
            let stranded =
                with(pod("four", json!({ "cpu": "3" })), json!({ "spec": { "schedulerName": "default-scheduler" } }));
            above.create(&stranded).await?;
            let stuck = |pod: &_| condition(pod, SCHEDULED)["reason"] == "Unschedulable";
            let stranded = above.until("four", "is stuck below", stuck).await?;
            ensure!(node(&stranded) == Some("east"), "{:?}", node(&stranded));

            // Room upstairs and below: the one that waited gets it.
            above.delete("one", None).await?;
            let running = above.until_phase("three", "Running").await?;
            ensure!(node(&running) == Some("west"), "{:?}", node(&running));
            clear(above).await
        })
        .await
    })
}

/// Nothing may be left below for the next test to find.
async fn clear(above: &Pods) -> anyhow::Result<()> {
    for pod in above.list().await? {
        above.delete(pod["metadata"]["name"].as_str().unwrap_or_default(), Some(0)).await?;
    }
    above.until_all(0, "are gone", |_| true).await.map(drop)
}

#[test]
fn a_pod_is_tried_again_soon_when_only_the_lower_cluster_has_changed() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.lock().await;
        lab.within("wakes", async |above| {
            let picky = stashed(pod("picky", json!({ "cpu": "1" })), &json!({ "nodeSelector": { "disk": "ssd" } }));
            above.create(&picky).await?;
            let waiting = above.until("picky", "is refused", |pod| refusal(pod).is_some()).await?;
            let told = refusal(&waiting).unwrap_or_default();
            ensure!(told.contains("none of 2 nodes matches its node selector"), "{told}");

            let nodes: Api<Node> = Api::all(lab.lowers[1].client());
            let labels = |value| Patch::Merge(json!({ "metadata": { "labels": { "disk": value } } }));
            nodes.patch("west-node-1", &PatchParams::default(), &labels(Some("ssd"))).await?;
            let running = above.until_phase("picky", "Running").await?;
            ensure!(node(&running) == Some("west"), "{:?}", node(&running));
            let virtual_node = Api::<Node>::all(lab.upper.client()).get("west").await?;
            let annotations = virtual_node.metadata.annotations.unwrap_or_default();
            ensure!(annotations.contains_key("tensile.io/room"), "{annotations:?}");
            nodes.patch("west-node-1", &PatchParams::default(), &labels(None)).await?;
            clear(above).await
        })
        .await
    })
}

#[test]
fn a_pod_keeps_off_a_virtual_node_that_its_owner_is_excluded_from() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.lock().await;
        lab.within("excluded", async |above| {
            let maps: Api<ConfigMap> = Api::namespaced(lab.upper.client(), "default");
            let record = json!({ "version": 1, "nodes": [{ "node": "west", "until": "2100-01-01T00:00:00Z" }] });
            let map = json!({
                "metadata": { "name": "exclusions", "labels": { "tensile.io/exclusions": "true" } },
                "data": { (format!("pod.{}.small", above.namespace())): record.to_string() },
            });
            maps.create(&PostParams::default(), &serde_json::from_value(map)?).await?;
            // It is heard of some time after it was written; pods of others prove nothing, so ask about this one.
            let asked = shown(pod("small", json!({ "cpu": "50m" })), above.namespace());
            eventually(PATIENCE, "the exclusion counts", async || {
                let answer = filter(&lab.multi, asked.clone(), &["east", "west"]).await?;
                ensure!(answer["NodeNames"] == json!(["east"]), "{answer}");
                Ok(())
            })
            .await?;
            lab.forget_shown().await?;
            above.create(&pod("small", json!({ "cpu": "50m" }))).await?;
            let running = above.until_phase("small", "Running").await?;
            ensure!(node(&running) == Some("east"), "{:?}", node(&running));
            above.create(&pod("large", json!({ "cpu": "1" }))).await?;
            let running = above.until_phase("large", "Running").await?;
            ensure!(node(&running).context("not bound")? == "west", "others are not excluded");
            maps.delete("exclusions", &DeleteParams::default()).await?;
            clear(above).await
        })
        .await
    })
}
