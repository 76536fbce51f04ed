// SPDX-License-Identifier: Apache-2.0
//! What it does not do: more than allowed, make an outage worse, or anything at all in a dry run. And what it counts.

use anyhow::{Context as _, ensure};
use e2e::descheduler::lab::{Lab, admin};
use e2e::descheduler::workload::{LONG, deployment, of, small, until_running};
use e2e::pods::{PATIENCE, Pods, condition, uid};
use e2e::port::Port;
use e2e::wait::eventually;
use serde_json::{Value, json};

use crate::rebalance::until_alone;

#[test]
fn a_dry_run_says_what_it_would_do_and_writes_nothing() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("dry-run", async |above| {
            let before = lab.upper.audit()?.requests.len();
            let mut process = lab.launch("descheduler-dry")?.args(["--dry-run", "--leader-elect=false"]).start()?;
            deployment(lab.upper.client(), above, "web", 1, json!({})).await?;
            let pods = above
                .until_all(1, "are stuck", |pod| condition(pod, "virtual-kubelet.io/Scheduled")["status"] == "False");
            let pod = pods.await?.remove(0);
            let log = process.log().to_owned();
            eventually(PATIENCE, "it says what it would do", async || {
                process.ensure_running()?;
                let text = std::fs::read_to_string(&log)?;
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                let line = text.lines().find(|line| line.contains("dry run: would") && line.contains(name));
                ensure!(line.is_some_and(|line| line.contains("Insufficient cpu")), "{line:?}");
                Ok(())
            })
            .await?;
            process.kill();
            let requests = lab.upper.audit()?.after(before).by("tensile-descheduler").requests;
            let reads = ["get", "list", "watch"];
            let asks = |kind: &str| kind.starts_with("create selfsubjectaccessreviews");
            let wrote = requests.iter().find(|r| !reads.contains(&r.verb.as_str()) && !asks(&r.kind()));
            ensure!(wrote.is_none() && !requests.is_empty(), "{wrote:?}");
            ensure!(uid(&above.list().await?[0]) == uid(&pod), "it was moved");
            // One that may write moves it.
            let _process = lab.launch("descheduler-wet")?.arg("--leader-elect=false").start()?;
            until_running(above, "web", 1, "west").await.map(drop)
        })
        .await
    })
}

#[test]
fn an_owner_that_was_moved_too_often_is_parked_and_what_was_done_is_counted() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("parked", async |above| {
            let port = Port::reserve()?;
            let launch = lab.launch_at("descheduler-parked", &port)?.arg("--leader-elect=false");
            let mut process = launch.arg("--max-moves-per-owner=1").start()?;
            // This one can be moved.
            deployment(lab.upper.client(), above, "web", 1, json!({})).await?;
            until_running(above, "web", 1, "west").await?;
            // No node below has this: it is stuck wherever it is.
            let nowhere = json!({ "spec": { "nodeSelector": { "shelf": "none" } } });
            deployment(lab.upper.client(), above, "stuck", 1, nowhere).await?;
            let name = eventually(LONG, "it was moved once", async || {
                let pods = of(above, "stuck").await?;
                ensure!(pods.len() == 1 && pods[0]["spec"]["nodeName"] == "west", "not yet");
                Ok(pods[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            })
            .await?;
            let told = above.until_event(&name, "Parked").await?;
            ensure!(told.contains("moved too often"), "{told}");

            process.ensure_running()?;
            let (status, metrics) = admin(&port, "/metrics").await?;
            ensure!(status == 200, "{status} {metrics}");
            let namespace = above.namespace();
            let labels = format!(
                "namespace=\"{namespace}\",node=\"east\",profile=\"e2e\",result=\"success\",strategy=\"RemovePodsUnschedulableBelow\""
            );
            for line in [
                format!("tensile_descheduler_pods_evicted_total{{{labels}}} 2"),
                "tensile_descheduler_unschedulable_seconds_count 2".to_owned(),
                // Only one of them runs.
                "tensile_descheduler_move_seconds_count 1".to_owned(),
                "tensile_descheduler_pods_held{reason=\"Parked\"} 1".to_owned(),
            ] {
                ensure!(metrics.lines().any(|known| known == line), "no {line} in\n{metrics}");
            }
            Ok(())
        })
        .await
    })
}

