// SPDX-License-Identifier: Apache-2.0
//! Nothing is moved before it is known that exclusions are enforced.

use anyhow::{Context as _, ensure};
use e2e::descheduler::lab::{Lab, WITHOUT, admin};
use e2e::descheduler::workload::{deployment, until_running};
use e2e::pods::{PATIENCE, condition, uid};
use e2e::port::Port;
use e2e::wait::eventually;
use serde_json::{Value, json};

#[test]
fn with_neither_webhook_nor_multi_scheduler_owned_pods_are_not_moved_until_one_is_there() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("unguarded", async |above| {
            let namespace = above.namespace();
            lab.upper.kubectl(&["label", "namespace", namespace, WITHOUT]).await?;
            let before = lab.upper.audit()?.requests.len();
            let port = Port::reserve()?;
            let launch = lab.launch_at("descheduler-unguarded", &port)?.arg("--leader-elect=false");
            let mut process = launch.arg(format!("--canary-namespace={namespace}")).start()?;
            deployment(lab.upper.client(), above, "web", 1, json!({})).await?;
            let stuck = above
                .until_all(1, "are stuck", |pod| condition(pod, "virtual-kubelet.io/Scheduled")["status"] == "False");
            let pod = stuck.await?.remove(0);
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();

            // Event, readiness and log say what is missing.
            let missing = "no webhook was asked about a canary";
            let told = above.until_event(name, "ExclusionNotEnforced").await?;
            ensure!(told.contains(missing), "{told}");
            let log = process.log().to_owned();
            eventually(PATIENCE, "readiness and log tell it", async || {
                process.ensure_running()?;
                let (status, told) = admin(&port, "/readyz").await?;
                ensure!(status == 503 && told.contains("[-]exclusions") && told.contains(missing), "{status} {told}");
                let text = std::fs::read_to_string(&log)?;
                let line = text.lines().find(|line| line.contains("exclusions are not enforced"));
                ensure!(line.is_some_and(|line| line.contains(missing) && line.contains("ERROR")), "{line:?}");
                Ok(())
            })
            .await?;
            let (status, told) = admin(&port, &format!("/explain?namespace={namespace}&pod={name}")).await?;
            let explained: Value = serde_json::from_str(&told).with_context(|| format!("{status} {told}"))?;
            ensure!(explained["verdict"] == "stay" && explained["reason"] == "ExclusionNotEnforced", "{explained}");
            ensure!(explained["found"][0]["plugin"] == "RemovePodsUnschedulableBelow", "{explained}");
            ensure!(admin(&port, "/explain?namespace=no&pod=such").await?.0 == 404);
            ensure!(admin(&port, "/explain").await?.0 == 400);
            ensure!(uid(&above.get(name).await?) == uid(&pod), "it was moved");
            let asked = lab.upper.audit()?.after(before).by("tensile-descheduler");
            ensure!(!asked.counts().contains_key("create pods/eviction"), "{:?}", asked.counts());

            // Somebody asks the webhook.
            lab.upper
                .kubectl(&[
                    "label",
                    "namespace",
                    namespace,
                    &format!("{}-", WITHOUT.split_once('=').context("no =")?.0),
                ])
                .await?;
            until_running(above, "web", 1, "west").await?;
            ensure!(admin(&port, "/readyz").await?.0 == 200);
            // Canaries are never created.
            ensure!(above.list().await?.len() == 1, "something was created");
            Ok(())
        })
        .await
    })
}
