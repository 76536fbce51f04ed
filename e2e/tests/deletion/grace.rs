// SPDX-License-Identifier: Apache-2.0
//! A pod that is deleted above ends below first, in the time it was given.

use anyhow::{Context as _, ensure};
use e2e::kwok::{FINISH, HOLD};
use e2e::pods::{PATIENCE, Pods, condition, with};
use e2e::wait::eventually;
use serde_json::{Value, json};

use super::{held, only_on, pair};

fn is_ending(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

/// The containers of a held pod end: it goes below.
async fn release(below: &Pods, name: &str) -> anyhow::Result<()> {
    below.annotate(name, HOLD, None).await?;
    below.until_gone(name).await
}

#[test]
fn grace_is_passed_down_and_can_shrink() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("grace", async |above, below| {
            let slow = json!({ "spec": { "terminationGracePeriodSeconds": 400 } });
            above.create(&held(with(pair.link.pod("slow"), slow))).await?;
            above.until_ready("slow").await?;
            for (given, seconds) in [(None, 400), (Some(100), 100), (Some(50), 50)] {
                above.delete("slow", given).await?;
                let what = format!("has {seconds} s to end");
                below.until("slow", &what, |pod| pod["metadata"]["deletionGracePeriodSeconds"] == seconds).await?;
            }
            release(below, "slow").await?;
            above.until_gone("slow").await
        })
        .await
    })
}

#[test]
fn the_upper_pod_stays_until_the_lower_containers_have_ended() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("stays", async |above, below| {
            above.create(&held(pair.link.pod("late"))).await?;
            above.until_ready("late").await?;
            above.delete("late", Some(1)).await?;
            let lower = below.until("late", "is ending", is_ending).await?;
            let deadline: jiff::Timestamp =
                lower["metadata"]["deletionTimestamp"].as_str().context("no deletion timestamp")?.parse()?;
            eventually(PATIENCE, "its grace is long over", async || {
                ensure!(jiff::Timestamp::now().as_second() > deadline.as_second() + 2, "not yet");
                Ok(())
            })
            .await?;
            // Nothing was given up: what happens below is still shown above.
            below.merge_status("late", json!({ "message": "still writing" })).await?;
            above.until("late", "shows what happens below", |pod| pod["status"]["message"] == "still writing").await?;
            release(below, "late").await?;
            above.until_gone("late").await
        })
        .await
    })
}

#[test]
fn the_upper_pod_goes_although_somebodys_finalizer_keeps_the_ended_lower_one() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("kept", async |above, below| {
            above.create(&pair.link.pod("kept")).await?;
            above.until_ready("kept").await?;
            below.merge("kept", json!({ "metadata": { "finalizers": ["example.org/keep"] } })).await?;
            above.annotate("kept", FINISH, Some("Succeeded")).await?;
            above.until_phase("kept", "Succeeded").await?;
            above.delete("kept", None).await?;
            above.until_gone("kept").await?;
            below.until("kept", "is ending", is_ending).await?;
            below.merge("kept", json!({ "metadata": { "finalizers": null } })).await?;
            below.until_gone("kept").await
        })
        .await
    })
}

#[test]
fn a_pod_that_never_ran_goes_at_once() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("unborn", async |above, below| {
            above.create(&only_on(pair.link.pod("nowhere"), "no-such-node")).await?;
            let unschedulable = |pod: &Value| condition(pod, "PodScheduled")["reason"] == "Unschedulable";
            below.until("nowhere", "finds no node", unschedulable).await?;
            above.create(&with(pair.link.pod("refused"), json!({ "spec": { "hostNetwork": true } }))).await?;
            above.until_event("refused", "HostNamespaceNotAllowed").await?;
            for name in ["nowhere", "refused"] {
                above.delete(name, None).await?;
                above.until_gone(name).await?;
                below.until_gone(name).await?;
            }
            Ok(())
        })
        .await
    })
}

#[test]
fn a_forced_deletion_above_ends_the_lower_pod() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("forced", async |above, below| {
            above.create(&held(pair.link.pod("forced"))).await?;
            let pod = above.until_ready("forced").await?;
            above.force_delete(&pod).await?;
            ensure!(above.find("forced").await?.is_none(), "the API server keeps it");
            below.until("forced", "is ending", is_ending).await?;
            release(below, "forced").await
        })
        .await
    })
}
