// SPDX-License-Identifier: Apache-2.0
//! Nobody answers: the cluster goes on, and only pods that opted in have to wait.

use anyhow::{Context as _, ensure};
use e2e::pods::{PATIENCE, Pods};
use e2e::wait::eventually;
use serde_json::json;

use super::{choosy, stash, world};

#[test]
fn without_the_webhook_only_pods_that_opted_in_are_refused_and_all_is_well_when_it_is_back() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _alone = world.peace.write().await;
        for replica in &world.hooks.replicas {
            replica.process().kill();
        }
        world
            .pair
            .within("down", async |above, _| {
                let system = Pods::of(&world.pair.upper, "kube-system");
                system.create_dry(&choosy(world, "of-the-system")).await?;
                Pods::of(&world.pair.upper, &world.hooks.namespace).create_dry(&choosy(world, "of-ours")).await?;
                let mut ordinary = choosy(world, "ordinary");
                for labels in [json!({}), json!({ "virtual-pod": "true", "tensile.io/leave-placement": "true" })] {
                    ordinary["metadata"]["labels"] = labels;
                    above.create_dry(&ordinary).await?;
                }
                let refused = above.create_dry(&choosy(world, "waits")).await.err().context("it was created")?;
                let refused = format!("{refused:#}");
                ensure!(refused.contains("failed calling webhook \"replica-0.placement.tensile.io\""), "{refused}");

                for replica in &world.hooks.replicas {
                    replica.process().restart()?;
                }
                world.hooks.until_ready().await?;
                // An API server tries a backend that was away again after a moment.
                eventually(PATIENCE, "pods are split again", async || {
                    ensure!(stash(&above.create_dry(&choosy(world, "waits")).await?).is_some(), "it is not split");
                    Ok(())
                })
                .await
            })
            .await
    })
}