#[test]
fn pods_that_a_cluster_refuses_are_moved_unless_most_are() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("refused", async |above| {
            let namespace = above.namespace();
            until_alone(lab, above).await?;
            // East takes no pods of this namespace.
            lab.lowers[0].kubectl(&["create", "namespace", namespace]).await?;
            lab.lowers[0].kubectl(&["create", "quota", "none", "--hard=pods=0", "-n", namespace]).await?;
            let refused = |pod: &Value| condition(pod, "virtual-kubelet.io/Accepted")["status"] == "False";
            deployment(lab.upper.client(), above, "many", 12, small()).await?;
            let first = above.until_all(12, "are refused", refused).await?;
            // Only now: the first few of them alone would be no outage.
            let plugin = ("RemovePodsRefusedBelow", json!({ "minRefusedSeconds": 1 }));
            let mut process = lab.launch_by("descheduler-refused", "deschedule", &[plugin])?.start()?;
            let name = first[0]["metadata"]["name"].as_str().unwrap_or_default();
            let told = above.until_event(name, "Outage").await?;
            ensure!(told.contains("most pods of east fail"), "{told}");
            ensure!(above.list().await?.iter().map(uid).eq(first.iter().map(uid)), "some were moved");

            // Few are no outage.
            lab.upper.kubectl(&["scale", "deployment", "many", "--replicas=2", "-n", namespace]).await?;
            until_running(above, "many", 2, "west").await?;
            process.ensure_running()
        })
        .await
    })
}

/// Waits until so many pods of `above` run in west, and all others are stuck and wait for a limit.
async fn until_limited(above: &Pods, port: &Port, moved: usize) -> anyhow::Result<()> {
    eventually(
        LONG,
        &format!("{moved} pods of {} run in west and a limit holds the others", above.namespace()),
        async || {
            let mut running = 0;
            for pod in above.list().await? {
                ensure!(pod["metadata"]["deletionTimestamp"].is_null(), "one is ending");
                if pod["spec"]["nodeName"] == "west" && pod["status"]["phase"] == "Running" {
                    running += 1;
                    continue;
                }
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                let (_, told) = admin(port, &format!("/explain?namespace={}&pod={name}", above.namespace())).await?;
                let explained: Value = serde_json::from_str(&told)?;
                ensure!(explained["verdict"] == "wait" && explained["reason"] == "Limited", "{explained}");
                let excluded = explained["exclusions"].as_array().is_some_and(|exclusions| !exclusions.is_empty());
                ensure!(!excluded, "it waits, and is excluded already: {explained}");
            }
            ensure!(running == moved, "{running} run in west");
            Ok(())
        },
    )
    .await
}

#[test]
fn no_more_pods_are_moved_in_a_time_than_the_limits_for_a_namespace_a_node_and_all_allow() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("limited", async |above| {
            lab.within("limited-too", async |other| {
                for number in 0..5 {
                    deployment(lab.upper.client(), above, &format!("web-{number}"), 1, json!({})).await?;
                }
                deployment(lab.upper.client(), other, "web", 1, json!({})).await?;
                let is_stuck = |pod: &Value| condition(pod, "virtual-kubelet.io/Scheduled")["status"] == "False";
                above.until_all(5, "are stuck", is_stuck).await?;
                other.until_all(1, "are stuck", is_stuck).await?;
                // Each begins with a limit that is not used up, and an hour is longer than this test.
                for (limit, moved) in [("PerNamespace", 1), ("PerNode", 2), ("Total", 3)] {
                    let port = Port::reserve()?;
                    let limit = format!("maxNoOfPodsToEvict{limit}: 1");
                    let launch = lab.launch_limited(&format!("descheduler-limited-{moved}"), &port, &limit)?;
                    let mut process = launch.args(["--leader-elect=false", "--descheduling-interval=1h"]).start()?;
                    until_limited(above, &port, moved).await.with_context(|| limit.clone())?;
                    until_limited(other, &port, 1).await.with_context(|| limit)?;
                    process.ensure_running()?;
                }
                let _process = lab.launch("descheduler-unlimited")?.arg("--leader-elect=false").start()?;
                for number in 0..5 {
                    until_running(above, &format!("web-{number}"), 1, "west").await?;
                }
                Ok(())
            })
            .await
        })
        .await
    })
}
