// SPDX-License-Identifier: Apache-2.0
//! Deployments that are spread, gathered or kept apart: over clusters by the upper scheduler, over machines below.

use std::collections::BTreeMap;

use anyhow::ensure;
use e2e::pods::condition;
use serde_json::{Value, json};

use super::lab::{Lab, MACHINES};

fn spread(key: &str, app: &str) -> Value {
    json!({
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": app } },
        "matchLabelKeys": ["pod-template-hash"],
    })
}

fn near(key: &str, app: &str) -> Value {
    json!([{ "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } }])
}

fn on_each(clusters: &[&str], pods: usize) -> BTreeMap<String, usize> {
    let machines = ["large-1", "small-1", "small-2"];
    let named = clusters.iter().flat_map(|cluster| machines.map(|machine| (format!("{cluster}-{machine}"), pods)));
    named.collect()
}

#[test]
fn spread_over_clusters_is_over_clusters() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.within("clusters", async |above| {
            // By CPU alone the upper scheduler would not mind; what it is asked for must be what makes it even.
            let uneven = json!({ "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 100, "preference":
                { "matchExpressions": [{ "key": "clusterID", "operator": "In", "values": ["east"] }] } }] });
            let more = json!({
                "topologySpreadConstraints": [spread("clusterID", "even")],
                "affinity": { "nodeAffinity": uneven },
            });
            lab.deploy(above, "even", 6, more).await?;
            let pods = above.until_all(6, "are running", |pod| pod["status"]["phase"] == "Running").await?;
            let on = |node: &str| pods.iter().filter(|pod| pod["spec"]["nodeName"] == node).count();
            ensure!((on("east"), on("west")) == (3, 3), "{} and {}", on("east"), on("west"));
            for pod in pods {
                let constraints = &pod["spec"]["topologySpreadConstraints"];
                ensure!(constraints[0]["topologyKey"] == "clusterID", "{constraints}");
            }
            for below in lab.below(above) {
                for pod in below.list().await? {
                    ensure!(pod["spec"]["topologySpreadConstraints"].is_null(), "{}", pod["spec"]);
                }
            }
            Ok(())
        })
        .await
    })
}

#[test]
fn spread_over_hosts_is_over_the_machines_below() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.within("hosts", async |above| {
            let more = json!({
                "nodeSelector": { "clusterID": "west" },
                "topologySpreadConstraints": [spread("kubernetes.io/hostname", "even")],
            });
            lab.deploy(above, "even", 2 * MACHINES, more).await?;
            let running = |pod: &Value| pod["status"]["phase"] == "Running";
            let pods = above.until_all(2 * MACHINES, "are running", running).await?;
            let machines = lab.machines(above).await?;
            ensure!(machines == on_each(&["west"], 2), "{machines:?}");
            ensure!(pods.iter().all(|pod| pod["spec"]["topologySpreadConstraints"].is_null()), "{}", pods[0]["spec"]);
            Ok(())
        })
        .await
    })
}

#[test]
fn without_a_constraint_pods_share_the_large_machine() -> anyhow::Result<()> {
    // What the other tests here see is worth something only if the schedulers would have chosen otherwise.
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.within("free", async |above| {
            lab.deploy(above, "free", MACHINES, json!({ "nodeSelector": { "clusterID": "west" } })).await?;
            above.until_all(MACHINES, "are running", |pod| pod["status"]["phase"] == "Running").await?;
            let machines = lab.machines(above).await?;
            ensure!(machines == BTreeMap::from([("west-large-1".to_owned(), MACHINES)]), "{machines:?}");
            Ok(())
        })
        .await
    })
}

#[test]
fn spread_over_clusters_and_hosts_is_over_both() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.within("both", async |above| {
            let constraints = [spread("clusterID", "even"), spread("kubernetes.io/hostname", "even")];
            lab.deploy(above, "even", 2 * MACHINES, json!({ "topologySpreadConstraints": constraints })).await?;
            above.until_all(2 * MACHINES, "are running", |pod| pod["status"]["phase"] == "Running").await?;
            let machines = lab.machines(above).await?;
            ensure!(machines == on_each(&["east", "west"], 1), "{machines:?}");
            Ok(())
        })
        .await
    })
}

#[test]
fn pods_apart_by_host_share_a_cluster_until_its_machines_are_used_up() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.within("apart", async |above| {
            let required = near("kubernetes.io/hostname", "apart");
            let more = json!({
                "nodeSelector": { "clusterID": "east" },
                "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } },
            });
            lab.deploy(above, "apart", MACHINES + 1, more).await?;
            let below = &lab.below(above)[0];
            let settled = |pod: &Value| {
                pod["status"]["phase"] == "Running" || condition(pod, "PodScheduled")["reason"] == "Unschedulable"
            };
            below.until_all(MACHINES + 1, "run or fit nowhere", settled).await?;
            let mut machines = lab.machines(above).await?;
            ensure!(machines.remove("none") == Some(1), "{machines:?}");
            ensure!(machines == on_each(&["east"], 1), "{machines:?}");
            Ok(())
        })
        .await
    })
}

#[test]
fn pods_near_one_another_by_host_are_in_one_cluster_and_there_on_one_machine() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.within("near", async |above| {
            let cache = json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchExpressions": [
                    { "key": "clusterID", "operator": "In", "values": ["west"] },
                    { "key": "kubernetes.io/hostname", "operator": "In", "values": ["west-small-2"] },
                ] }],
            } } } });
            lab.deploy(above, "cache", 1, cache).await?;
            above.until_all(1, "are running", |pod| pod["status"]["phase"] == "Running").await?;
            let required = near("kubernetes.io/hostname", "cache");
            let more =
                json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } } });
            lab.deploy(above, "client", 3, more).await?;
            above.until_all(4, "are running", |pod| pod["status"]["phase"] == "Running").await?;
            let machines = lab.machines(above).await?;
            ensure!(machines == BTreeMap::from([("west-small-2".to_owned(), 4)]), "{machines:?}");
            Ok(())
        })
        .await
    })
}
