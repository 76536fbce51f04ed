// SPDX-License-Identifier: Apache-2.0
//! Pods that run and move all the same: off nodes that are too full, nearly empty, or cordoned.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::ensure;
use e2e::descheduler::lab::Lab;
use e2e::descheduler::workload::{LONG, deployment, of, until_running};
use e2e::pods::{PATIENCE, Pods};
use e2e::wait::eventually;
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// More of a pod: it asks for so much, and prefers this node.
fn sized(cpu: &str, node: &str) -> Value {
    let preferred = json!([{ "weight": 100, "preference": {
        "matchExpressions": [{ "key": "clusterID", "operator": "In", "values": [node] }] } }]);
    json!({ "spec": {
        "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": preferred } },
        "containers": [{ "name": "main", "image": "example.org/app:1", "resources": { "requests": { "cpu": cpu } } }],
    } })
}

/// Waits until pods of other tests are gone: they would be weighed too.
pub(crate) async fn until_alone(lab: &Lab, above: &Pods) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::all(lab.upper.client());
    eventually(LONG, "no other pod is there", async || {
        let all = pods.list(&ListParams::default().labels("virtual-pod=true")).await?;
        let other = all.iter().find(|pod| pod.namespace().as_deref() != Some(above.namespace()));
        ensure!(other.is_none(), "{:?} is", other.map(|pod| (pod.namespace(), pod.name_any())));
        Ok(())
    })
    .await
}

/// Waits until all pods run, so many on each node.
async fn until_spread(above: &Pods, wanted: &[(&str, usize)]) -> anyhow::Result<()> {
    let wanted: BTreeMap<String, usize> = wanted.iter().map(|(node, count)| ((*node).to_owned(), *count)).collect();
    eventually(LONG, &format!("all run, and are spread like {wanted:?}"), async || {
        let mut spread = BTreeMap::new();
        for pod in above.list().await? {
            ensure!(pod["status"]["phase"] == "Running", "one does not run");
            ensure!(pod["metadata"]["deletionTimestamp"].is_null(), "one is ending");
            *spread.entry(pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
        ensure!(spread == wanted, "{spread:?}");
        Ok(())
    })
    .await
}

#[test]
fn pods_leave_a_node_that_is_too_full_until_it_is_so_no_more() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("too-full", async |above| {
            until_alone(lab, above).await?;
            // East offers 24 CPUs.
            for number in 0..4 {
                let name = format!("web-{number}");
                deployment(lab.upper.client(), above, &name, 5, sized("1", "east")).await?;
            }
            until_spread(above, &[("east", 20)]).await?;
            let args = json!({ "thresholds": { "cpu": 20 }, "targetThresholds": { "cpu": 60 } });
            let plugin = ("LowNodeUtilization", args);
            let mut process = lab.launch_by("descheduler-low", "balance", &[plugin])?.start()?;
            // 15 of 24 are more than 60 percent.
            until_spread(above, &[("east", 14), ("west", 6)]).await?;
            process.ensure_running()
        })
        .await
    })
}

#[test]
fn a_nearly_empty_node_is_emptied() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("nearly-empty", async |above| {
            until_alone(lab, above).await?;
            deployment(lab.upper.client(), above, "base", 6, sized("1", "east")).await?;
            deployment(lab.upper.client(), above, "idle", 2, sized("1", "west")).await?;
            until_spread(above, &[("east", 6), ("west", 2)]).await?;
            let plugin = ("HighNodeUtilization", json!({ "thresholds": { "cpu": 20 } }));
            let mut process = lab.launch_by("descheduler-high", "balance", &[plugin])?.start()?;
            until_spread(above, &[("east", 8)]).await?;
            process.ensure_running()
        })
        .await
    })
}

/// The fewest pods of a Deployment that served at once, since it is looked at. It ends on drop.
struct Fewest {
    seen: Arc<AtomicI32>,
    _watching: JoinSet<()>,
}

impl Fewest {
    fn of(api: Api<Deployment>, name: &'static str) -> Self {
        let seen = Arc::new(AtomicI32::new(i32::MAX));
        let mut watching = JoinSet::new();
        let fewest = seen.clone();
        watching.spawn(async move {
            let mut deployments = watcher(api, watcher::Config::default()).default_backoff().touched_objects().boxed();
            while let Some(deployment) = deployments.next().await {
                // Errors are what the watcher survives.
                let Ok(deployment) = deployment else { continue };
                if deployment.name_any() == name {
                    let ready = deployment.status.and_then(|status| status.ready_replicas).unwrap_or_default();
                    fewest.fetch_min(ready, Ordering::SeqCst);
                }
            }
        });
        Self { seen, _watching: watching }
    }
}

/// Drains east of three pods. Returns how few of them served at once.
async fn drained(lab: &Lab, above: &Pods, surge: bool) -> anyhow::Result<i32> {
    let api: Api<Deployment> = Api::namespaced(lab.upper.client(), above.namespace());
    deployment(lab.upper.client(), above, "web", 3, sized("500m", "east")).await?;
    until_running(above, "web", 3, "east").await?;
    eventually(PATIENCE, "the deployment says so", async || {
        let ready = api.get("web").await?.status.and_then(|status| status.ready_replicas);
        ensure!(ready == Some(3), "{ready:?}");
        Ok(())
    })
    .await?;
    let fewest = Fewest::of(api, "web");
    let cordon = json!({ "includedTaints": ["node.kubernetes.io/unschedulable"], "surge": surge });
    let plugin = ("RemovePodsViolatingNodeTaints", cordon);
    let mut process = lab.launch_by("descheduler-drain", "deschedule", &[plugin])?.start()?;
    lab.upper.kubectl(&["cordon", "east"]).await?;
    let moved = until_running(above, "web", 3, "west").await;
    // Others want it.
    lab.upper.kubectl(&["uncordon", "east"]).await?;
    moved?;
    process.ensure_running()?;
    Ok(fewest.seen.load(Ordering::SeqCst))
}

#[test]
fn a_cordoned_node_is_drained_of_one_pod_of_an_owner_after_another() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("drained", async |above| {
            let fewest = drained(lab, above, false).await?;
            ensure!(fewest >= 2, "only {fewest} of 3 served");
            Ok(())
        })
        .await
    })
}

#[test]
fn where_the_deployment_surges_none_is_missing_while_a_cordoned_node_is_drained() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("surged", async |above| {
            let fewest = drained(lab, above, true).await?;
            ensure!(fewest >= 3, "only {fewest} of 3 served");
            let pods = of(above, "web").await?;
            ensure!(
                pods.iter().all(|pod| pod["metadata"]["annotations"]["tensile.io/restarted-at"].is_string()),
                "they are not of a new rollout"
            );
            Ok(())
        })
        .await
    })
}
