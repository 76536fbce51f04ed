// SPDX-License-Identifier: Apache-2.0
//! A bad way to the API server: cut connections, events of the past, requests that fail.

use anyhow::{Context as _, ensure};
use e2e::descheduler::audit::{all_is_well, workloads};
use e2e::descheduler::kills::behind_a_proxy;
use e2e::descheduler::lab::Lab;
use e2e::descheduler::workload::{deployment, until_running};
use e2e::pods::PATIENCE;
use e2e::wait::eventually;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use tensile_testkit::fault_proxy::{Command, Fault, Rule, Seen};

fn watches_pods(seen: &Seen) -> bool {
    seen.is_watch() && seen.path == "/api/v1/pods"
}

fn writes(seen: &Seen) -> bool {
    seen.method == Method::POST || seen.method == Method::PATCH || seen.method == Method::DELETE
}

#[test]
fn cut_connections_and_failed_writes_lose_and_double_nothing() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("cut", async |above| {
            let (proxy, mut process) = behind_a_proxy(lab, "descheduler-cut").await?;
            // Every write fails at first in one way or another: refused, unanswered, or done and its answer cut.
            proxy.add(
                Rule::new(Fault::INTERNAL_ERROR).when(|seen| writes(seen) && seen.is_about("configmaps")).times(3),
            );
            proxy.add(
                Rule::new(Fault::CutAfterBytes(9)).when(|seen| writes(seen) && seen.is_about("configmaps")).times(3),
            );
            proxy.add(Rule::new(Fault::CutAfterBytes(9)).when(|seen| seen.is_about("eviction")).times(3));
            proxy.add(Rule::new(Fault::CutAfterBytes(9)).when(|seen| writes(seen) && seen.is_about("pods")).times(3));
            process.restart()?;
            workloads(lab, above, "").await?;
            for command in [Command::Cut, Command::Expire, Command::End, Command::Cut] {
                let before = proxy.requests(watches_pods).len();
                eventually(PATIENCE, "it watches", async || {
                    process.ensure_running()?;
                    ensure!(proxy.command_watches(command) > 0, "no watch is open");
                    Ok(())
                })
                .await?;
                eventually(PATIENCE, "it watches again", async || {
                    process.ensure_running()?;
                    ensure!(proxy.requests(watches_pods).len() > before, "not yet");
                    Ok(())
                })
                .await?;
            }
            all_is_well(lab, above, "").await
        })
        .await
    })
}

#[test]
fn events_of_the_past_move_nothing_twice() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("replayed", async |above| {
            let (proxy, mut process) = behind_a_proxy(lab, "descheduler-replayed").await?;
            process.restart()?;
            for round in 0..3 {
                let past = version(lab).await?;
                let name = format!("-{round}");
                workloads(lab, above, &name).await?;
                all_is_well(lab, above, &name).await?;
                let before = uids(&above.list().await?);
                // All of that once more: pods that are gone come and are stuck, and go again.
                let seen = proxy.answered(watches_pods);
                proxy.add(Rule::new(Fault::WatchFrom(past)).when(watches_pods).times(1));
                ensure!(proxy.command_watches(Command::Cut) > 0, "no watch is open");
                eventually(PATIENCE, "it watches again", async || {
                    process.ensure_running()?;
                    ensure!(proxy.answered(watches_pods) > seen, "not yet");
                    Ok(())
                })
                .await?;
                // Whatever it makes of that, it also sees what is made now.
                deployment(lab.upper.client(), above, &format!("later{name}"), 1, json!({})).await?;
                until_running(above, &format!("later{name}"), 1, "west").await?;
                let after = uids(&above.list().await?);
                let gone: Vec<_> = before.iter().filter(|uid| !after.contains(uid)).collect();
                ensure!(gone.is_empty(), "pods that ran were moved: {gone:?}");
            }
            Ok(())
        })
        .await
    })
}

/// The version that the cluster's pods have now.
async fn version(lab: &Lab) -> anyhow::Result<String> {
    let pods: Api<Pod> = Api::all(lab.upper.client());
    let listed = pods.list(&ListParams::default().limit(1)).await?;
    listed.metadata.resource_version.context("no resource version")
}

fn uids(pods: &[serde_json::Value]) -> Vec<String> {
    pods.iter().map(|pod| e2e::pods::uid(pod).to_owned()).collect()
}
