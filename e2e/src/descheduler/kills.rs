// SPDX-License-Identifier: Apache-2.0
//! A descheduler that is killed by chance while workloads of each kind come, and the audit afterwards.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tensile_testkit::fault_proxy::{Fault, FaultProxy, Rule, Seen};
use tensile_testkit::fuzz::Numbers;

use super::audit::{all_is_well, clear, workloads};
use super::lab::Lab;
use super::workload::LONG;
use crate::kubeconfig::User;
use crate::pods::Pods;
use crate::process::Process;
use crate::wait::eventually;

/// After so many kills there is more to do.
const LOAD: usize = 10;
/// Requests of one life, at most.
const REQUESTS: usize = 40;
/// With one kill of so many, somebody deletes a pod.
const DELETED: usize = 3;
/// Loads that are there at the same time: more have no room.
const KEPT: usize = 4;

/// A descheduler behind a proxy, killed before it has done anything.
pub async fn behind_a_proxy(lab: &Lab, name: &str) -> anyhow::Result<(FaultProxy, Process)> {
    let proxy = lab.upper.fault_proxy().await?;
    let kubeconfig = lab.upper.kubeconfig_for(name, Some(&proxy.url()), &User::Anonymous)?;
    let launch = lab.launch(name)?.arg("--leader-elect=false");
    let mut process = launch.arg(format!("--kubeconfig={}", kubeconfig.display())).start()?;
    process.kill();
    Ok((proxy, process))
}

/// Starts it with this fault for every write that `which` tells from others, and kills it at the first. One that is answered
/// slowly takes effect before.
pub async fn killed_at(
    proxy: &FaultProxy,
    process: &mut Process,
    which: fn(&Seen) -> bool,
    fault: &Fault,
) -> anyhow::Result<()> {
    let (asked, answered) = (proxy.requests(which).len(), proxy.answered(which));
    let takes_effect = matches!(fault, Fault::Slow { .. });
    proxy.add(Rule::new(fault.clone()).when(which));
    process.restart()?;
    eventually(LONG, "it writes", async || {
        process.ensure_running()?;
        ensure!(proxy.requests(which).len() > asked, "not yet");
        ensure!(!takes_effect || proxy.answered(which) > answered, "it has no effect yet");
        Ok(())
    })
    .await
    .with_context(|| format!("{fault:?}"))?;
    ensure!(process.kill(), "it had ended by itself");
    proxy.clear();
    Ok(())
}

/// Kills it so many times, each after some requests, while somebody deletes pods now and then; then every owner has exactly its
/// replicas, and every pod without one exists once. `tell` is told how many kills there were.
pub async fn kill_at_random(
    lab: &Lab,
    above: &Pods,
    kills: usize,
    seed: u64,
    tell: impl Fn(usize),
) -> anyhow::Result<()> {
    let (proxy, mut process) = behind_a_proxy(lab, "descheduler-kills").await?;
    let mut numbers = Numbers::new(seed);
    for kill in 0..kills {
        if kill % LOAD == 0 {
            tell(kill);
            let load = kill / LOAD;
            if let Some(earlier) = load.checked_sub(KEPT) {
                process.restart()?;
                all_is_well(lab, above, &format!("-{earlier}")).await?;
                clear(lab, above, &format!("-{earlier}")).await?;
                ensure!(process.kill(), "it had ended by itself");
            }
            workloads(lab, above, &format!("-{load}")).await?;
        }
        // Lives of different lengths: from its first request to after some moves, or until nothing is left to do.
        let before = proxy.requests(|_| true).len();
        let enough = before + 1 + numbers.below(REQUESTS);
        process.restart()?;
        if numbers.below(DELETED) == 0 {
            delete_one(lab, above, &mut numbers).await?;
        }
        eventually(LONG, "it has lived long enough", async || {
            process.ensure_running()?;
            let begun = proxy.requests(|_| true).len();
            let idle = begun > before && above.list().await?.iter().all(is_at_rest);
            ensure!(begun >= enough || idle, "{begun} of {enough} requests");
            Ok(())
        })
        .await?;
        ensure!(process.kill(), "it had ended by itself");
    }
    process.restart()?;
    let loads = kills.div_ceil(LOAD);
    for load in loads.saturating_sub(KEPT)..loads {
        all_is_well(lab, above, &format!("-{load}")).await?;
    }
    Ok(())
}

/// Deletes a pod by chance whose owner takes it lightly: a Job would count a failure, and one without an owner would stay away.
async fn delete_one(lab: &Lab, above: &Pods, numbers: &mut Numbers) -> anyhow::Result<()> {
    let makes_again = |pod: &Value| {
        let kind = &pod["metadata"]["ownerReferences"][0]["kind"];
        kind == "ReplicaSet" || kind == "StatefulSet"
    };
    let pods: Vec<Value> = above.list().await?.into_iter().filter(makes_again).collect();
    let Some(pod) = pods.get(numbers.below(pods.len().max(1))) else { return Ok(()) };
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let delete = ["delete", "pod", name, "-n", above.namespace(), "--ignore-not-found", "--wait=false"];
    lab.upper.kubectl(&delete).await.map(drop)
}

fn is_at_rest(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null() && pod["spec"]["nodeName"] == "west"
}
