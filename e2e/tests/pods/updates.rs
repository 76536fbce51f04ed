// SPDX-License-Identifier: Apache-2.0
//! What changes on a running pod above changes below, and what others changed below stays.

use anyhow::{Context as _, ensure};
use e2e::pods::{Pods, condition, with};
use serde_json::{Value, json};

use super::pair;

#[test]
fn labels_annotations_and_images_follow() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("follow", async |above, below| {
            let marks = json!({ "keep": "1", "change": "1", "drop": "1" });
            let metadata = json!({ "metadata": { "labels": marks, "annotations": marks } });
            above.create(&with(pair.link.pod("changed"), metadata)).await?;
            above.until_ready("changed").await?;
            let others = json!({ "labels": { "injected": "below" }, "annotations": { "injected": "below" } });
            below.merge("changed", json!({ "metadata": others })).await?;

            let change = json!({ "change": "2", "drop": null, "new": "1" });
            let image = "example.org/app:2";
            above
                .merge(
                    "changed",
                    json!({
                        "metadata": { "labels": change, "annotations": change },
                        "spec": { "containers": [{ "name": "main", "image": image }] },
                    }),
                )
                .await?;
            let lower = below
                .until("changed", "follows", |pod| {
                    pod["spec"]["containers"][0]["image"] == image
                        && ["labels", "annotations"].iter().all(|map| pod["metadata"][map]["new"] == "1")
                })
                .await?;
            for map in ["labels", "annotations"] {
                let of = |key: &str| lower["metadata"][map][key].as_str();
                let seen = ["keep", "change", "drop", "injected"].map(of);
                ensure!(seen == [Some("1"), Some("2"), None, Some("below")], "{map}: {}", lower["metadata"]);
            }
            Ok(())
        })
        .await
    })
}

#[test]
fn labels_of_upper_gang_schedulers_stay_above() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("tripped", async |above, below| {
            let gang = json!({ "metadata": { "labels": { "pod-group.scheduling.sigs.k8s.io": "gang" } } });
            above.create(&with(pair.link.pod("member"), gang)).await?;
            above.until_ready("member").await?;
            let metadata = &below.get("member").await?["metadata"];
            ensure!(metadata["labels"]["pod-group.scheduling.sigs.k8s.io"].is_null(), "{metadata}");
            let kept: Value = serde_json::from_str(metadata["annotations"]["tripped-labels"].as_str().unwrap_or("0"))?;
            ensure!(kept == json!({ "pod-group.scheduling.sigs.k8s.io": "gang" }), "{metadata}");
            Ok(())
        })
        .await
    })
}

#[test]
fn a_deadline_that_is_set_or_shortened_follows() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("deadline", async |above, below| {
            above.create(&pair.link.pod("limited")).await?;
            above.until_ready("limited").await?;
            for seconds in [3600, 1800] {
                above.merge("limited", json!({ "spec": { "activeDeadlineSeconds": seconds } })).await?;
                let what = format!("has a deadline of {seconds} s");
                below.until("limited", &what, |pod| pod["spec"]["activeDeadlineSeconds"] == seconds).await?;
            }
            Ok(())
        })
        .await
    })
}

#[test]
fn tolerations_that_are_added_follow() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("tolerant", async |above, below| {
            above.create(&pair.link.pod("tolerant")).await?;
            let upper = above.until_ready("tolerant").await?;
            let added = json!({ "key": "example.org/slow", "operator": "Exists", "effect": "NoExecute" });
            let mut tolerations = upper["spec"]["tolerations"].as_array().context("no tolerations")?.clone();
            tolerations.push(added.clone());
            above.merge("tolerant", json!({ "spec": { "tolerations": tolerations } })).await?;
            let lower = below
                .until("tolerant", "has the new toleration", |pod| {
                    pod["spec"]["tolerations"].as_array().is_some_and(|all| all.contains(&added))
                })
                .await?;
            let keys = lower["spec"]["tolerations"].as_array().context("no tolerations")?.iter().map(|t| &t["key"]);
            ensure!(!keys.clone().any(|key| key == "virtual-kubelet.io/provider"), "{}", lower["spec"]["tolerations"]);
            Ok(())
        })
        .await
    })
}

/// Reports, as the lower kubelet would, that the container has these requests. kwok does not, and without it no API
/// server takes a resize of a running container.
async fn report_requests(below: &Pods, name: &str, cpu: &str, conditions: Value) -> anyhow::Result<()> {
    let mut statuses = below.get(name).await?["status"]["containerStatuses"].clone();
    statuses[0]["resources"] = json!({ "requests": { "cpu": cpu } });
    below.merge_status(name, json!({ "containerStatuses": statuses, "conditions": conditions })).await?;
    Ok(())
}

#[test]
fn a_resize_goes_down_and_its_progress_comes_up() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("resize", async |above, below| {
            let containers = |cpu: &str| {
                let requests = json!({ "requests": { "cpu": cpu } });
                json!({ "spec": { "containers": [{ "name": "main", "image": "example.org/app:1", "resources": requests }] } })
            };
            let requested = |pod: &Value| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].clone();
            let reported = |pod: &Value| pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"].clone();
            above.create(&with(pair.link.pod("grows"), containers("100m"))).await?;
            above.until_ready("grows").await?;
            report_requests(below, "grows", "100m", json!([])).await?;
            above.until("grows", "reports 100m", |pod| reported(pod) == "100m").await?;

            above.merge_subresource("grows", "resize", containers("200m")).await?;
            below.until("grows", "requests 200m", |pod| requested(pod) == "200m").await?;

            let under_way = json!([{ "type": "PodResizeInProgress", "status": "True" }]);
            report_requests(below, "grows", "100m", under_way).await?;
            let upper = above
                .until("grows", "is being resized", |pod| condition(pod, "PodResizeInProgress")["status"] == "True")
                .await?;
            ensure!(upper["status"]["observedGeneration"] == upper["metadata"]["generation"], "{}", upper["status"]);

            let over = json!([{ "type": "PodResizeInProgress", "$patch": "delete" }]);
            report_requests(below, "grows", "200m", over).await?;
            above
                .until("grows", "is resized", |pod| {
                    reported(pod) == "200m" && condition(pod, "PodResizeInProgress").is_null()
                })
                .await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn a_debug_container_is_attached_below_and_its_state_comes_up() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("debugged", async |above, below| {
            above.create(&pair.link.pod("debugged")).await?;
            above.until_ready("debugged").await?;
            let debug = ["debug", "debugged", "--image=example.org/tools:1", "--container=tools", "--profile=general"];
            pair.upper.kubectl(&[&["-n", above.namespace()], &debug[..]].concat()).await?;
            let attached = |pod: &Value| pod["spec"]["ephemeralContainers"][0]["name"] == "tools";
            below.until("debugged", "has the debug container", attached).await?;

            let state = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
            let status = json!({ "name": "tools", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state });
            below.merge_status("debugged", json!({ "ephemeralContainerStatuses": [status] })).await?;
            above
                .until("debugged", "shows the debug container", |pod| {
                    pod["status"]["ephemeralContainerStatuses"][0]["state"] == state
                })
                .await?;
            Ok(())
        })
        .await
    })
}
