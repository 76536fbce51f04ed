// SPDX-License-Identifier: Apache-2.0
//! Pods that are nobody's business here stay as their author wrote them.

use anyhow::ensure;
use e2e::pods::{Pods, with};
use serde_json::{Value, json};

use super::{choosy, stash, world};

/// Whether the API server stores the pod with the constraints of its author and nothing of ours.
fn is_as_written(pod: &Value) -> anyhow::Result<()> {
    ensure!(pod["spec"]["nodeSelector"] == json!({ "clusterID": "link", "disk": "ssd" }), "{}", pod["spec"]);
    ensure!(stash(pod).is_none(), "{}", pod["metadata"]);
    let tolerations = pod["spec"]["tolerations"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The API server adds two of its own, which end.
    let ours = tolerations.iter().filter(|one| one["tolerationSeconds"].is_null());
    ensure!(ours.count() == 2, "{}", pod["spec"]["tolerations"]);
    Ok(())
}

#[test]
fn who_does_not_opt_in_or_opts_out_is_left_alone() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        let labelled = |labels: Value| {
            let mut pod = choosy(world, "as-written");
            pod["metadata"]["labels"] = labels;
            pod
        };
        world
            .pair
            .within("untouched", async |above, _| {
                for labels in [
                    json!({}),
                    json!({ "virtual-pod": "false" }),
                    json!({ "virtual-pod": "true", "tensile.io/leave-placement": "true" }),
                ] {
                    is_as_written(&above.create_dry(&labelled(labels)).await?)?;
                }
                ensure!(stash(&above.create_dry(&choosy(world, "split")).await?).is_some(), "who opts in is split");

                let upper = &world.pair.upper;
                upper.kubectl(&["label", "namespace", above.namespace(), "tensile.io/leave-placement=true"]).await?;
                e2e::wait::eventually(e2e::pods::PATIENCE, "the label of the namespace counts", async || {
                    is_as_written(&above.create_dry(&choosy(world, "as-written")).await?)
                })
                .await
            })
            .await?;
        for namespace in ["kube-system", &world.hooks.namespace] {
            is_as_written(&Pods::of(&world.pair.upper, namespace).create_dry(&choosy(world, "as-written")).await?)?;
        }
        Ok(())
    })
}

#[test]
fn an_update_does_not_split_what_was_created_before() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .pair
            .within("updated", async |above, _| {
                let mut pod = choosy(world, "early");
                pod["metadata"]["labels"] = json!({});
                let gate = json!({ "spec": { "schedulingGates": [{ "name": "example.org/wait" }] } });
                above.create(&with(pod, gate)).await?;
                let labels = json!({ "metadata": { "labels": { "virtual-pod": "true" } } });
                is_as_written(&above.merge("early", labels).await?)
            })
            .await
    })
}
