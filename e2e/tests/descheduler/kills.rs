// SPDX-License-Identifier: Apache-2.0
//! Killed at any moment: every owner ends with exactly its replicas, where there is room.

use anyhow::ensure;
use e2e::descheduler::audit::{all_is_well, workloads};
use e2e::descheduler::kills::{behind_a_proxy, kill_at_random, killed_at};
use e2e::descheduler::lab::{Lab, OURS};
use e2e::descheduler::workload::{deployment, until_running};
use e2e::pods::PATIENCE;
use e2e::wait::eventually;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;
use tensile_testkit::fault_proxy::{Fault, Seen};

/// Kills by chance, besides those at each write; `cargo bench-e2e deschedule --kills 1000` does more of the same.
const KILLS: usize = 50;

fn is_exclusion(seen: &Seen) -> bool {
    seen.is_about("configmaps") && (seen.method == Method::POST || seen.method == Method::PATCH)
}

fn is_eviction(seen: &Seen) -> bool {
    seen.is_about("eviction")
}

#[test]
fn killed_before_and_after_each_write_it_goes_on_where_it_was() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("boundaries", async |above| {
            let (proxy, mut process) = behind_a_proxy(lab, "descheduler-boundaries").await?;
            workloads(lab, above, "").await?;
            // Stalled: it never reaches the API server. Slow: it takes effect, and its answer never arrives.
            let slow = Fault::Slow { bytes_per_second: 1 };
            for fault in [Fault::Stall, slow] {
                for which in [is_exclusion as fn(&Seen) -> bool, is_eviction] {
                    killed_at(&proxy, &mut process, which, &fault).await?;
                }
            }
            process.restart()?;
            all_is_well(lab, above, "").await
        })
        .await
    })
}

#[test]
fn killed_at_random_under_load_it_loses_and_doubles_nothing() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("kills", async |above| kill_at_random(lab, above, KILLS, 8, |_| {}).await).await
    })
}

#[test]
fn when_the_leader_is_killed_another_replica_takes_over() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("replicas", async |above| {
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
        .await
    })
}
