// SPDX-License-Identifier: Apache-2.0
//! Lower clusters that come, go, fall silent and come back.

use anyhow::{Context as _, ensure};
use e2e::cluster::{Cluster, Component};
use e2e::kwok::NodeShape;
use e2e::link::Link;
use e2e::multi_scheduler::MultiScheduler;
use e2e::namespace;
use e2e::pods::{PATIENCE, Pods};
use e2e::process::Signal;
use e2e::wait::eventually;
use serde_json::json;

use crate::lab::{filter, lower, node, pod, refusal, shown};

const KNOWN: &str = "tensile_multi_scheduler_cluster_known";

#[test]
fn clusters_come_and_go_and_one_that_is_silent_keeps_nobody_from_the_others() -> anyhow::Result<()> {
    e2e::run(async {
        let shape = || NodeShape { count: 2, ..NodeShape::default() };
        let (upper, near, far) =
            tokio::try_join!(Cluster::builder("head").start(), lower("near", shape()), lower("far", shape()))?;
        let _links = tokio::try_join!(Link::start(&upper, &near, "near"), Link::start(&upper, &far, "far"))?;
        let multi = MultiScheduler::builder(&upper).args(&["--stale-after=8s"]).start(&[&near]).await?;
        namespace::within("clusters", &upper, &[&near, &far], async |namespace| {
            let above = Pods::of(&upper, namespace);
            let to = async |name: &str, cluster: &str| {
                let selector = json!({ "spec": { "nodeSelector": { "clusterID": cluster } } });
                above.create(&e2e::pods::with(pod(name, json!({ "cpu": "1" })), selector)).await
            };
            // Nobody has looked into it, so nobody says that anything fits.
            to("early", "far").await?;
            let waiting = above.until("early", "is refused", |pod| refusal(pod).is_some()).await?;
            let told = refusal(&waiting).unwrap_or_default();
            ensure!(told.contains("there is no kubeconfig of its lower cluster"), "{told}");

            multi.add(&far)?;
            multi.until_metric(&format!("{KNOWN}{{cluster=\"far\"}} 1")).await?;
            above.until_phase("early", "Running").await?;

            // The same cluster under another name is told and changes nothing.
            let again = multi.clusters().join("again.kubeconfig");
            std::fs::copy(far.kubeconfig(), &again)?;
            eventually(PATIENCE, "the double is told", async || {
                let (status, told) = multi.admin("/readyz").await?;
                ensure!(status == 200 && told.contains("again: it is the same cluster as far"), "{status} {told}");
                Ok(())
            })
            .await?;
            std::fs::remove_file(again)?;
            std::fs::write(multi.clusters().join("broken.kubeconfig"), "{")?;
            eventually(PATIENCE, "the broken one is told", async || {
                let (status, told) = multi.admin("/readyz").await?;
                ensure!(status == 200 && told.contains("broken: kubeconfig"), "{status} {told}");
                Ok(())
            })
            .await?;

            // A frozen API server: connections stay, answers do not come.
            far.signal(Component::ApiServer, Signal::STOP)?;
            multi.until_metric(&format!("{KNOWN}{{cluster=\"far\"}} 0")).await?;
            let (status, told) = multi.admin("/readyz").await?;
            ensure!(status == 200 && told.contains("far: its API server was last heard"), "{status} {told}");
            to("near", "near").await?;
            above.until_phase("near", "Running").await?;
            let any = shown(pod("any", json!({ "cpu": "1" })), namespace);
            let ask = async || filter(&multi, any.clone(), &["near", "far", "ordinary"]).await;
            let answer = ask().await?;
            ensure!(answer["NodeNames"] == json!(["near", "ordinary"]), "{answer}");
            far.signal(Component::ApiServer, Signal::CONT)?;
            multi.until_metric(&format!("{KNOWN}{{cluster=\"far\"}} 1")).await?;
            eventually(PATIENCE, "it counts again", async || {
                let answer = ask().await?;
                ensure!(answer["NodeNames"] == json!(["near", "far", "ordinary"]), "{answer}");
                Ok(())
            })
            .await?;

            multi.remove(&far)?;
            eventually(PATIENCE, "it is not followed any more", async || {
                let told = ask().await?.to_string();
                ensure!(told.contains("there is no kubeconfig of its lower cluster"), "{told}");
                Ok(())
            })
            .await
        })
        .await
    })
}

#[test]
fn a_restart_loses_nothing_that_a_watch_can_tell() -> anyhow::Result<()> {
    e2e::run(async {
        let shape = NodeShape { count: 1, cpu: "4".to_owned(), ..NodeShape::default() };
        let (upper, below) = tokio::try_join!(Cluster::builder("top").start(), lower("under", shape))?;
        let link = Link::start(&upper, &below, "under").await?;
        let multi = MultiScheduler::builder(&upper).start(&[&below]).await?;
        namespace::within("restart", &upper, &[&below], async |namespace| {
            let above = Pods::of(&upper, namespace);
            // Bound upstairs, and nobody makes it below: only the upper watch tells of it.
            link.kill();
            above.create(&pod("first", json!({ "cpu": "3" }))).await?;
            let bound = above.until("first", "is bound", |pod| node(pod).is_some()).await?;
            ensure!(node(&bound).context("no node")? == "under", "{bound}");
            multi.process().restart()?;
            multi.until_ready().await?;
            multi.until_metric("tensile_multi_scheduler_cluster_assumed_pods{cluster=\"under\"} 1").await?;
            let second = shown(pod("second", json!({ "cpu": "3" })), namespace);
            let ask = async || filter(&multi, second.clone(), &["under"]).await;
            let answer = ask().await?;
            ensure!(answer["NodeNames"] == json!([]), "{answer}");
            above.delete("first", Some(0)).await?;
            above.force_delete(&bound).await.ok();
            multi.until_metric("tensile_multi_scheduler_cluster_assumed_pods{cluster=\"under\"} 0").await?;
            let answer = ask().await?;
            ensure!(answer["NodeNames"] == json!(["under"]), "{answer}");
            Ok(())
        })
        .await
    })
}
