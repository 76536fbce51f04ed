// SPDX-License-Identifier: Apache-2.0
//! Where a pod may run below: the constraints that were stashed away from the upper scheduler.

use anyhow::ensure;
use e2e::pods::{Pods, with};
use serde_json::{Value, json};

use super::pair;
use super::refusals::is_refused;

fn stashed(pod: Value, stash: &str) -> Value {
    with(pod, json!({ "metadata": { "annotations": { "clusterSelector": stash } } }))
}

/// The lower node the pod runs on.
async fn lower_node(below: &Pods, name: &str) -> anyhow::Result<String> {
    Ok(below.get(name).await?["spec"]["nodeName"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn stashed_constraints_are_restored_below() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let ssd = json!({ "key": "disk", "operator": "In", "values": ["ssd"] });
        let required = json!({ "nodeSelectorTerms": [{ "matchExpressions": [ssd] }] });
        let tolerations = json!([{ "key": "dedicated", "operator": "Exists" }]);
        let by_selector = json!({ "nodeSelector": { "disk": "ssd" }, "tolerations": tolerations });
        let by_affinity = json!({
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } },
            "tolerations": tolerations,
        });
        pair.within("stashed", async |above, below| {
            for (name, stash) in [("selector", by_selector), ("affinity", by_affinity)] {
                above.create(&stashed(pair.link.pod(name), &stash.to_string())).await?;
                above.until_ready(name).await?;
                let node = lower_node(below, name).await?;
                ensure!(node == "lower-ssd-1", "{name} runs on {node}");
                let annotations = &below.get(name).await?["metadata"]["annotations"];
                ensure!(annotations["clusterSelector"].is_null(), "{annotations}");
            }
            Ok(())
        })
        .await
    })
}

#[test]
fn a_pod_bound_without_the_webhook_keeps_its_constraints() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("bound", async |above, below| {
            let spec = json!({
                "nodeName": pair.link.name(),
                "nodeSelector": { "disk": "ssd" },
                "tolerations": [{ "key": "dedicated", "operator": "Exists" }],
            });
            above.create(&with(pair.link.pod("bound"), json!({ "spec": spec }))).await?;
            above.until_ready("bound").await?;
            let node = lower_node(below, "bound").await?;
            ensure!(node == "lower-ssd-1", "it runs on {node}");
            Ok(())
        })
        .await
    })
}

#[test]
fn a_pod_whose_constraints_exclude_the_virtual_node_is_refused() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("misplaced", async |above, below| {
            let spec = json!({ "nodeName": pair.link.name(), "nodeSelector": { "clusterID": "elsewhere" } });
            above.create(&with(pair.link.pod("misplaced"), json!({ "spec": spec }))).await?;
            is_refused(above, below, "misplaced", "PlacementNotPossible", "elsewhere").await
        })
        .await
    })
}

#[test]
fn a_malformed_stash_is_shown_and_the_pod_runs_once_it_is_mended() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("malformed", async |above, below| {
            above.create(&stashed(pair.link.pod("malformed"), r#"{"nodeSelector": "#)).await?;
            is_refused(above, below, "malformed", "PlacementNotPossible", "annotation clusterSelector").await?;
            above.annotate("malformed", "clusterSelector", None).await?;
            above.until_ready("malformed").await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn an_edited_stash_of_a_running_pod_is_told_and_the_pod_runs_on() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("edited", async |above, below| {
            above.create(&pair.link.pod("edited")).await?;
            above.until_ready("edited").await?;
            let before = below.get("edited").await?;
            let stash = json!({ "nodeSelector": { "disk": "ssd" } }).to_string();
            above.annotate("edited", "clusterSelector", Some(&stash)).await?;
            let event = above.until_event("edited", "PlacementImmutable").await?;
            ensure!(event.contains("annotation clusterSelector was edited"), "{event}");
            above.until_ready("edited").await?;
            let after = below.get("edited").await?;
            ensure!(before["spec"] == after["spec"], "{} became {}", before["spec"], after["spec"]);
            Ok(())
        })
        .await
    })
}
