// SPDX-License-Identifier: Apache-2.0
//! API servers that go away and come back.

use anyhow::ensure;
use e2e::cluster::Component;
use e2e::link::Link;
use e2e::pods::{condition, uid, with};
use serde_json::{Value, json};

use super::world;

fn is_not_ready(node: &Value) -> bool {
    condition(node, "Ready")["status"] == "False"
}

#[test]
fn with_its_lower_cluster_away_at_the_start_a_node_registers_not_ready_and_recovers() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _alone = world.peace.write().await;
        world.lower.kill(Component::ApiServer)?;
        let link = Link::builder(&world.upper, &world.lower, "early").spawn()?;
        let node = link.until_node("is registered and not ready", is_not_ready).await?;
        let ready = condition(&node, "Ready");
        ensure!(ready["message"].as_str().is_some_and(|message| message.contains("lower cluster")), "{ready}");
        ensure!(ready["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{ready}");
        world
            .within("early", async |above, _| {
                above.create(&with(link.pod("patient"), json!({ "spec": { "nodeName": "early" } }))).await?;
                world.lower.restart(Component::ApiServer).await?;
                link.until_ready().await?;
                above.until_ready("patient").await?;
                Ok(())
            })
            .await
    })
}

#[test]
fn with_its_lower_cluster_gone_for_a_while_a_node_is_not_ready_and_everything_goes_on_after() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _alone = world.peace.write().await;
        world
            .with_link("gone", async |link, above, below| {
                for name in ["runs", "deleted"] {
                    above.create(&link.pod(name)).await?;
                    above.until_ready(name).await?;
                }
                let (upper, lower) = (above.get("runs").await?, below.get("runs").await?);
                world.lower.kill(Component::ApiServer)?;
                let node = link.until_node("is not ready", is_not_ready).await?;
                let message = condition(&node, "Ready")["message"].to_string();
                ensure!(message.contains("lower cluster"), "{message}");
                above.create(&with(link.pod("new"), json!({ "spec": { "nodeName": "gone" } }))).await?;
                above.delete("deleted", None).await?;
                above.until_event("new", "BackendUnavailable").await?;
                ensure!(above.find("deleted").await?.is_some(), "it went although its containers may run");

                world.lower.restart(Component::ApiServer).await?;
                link.until_ready().await?;
                for name in ["runs", "new"] {
                    above.until_ready(name).await?;
                }
                above.until_gone("deleted").await?;
                below.until_gone("deleted").await?;
                ensure!(uid(&above.get("runs").await?) == uid(&upper), "the upper pod was replaced");
                ensure!(uid(&below.get("runs").await?) == uid(&lower), "the lower pod was replaced");
                Ok(())
            })
            .await
    })
}

#[test]
fn with_its_upper_api_server_gone_for_a_while_it_catches_up() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _alone = world.peace.write().await;
        world
            .with_link("upstairs", async |link, above, below| {
                for name in ["finishes", "runs"] {
                    above.create(&link.pod(name)).await?;
                    above.until_ready(name).await?;
                }
                let lower = below.get("runs").await?;
                world.upper.kill(Component::ApiServer)?;
                below.annotate("finishes", e2e::kwok::FINISH, Some("Succeeded")).await?;
                below.until_phase("finishes", "Succeeded").await?;
                world.upper.restart(Component::ApiServer).await?;
                above.until_phase("finishes", "Succeeded").await?;
                above.create(&link.pod("new")).await?;
                above.until_ready("new").await?;
                ensure!(below.get("runs").await? == lower, "the lower pod changed");
                Ok(())
            })
            .await
    })
}
