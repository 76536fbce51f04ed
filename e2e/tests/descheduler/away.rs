// SPDX-License-Identifier: Apache-2.0
//! A lower cluster that is out of reach for long: what only waits for it runs in another, what runs there stays.

use anyhow::{Context as _, ensure};
use e2e::descheduler::lab::Lab;
use e2e::descheduler::workload::{LONG, deployment, of, small, until_running};
use e2e::pods::{Pods, uid};
use e2e::wait::eventually;
use serde_json::{Value, json};

/// Nobody serves east: its pod that has not started moves once its node has not been ready for a while.
async fn while_it_is_away(lab: &Lab, above: &Pods) -> anyhow::Result<()> {
    // As long as the cluster has not noticed, the scheduler sends pods there.
    deployment(lab.upper.client(), above, "waits", 1, small()).await?;
    let bound = eventually(LONG, "a pod waits for east", async || {
        let pods = of(above, "waits").await?;
        pods.into_iter().find(|pod| pod["spec"]["nodeName"] == "east").context("none is bound to it")
    })
    .await?;
    let plugin = ("RemovePodsOnNotReadyNodes", json!({ "minNotReadySeconds": 1 }));
    let mut process = lab.launch_by("descheduler-away", "deschedule", &[plugin])?.start()?;
    eventually(LONG, "its successor runs in west", async || {
        process.ensure_running()?;
        let pods = of(above, "waits").await?;
        let runs = |pod: &Value| pod["spec"]["nodeName"] == "west" && pod["status"]["phase"] == "Running";
        ensure!(pods.iter().any(runs), "{} pods, none does", pods.len());
        Ok(())
    })
    .await?;
    let owner = bound["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default();
    let told = above.until_event(owner, "Descheduled").await?;
    ensure!(told.contains("its node is not ready"), "{told}");
    process.ensure_running()
}

#[test]
fn pods_that_have_not_started_leave_a_node_that_stays_not_ready_and_those_that_run_stay() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("away", async |above| {
            deployment(lab.upper.client(), above, "runs", 1, small()).await?;
            let runs = until_running(above, "runs", 1, "east").await?.remove(0);
            let [east, _] = &lab.links;
            east.kill();
            let moved = while_it_is_away(lab, above).await;
            // Others want it.
            east.restart()?;
            east.until_ready().await?;
            moved?;
            until_running(above, "waits", 1, "west").await?;
            let still = until_running(above, "runs", 1, "east").await?;
            ensure!(uid(&still[0]) == uid(&runs), "it was moved");
            Ok(())
        })
        .await
    })
}
