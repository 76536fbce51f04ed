// SPDX-License-Identifier: Apache-2.0
//! Lower pods that vanish behind the virtual node's back: whether it looks or not, what ran never runs twice.

use anyhow::ensure;
use e2e::fixture::Pair;
use e2e::kwok::FINISH;
use e2e::link::Link;
use e2e::pods::{Pods, condition, uid, with};
use serde_json::{Value, json};

use super::{only_on, pair};

fn finishes(pod: Value) -> Value {
    with(pod, json!({ "spec": { "restartPolicy": "Never" } }))
}

/// Makes a pod and sees it run: whatever the virtual node had to do before has been begun.
async fn still_works(link: &Link, above: &Pods) -> anyhow::Result<()> {
    above.create(&link.pod("afterwards")).await?;
    above.until_ready("afterwards").await?;
    Ok(())
}

#[test]
fn a_pending_pod_that_vanished_is_made_again() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("again", async |above, below| {
            above.create(&only_on(pair.link.pod("pending"), "no-such-node")).await?;
            let unschedulable = |pod: &Value| condition(pod, "PodScheduled")["reason"] == "Unschedulable";
            let first = below.until("pending", "finds no node", unschedulable).await?;
            let upper = above.get("pending").await?;
            below.force_delete(&first).await?;
            below.until("pending", "is another one", |pod| uid(pod) != uid(&first)).await?;
            let now = above.get("pending").await?;
            ensure!(uid(&now) == uid(&upper) && now["status"]["phase"] == "Pending", "{}", now["status"]);
            Ok(())
        })
        .await
    })
}

#[test]
fn a_finished_pod_that_vanished_stays_finished() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("finished", async |above, below| {
            for (name, phase) in [("well", "Succeeded"), ("badly", "Failed")] {
                above.create(&finishes(pair.link.pod(name))).await?;
                above.until_ready(name).await?;
                above.annotate(name, FINISH, Some(phase)).await?;
                let before = above.until_phase(name, phase).await?;
                below.force_delete(&below.get(name).await?).await?;
                below.until_gone(name).await?;
                // A change above makes the virtual node look again.
                above.merge(name, json!({ "metadata": { "labels": { "seen": "again" } } })).await?;
                still_works(&pair.link, above).await?;
                above.delete("afterwards", Some(0)).await?;
                let after = above.get(name).await?;
                ensure!(after["status"] == before["status"], "{} became {}", before["status"], after["status"]);
                ensure!(below.find(name).await?.is_none(), "it runs again");
            }
            Ok(())
        })
        .await
    })
}

/// Runs `test` with a virtual node of its own that may be killed.
async fn with_link(
    name: &str,
    test: impl AsyncFnOnce(&Pair, &Link, &Pods, &Pods) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let pair = pair().await?;
    let link = Link::start(&pair.upper, &pair.lower, name).await?;
    pair.within(name, async |above, below| test(pair, &link, above, below).await).await
}

#[test]
fn what_happened_below_while_the_virtual_node_was_down_is_told_when_it_is_back() -> anyhow::Result<()> {
    e2e::run(with_link("told-later", async |_, link, above, below| {
        for name in ["finishes", "finished", "vanishes", "goes-on"] {
            above.create(&finishes(link.pod(name))).await?;
        }
        for name in ["finishes", "finished", "vanishes", "goes-on"] {
            above.until_ready(name).await?;
        }
        above.annotate("finished", FINISH, Some("Succeeded")).await?;
        let finished = above.until_phase("finished", "Succeeded").await?;
        let goes_on = below.get("goes-on").await?;

        link.kill();
        below.annotate("finishes", FINISH, Some("Failed")).await?;
        below.until_phase("finishes", "Failed").await?;
        for name in ["finished", "vanishes"] {
            below.force_delete(&below.get(name).await?).await?;
        }
        link.restart()?;

        let failed = above.until_phase("finishes", "Failed").await?;
        let ended = &failed["status"]["containerStatuses"][0]["state"]["terminated"];
        ensure!(ended["exitCode"] == 1, "{ended}");
        let lost = above.until_phase("vanishes", "Failed").await?;
        ensure!(lost["status"]["reason"] == "PodLost", "{}", lost["status"]);
        still_works(link, above).await?;
        let after = above.get("finished").await?;
        ensure!(after["status"] == finished["status"], "{} became {}", finished["status"], after["status"]);
        ensure!(below.find("finished").await?.is_none(), "a finished pod runs again");
        ensure!(below.find("vanishes").await?.is_none(), "a lost pod runs again");
        ensure!(uid(&below.get("goes-on").await?) == uid(&goes_on), "a running pod was made anew");
        Ok(())
    }))
}

#[test]
fn what_was_deleted_above_while_the_virtual_node_was_down_is_ended_when_it_is_back() -> anyhow::Result<()> {
    e2e::run(with_link("ended-later", async |_, link, above, below| {
        for name in ["deleted", "forced", "goes-on"] {
            above.create(&link.pod(name)).await?;
        }
        for name in ["deleted", "forced", "goes-on"] {
            above.until_ready(name).await?;
        }
        let goes_on = below.get("goes-on").await?;

        link.kill();
        above.delete("deleted", None).await?;
        above.force_delete(&above.get("forced").await?).await?;
        for name in ["deleted", "forced"] {
            ensure!(below.get(name).await?["metadata"]["deletionTimestamp"].is_null(), "who deleted {name}?");
        }
        link.restart()?;

        for name in ["deleted", "forced"] {
            below.until_gone(name).await?;
            above.until_gone(name).await?;
        }
        still_works(link, above).await?;
        ensure!(uid(&below.get("goes-on").await?) == uid(&goes_on), "a running pod was made anew");
        Ok(())
    }))
}
