// SPDX-License-Identifier: Apache-2.0
//! Pods that name no scheduler, sent here by the webhook.

use anyhow::ensure;
use e2e::multi_scheduler::SCHEDULER;
use e2e::pods::{condition, with};
use e2e::webhook::Installation;
use serde_json::{Value, json};

use crate::lab::{Lab, node, pod};

#[test]
fn a_pod_that_opts_in_and_names_no_scheduler_goes_where_a_node_has_room() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.lock().await;
        let values = json!({ "schedulerName": SCHEDULER });
        let _webhook = Installation::start(&lab.upper, "tensile-webhook", 1, &values).await?;
        lab.within("sent", async |above| {
            let named = |name: &str, scheduler: Value| {
                let opted = json!({ "metadata": { "labels": { "virtual-pod": "true" } } });
                let mut pod = with(pod(name, json!({ "cpu": "3" })), opted);
                pod["spec"]["schedulerName"] = scheduler;
                pod
            };
            above.create(&named("sent", Value::Null)).await?;
            let running = above.until_phase("sent", "Running").await?;
            ensure!(running["spec"]["schedulerName"] == SCHEDULER, "{}", running["spec"]);
            ensure!(node(&running) == Some("west"), "{:?}", node(&running));
            // Nobody is called so, and nobody else takes it.
            let kept = above.create(&named("kept", json!("mine"))).await?;
            ensure!(kept["spec"]["schedulerName"] == "mine", "{}", kept["spec"]);
            ensure!(condition(&kept, "PodScheduled").is_null(), "{}", kept["status"]);
            for name in ["sent", "kept"] {
                above.delete(name, Some(0)).await?;
            }
            above.until_all(0, "are gone", |_| true).await.map(drop)
        })
        .await
    })
}
