// SPDX-License-Identifier: Apache-2.0
//! Killed in the middle of much work, a virtual node goes on where it was.

use std::collections::BTreeSet;

use anyhow::ensure;
use e2e::cluster::Cluster;
use e2e::pods::{PATIENCE, Pods, condition, uid};
use e2e::wait::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::world;

const PODS: usize = 200;

/// How often pods of this namespace were created (`201`) and deleted.
fn created_and_deleted(cluster: &Cluster, namespace: &str) -> anyhow::Result<(usize, usize)> {
    let requests = cluster.audit()?.requests;
    let count = |verb: &str| {
        let ours = requests.iter().filter(|request| {
            let about = request.object_ref.as_ref();
            let pod = about.is_some_and(|object| {
                (object.resource.as_str(), object.subresource.as_str(), object.namespace.as_str())
                    == ("pods", "", namespace)
            });
            let well = request.response_status.as_ref().is_some_and(|status| (200..300).contains(&status.code));
            request.verb == verb && pod && well
        });
        ours.count()
    };
    Ok((count("create"), count("delete") + count("deletecollection")))
}

async fn at_least(pods: &Pods, count: usize) -> anyhow::Result<()> {
    eventually(PATIENCE, &format!("{count} pods are there"), async || {
        let there = pods.list().await?.len();
        ensure!(there >= count, "only {there}");
        Ok(())
    })
    .await
}

#[test]
fn killed_during_a_burst_it_makes_no_pod_twice_and_forgets_none() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .with_link("burst", async |link, above, below| {
                let deployments: Api<Deployment> = Api::namespaced(world.upper.client(), above.namespace());
                let labels = json!({ "app": "burst" });
                let template = json!({ "metadata": { "labels": labels }, "spec": link.pod_spec() });
                let spec = json!({ "replicas": PODS, "selector": { "matchLabels": labels }, "template": template });
                let deployment = json!({ "metadata": { "name": "burst" }, "spec": spec });
                deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
                for progress in [PODS / 10, PODS / 4, PODS / 2] {
                    at_least(below, progress).await?;
                    link.restart()?;
                }

                let ready = |pod: &Value| condition(pod, "Ready")["status"] == "True";
                let upper = above.until_all(PODS, "are ready", ready).await?;
                let lower = below.until_all(PODS, "are ready", ready).await?;
                let wanted: BTreeSet<&str> = upper.iter().map(uid).collect();
                let owner = |pod: &'_ Value| pod["metadata"]["annotations"]["tensile.io/upper-uid"].clone();
                let made: BTreeSet<String> =
                    lower.iter().filter_map(|pod| owner(pod).as_str().map(str::to_owned)).collect();
                ensure!(made.iter().map(String::as_str).eq(wanted), "a lower pod is of another upper pod");

                // An answer that was cut off by a kill may be missing from the log, so there may be fewer creations.
                let (created, deleted) = created_and_deleted(&world.lower, above.namespace())?;
                ensure!(created <= PODS && deleted == 0, "{created} created and {deleted} deleted below");
                let above = created_and_deleted(&world.upper, above.namespace())?;
                ensure!(above == (PODS, 0), "{above:?} created and deleted above");
                Ok(())
            })
            .await
    })
}

#[test]
fn a_signal_ends_it_well_and_its_node_and_pods_stay() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .with_link("ends-well", async |link, above, below| {
                above.create(&link.pod("stays")).await?;
                let upper = above.until_ready("stays").await?;
                let lower = below.get("stays").await?;
                let node = link.until_ready().await?;
                link.terminate(PATIENCE).await?;

                let stays = Api::<k8s_openapi::api::core::v1::Node>::all(world.upper.client()).get(link.name()).await?;
                ensure!(stays.metadata.uid.as_deref() == Some(uid(&node)), "{:?}", stays.metadata);
                ensure!(above.get("stays").await? == upper, "the upper pod changed");
                ensure!(below.get("stays").await? == lower, "the lower pod changed");
                Ok(())
            })
            .await
    })
}
