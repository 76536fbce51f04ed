//! Killed at any moment: every owner ends with exactly its replicas, where there is room.

use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::kubeconfig::User;
use e2e::pods::{PATIENCE, Pods};
use e2e::wait::eventually;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;
use tensile_testkit::fault_proxy::{Fault, Rule, Seen};

use crate::lab::{Lab, OURS};
use crate::workload::{deployment, job, stateful_set, until_complete, until_running};

/// Kills by chance, besides those at each write.
const KILLS: u64 = 20;

/// The descheduler of all tests stands still meanwhile.
fn stop_shared(lab: &Lab) {
    lab.descheduler.lock().unwrap_or_else(PoisonError::into_inner).kill();
}

fn start_shared(lab: &Lab) -> anyhow::Result<()> {
    lab.descheduler.lock().unwrap_or_else(PoisonError::into_inner).restart()
}

fn is_exclusion(seen: &Seen) -> bool {
    seen.is_about("configmaps") && (seen.method == Method::POST || seen.method == Method::PATCH)
}

fn is_eviction(seen: &Seen) -> bool {
    seen.is_about("eviction")
}

async fn workloads(lab: &Lab, above: &Pods) -> anyhow::Result<()> {
    deployment(lab.upper.client(), above, "web", 3, json!({})).await?;
    stateful_set(lab.upper.client(), above, "db", 2).await?;
    job(lab.upper.client(), above, "work", 2, false).await?;
    job(lab.upper.client(), above, "parts", 2, true).await
}

async fn all_is_well(lab: &Lab, above: &Pods) -> anyhow::Result<()> {
    until_running(above, "web", 3, "west").await?;
    until_running(above, "db", 2, "west").await?;
    until_complete(lab.upper.client(), above, "work", 2).await?;
    until_complete(lab.upper.client(), above, "parts", 2).await
}

#[test]
fn killed_before_and_after_each_write_it_goes_on_where_it_was() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _alone = lab.peace.write().await;
        stop_shared(lab);
        lab.within("boundaries", async |above| {
            let proxy = lab.upper.fault_proxy().await?;
            let kubeconfig = lab.upper.kubeconfig_for("descheduler-proxied", Some(&proxy.url()), &User::Anonymous)?;
            let launch = lab.launch("descheduler-boundaries")?.arg("--leader-elect=false");
            let mut process = launch.arg(format!("--kubeconfig={}", kubeconfig.display())).start()?;
            process.kill();
            workloads(lab, above).await?;
            // Stalled: it never reaches the API server. Slow: it takes effect, and its answer never arrives.
            let slow = Fault::Slow { bytes_per_second: 1 };
            for fault in [Fault::Stall, slow] {
                for which in [is_exclusion as fn(&Seen) -> bool, is_eviction] {
                    let before = proxy.requests(which).len();
                    proxy.add(Rule::new(fault.clone()).when(which));
                    process.restart()?;
                    eventually(PATIENCE, "it writes", async || {
                        process.ensure_running()?;
                        ensure!(proxy.requests(which).len() > before, "not yet");
                        Ok(())
                    })
                    .await
                    .with_context(|| format!("{fault:?}"))?;
                    ensure!(process.kill(), "it had ended by itself");
                    proxy.clear();
                }
            }
            process.restart()?;
            all_is_well(lab, above).await
        })
        .await?;
        start_shared(lab)
    })
}

#[test]
fn killed_at_random_it_loses_and_doubles_nothing() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _alone = lab.peace.write().await;
        stop_shared(lab);
        lab.within("kills", async |above| {
            let mut process = lab.launch("descheduler-kills")?.arg("--leader-elect=false").start()?;
            workloads(lab, above).await?;
            for kill in 0..KILLS {
                // Lives of different lengths: from before its first request to after some moves.
                tokio::time::sleep(Duration::from_millis(60 + kill * 37 % 400)).await;
                ensure!(process.kill(), "it had ended by itself");
                process.restart()?;
            }
            all_is_well(lab, above).await
        })
        .await?;
        start_shared(lab)
    })
}

#[test]
fn when_the_leader_is_killed_another_replica_takes_over() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _alone = lab.peace.write().await;
        stop_shared(lab);
        lab.within("replicas", async |above| {
            let start = |name: &str| {
                let launch = lab.launch(name)?.args([
                    "--leader-elect-lease-duration=3s",
                    "--leader-elect-renew-deadline=2s",
                    "--leader-elect-retry-period=500ms",
                ]);
                launch.start()
            };
            let mut replicas = [start("replica-a")?, start("replica-b")?];
            let leases: Api<Lease> = Api::namespaced(lab.upper.client(), OURS);
            let holder = async |not: &str| {
                eventually(PATIENCE, "a replica leads", async || {
                    let holder = leases.get("descheduler").await?.spec.unwrap_or_default().holder_identity;
                    let holder = holder.unwrap_or_default();
                    ensure!(holder.starts_with("replica-") && holder != not, "{holder:?} does");
                    Ok(holder)
                })
                .await
            };
            let first = holder("").await?;
            deployment(lab.upper.client(), above, "web", 2, json!({})).await?;
            until_running(above, "web", 2, "west").await?;
            for replica in replicas.iter_mut().filter(|replica| replica.name() == first) {
                ensure!(replica.kill(), "it had ended by itself");
            }
            holder(&first).await?;
            deployment(lab.upper.client(), above, "next", 2, json!({})).await?;
            until_running(above, "next", 2, "west").await?;
            // The one that is left gives the lease back when it ends well.
            for replica in replicas.iter_mut().filter(|replica| replica.name() != first) {
                let status = replica.terminate(PATIENCE).await?;
                ensure!(status.success(), "{status}");
            }
            let lease = leases.get("descheduler").await?.spec.unwrap_or_default();
            ensure!(lease.holder_identity.as_deref() == Some(""), "{lease:?}");
            Ok(())
        })
        .await?;
        start_shared(lab)
    })
}
