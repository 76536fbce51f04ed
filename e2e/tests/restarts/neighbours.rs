// SPDX-License-Identifier: Apache-2.0
//! What is not ours below is left alone: pods of the lower cluster's own users, of other virtual nodes, of other upper
//! clusters.

use anyhow::ensure;
use e2e::link::Link;
use e2e::namespace;
use e2e::pods::{Pods, condition, uid};
use serde_json::{Value, json};

use super::world;

/// A pod that belongs to nobody upstairs.
fn foreign(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "theirs", "image": "example.org/theirs:1" }] } })
}

/// The upper pod says that its name is taken below by somebody else.
async fn is_in_the_way(above: &Pods, name: &str) -> anyhow::Result<()> {
    let accepted = |pod: &Value| condition(pod, "virtual-kubelet.io/Accepted").clone();
    let what = "says that its name is taken";
    let pod = above.until(name, what, |pod| accepted(pod)["reason"] == "LowerNameConflict").await?;
    let message = accepted(&pod)["message"].to_string();
    ensure!(message.contains(&format!("{}/{name}", above.namespace())), "{message}");
    above.until_event(name, "LowerNameConflict").await?;
    Ok(())
}

/// Nothing but kwok touched it.
async fn is_untouched(below: &Pods, before: &Value) -> anyhow::Result<()> {
    let name = before["metadata"]["name"].as_str().unwrap_or_default();
    let now = below.get(name).await?;
    ensure!(now == *before, "{before} became {now}");
    Ok(())
}

#[test]
fn a_foreign_lower_pod_of_the_same_name_is_left_alone_and_the_upper_pod_says_so() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .with_link("foreign", async |link, above, below| {
                namespace::make(above.namespace(), &world.lower).await?;
                below.create(&foreign("theirs")).await?;
                let theirs = below.until_ready("theirs").await?;

                above.create(&link.pod("theirs")).await?;
                is_in_the_way(above, "theirs").await?;
                link.restart()?;
                above.annotate("theirs", "seen", Some("after the restart")).await?;
                above.create(&link.pod("ours")).await?;
                above.until_ready("ours").await?;
                above.delete("theirs", None).await?;
                above.until_gone("theirs").await?;
                is_untouched(below, &theirs).await?;

                above.create(&link.pod("theirs")).await?;
                is_in_the_way(above, "theirs").await?;
                below.force_delete(&theirs).await?;
                above.until_ready("theirs").await?;
                Ok(())
            })
            .await
    })
}

#[test]
fn two_virtual_nodes_on_one_lower_cluster_do_not_see_each_others_pods() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        let left = Link::start(&world.upper, &world.lower, "left").await?;
        let right = Link::start(&world.upper, &world.lower, "right").await?;
        world
            .within("nodes", async |above, below| {
                for (link, name) in [(&left, "of-left"), (&right, "of-right"), (&right, "deleted-above")] {
                    above.create(&link.pod(name)).await?;
                    above.until_ready(name).await?;
                }
                let (of_left, of_right) = (below.get("of-left").await?, below.get("of-right").await?);
                let deleted = below.get("deleted-above").await?;

                // With its owner down, nobody else ends what is no longer wanted above.
                right.kill();
                above.force_delete(&above.get("deleted-above").await?).await?;
                left.restart()?;
                above.create(&left.pod("after-restart")).await?;
                above.until_ready("after-restart").await?;
                above.delete("after-restart", None).await?;
                above.until_gone("after-restart").await?;
                for pod in [&of_left, &of_right, &deleted] {
                    is_untouched(below, pod).await?;
                }

                right.restart()?;
                below.until_gone("deleted-above").await?;
                is_untouched(below, &of_left).await?;
                is_untouched(below, &of_right).await?;
                Ok(())
            })
            .await
    })
}

#[test]
fn two_upper_clusters_on_one_lower_cluster_do_not_see_each_others_pods() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        // Both call their node the same.
        let here = Link::start(&world.upper, &world.lower, "twin").await?;
        let there = Link::start(&world.neighbour, &world.lower, "twin").await?;
        world
            .within("uppers", async |above, below| {
                namespace::make(above.namespace(), &world.neighbour).await?;
                let beside = Pods::of(&world.neighbour, above.namespace());
                for name in ["here", "both"] {
                    above.create(&here.pod(name)).await?;
                    above.until_ready(name).await?;
                }
                for name in ["there", "both"] {
                    beside.create(&there.pod(name)).await?;
                }
                beside.until_ready("there").await?;
                is_in_the_way(&beside, "both").await?;
                let mut before = Vec::new();
                for name in ["here", "both", "there"] {
                    before.push(below.get(name).await?);
                }
                ensure!(
                    before[1]["metadata"]["annotations"]["tensile.io/upper-uid"] == uid(&above.get("both").await?),
                    "{}",
                    before[1]["metadata"]
                );

                for (link, pods) in [(&here, above), (&there, &beside)] {
                    link.restart()?;
                    pods.create(&link.pod("after-restart")).await?;
                    pods.until_ready("after-restart").await?;
                    pods.delete("after-restart", None).await?;
                    pods.until_gone("after-restart").await?;
                }
                beside.delete("both", None).await?;
                beside.until_gone("both").await?;
                for pod in &before {
                    is_untouched(below, pod).await?;
                }
                Ok(())
            })
            .await
    })
}
