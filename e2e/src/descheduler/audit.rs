// SPDX-License-Identifier: Apache-2.0
//! Workloads of each kind, and that all of them are what they should be.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::lab::{Lab, OURS};
use super::workload::{LONG, bare, deployment, is_as_written, job, stateful_set, until_complete, until_running};
use crate::pods::{Pods, uid};
use crate::wait::eventually;

/// Workloads of each kind, with `more` in their names.
pub async fn workloads(lab: &Lab, above: &Pods, more: &str) -> anyhow::Result<()> {
    workloads_with(lab, above, more, &json!({})).await
}

/// The same, with `pod` merged into what their pods are made of.
pub async fn workloads_with(lab: &Lab, above: &Pods, more: &str, pod: &Value) -> anyhow::Result<()> {
    let client = || lab.upper.client();
    // First, while there seems to be room in east.
    for number in 0..2 {
        bare(above, &format!("solo{more}-{number}"), pod.clone()).await?;
    }
    deployment(client(), above, &format!("web{more}"), 3, pod.clone()).await?;
    stateful_set(client(), above, &format!("db{more}"), 2, pod.clone()).await?;
    job(client(), above, &format!("work{more}"), 2, false, pod.clone()).await?;
    job(client(), above, &format!("parts{more}"), 2, true, pod.clone()).await
}

/// Deletes those with `more` in their names.
pub async fn clear(lab: &Lab, above: &Pods, more: &str) -> anyhow::Result<()> {
    let named = [
        format!("deployment/web{more}"),
        format!("statefulset/db{more}"),
        format!("job/work{more}"),
        format!("job/parts{more}"),
        format!("pod/solo{more}-0"),
        format!("pod/solo{more}-1"),
    ];
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let delete = ["delete", "-n", above.namespace()];
    lab.upper.kubectl(&[delete.as_slice(), named.as_slice()].concat()).await.map(drop)
}

/// Every owner has exactly its replicas, every pod without one exists once, and all are what was written.
pub async fn all_is_well(lab: &Lab, above: &Pods, more: &str) -> anyhow::Result<()> {
    for (name, count) in [("web", 3), ("db", 2)] {
        for pod in until_running(above, &format!("{name}{more}"), count, "west").await? {
            is_as_written(&pod)?;
        }
    }
    until_complete(lab.upper.client(), above, &format!("work{more}"), 2).await?;
    until_complete(lab.upper.client(), above, &format!("parts{more}"), 2).await?;
    for number in 0..2 {
        is_there_once(lab, above, &format!("solo{more}-{number}")).await?;
    }
    Ok(())
}

/// What the cluster holds of an owner's exclusions: the ConfigMap, and the entry in it.
pub async fn exclusions(lab: &Lab, owner: &str) -> anyhow::Result<(String, Value)> {
    let maps: Api<ConfigMap> = Api::namespaced(lab.upper.client(), OURS);
    let all = maps.list(&ListParams::default().labels("tensile.io/exclusions=true")).await?.items;
    let key = format!("owner.{owner}");
    let find = |map: &ConfigMap| Some((map.metadata.name.clone()?, map.data.as_ref()?.get(&key)?.clone()));
    let (map, text) = all.iter().find_map(find).context("no exclusion was written")?;
    Ok((map, serde_json::from_str(&text)?))
}

/// UID of the pod's owner.
pub fn owner(pod: &Value) -> &str {
    pod["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default()
}

/// Waits until no journal of a move in the namespace is left.
pub async fn until_closed(lab: &Lab, above: &Pods) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(lab.upper.client(), OURS);
    eventually(LONG, "no move is under way", async || {
        let open = maps.list(&ListParams::default().labels("tensile.io/journal=true")).await?.items;
        let ours = |map: &&ConfigMap| format!("{:?}", map.data).contains(above.namespace());
        let open = open.iter().filter(ours).map(|map| map.metadata.name.clone()).collect::<Vec<_>>();
        ensure!(open.is_empty(), "{open:?}");
        Ok(())
    })
    .await
}

/// The pod runs in west, once, and is what its author wrote.
pub async fn is_there_once(lab: &Lab, above: &Pods, name: &str) -> anyhow::Result<Value> {
    until_running(above, name, 1, "west").await?;
    until_closed(lab, above).await?;
    let pod = above.until(name, "is held by nobody", |pod| pod["metadata"]["finalizers"].is_null()).await?;
    is_as_written(&pod)?;
    let [east, west] = lab.below(above);
    ensure!(east.find(name).await?.is_none(), "it is in east too");
    let below = west.get(name).await?;
    ensure!(below["metadata"]["annotations"]["tensile.io/upper-uid"] == uid(&pod), "{}", below["metadata"]);
    Ok(pod)
}
