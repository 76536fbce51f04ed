// SPDX-License-Identifier: Apache-2.0
//! Workloads whose pods are too big for any node of `east`, and prefer it all the same.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use crate::kwok::FINISH;
use crate::pods::{Pods, with};
use crate::wait::eventually;
use anyhow::ensure;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Several moves, one after another, on a busy machine.
pub const LONG: Duration = Duration::from_secs(150);

/// The spec of pods that fit no node of `east`, but its sum, and that the upper scheduler puts there first.
pub fn stuck_spec() -> Value {
    let east = json!([{ "key": "clusterID", "operator": "In", "values": ["east"] }]);
    json!({
        "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": 100, "preference": { "matchExpressions": east } },
        ] } },
        "tolerations": [{ "key": "virtual-kubelet.io/provider", "operator": "Exists" }],
        "terminationGracePeriodSeconds": 5,
        "containers": [{ "name": "main", "image": "example.org/app:1",
            "resources": { "requests": { "cpu": "3" } } }],
    })
}

/// What a workload makes its pods of.
pub fn template(app: &str, more: Value) -> Value {
    let pod = json!({
        "metadata": { "labels": { "app": app, "virtual-pod": "true" }, "annotations": { "note": "kept" } },
        "spec": stuck_spec(),
    });
    with(pod, more)
}

/// More of a pod, which makes it small enough for a node of `east`.
pub fn small() -> Value {
    let requests = json!({ "requests": { "cpu": "100m" } });
    json!({ "spec": { "containers": [{ "name": "main", "image": "example.org/app:1", "resources": requests }] } })
}

async fn create<K>(client: Client, namespace: &str, name: &str, spec: Value) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client, namespace);
    let object = json!({ "metadata": { "name": name }, "spec": spec });
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

/// Creates a Deployment.
pub async fn deployment(client: Client, above: &Pods, name: &str, replicas: usize, more: Value) -> anyhow::Result<()> {
    let selector = json!({ "matchLabels": { "app": name } });
    let spec = json!({ "replicas": replicas, "selector": selector, "template": template(name, more) });
    create::<Deployment>(client, above.namespace(), name, spec).await
}

/// Creates a StatefulSet.
pub async fn stateful_set(
    client: Client,
    above: &Pods,
    name: &str,
    replicas: usize,
    more: Value,
) -> anyhow::Result<()> {
    let selector = json!({ "matchLabels": { "app": name } });
    let spec = json!({
        "replicas": replicas, "serviceName": name, "selector": selector, "template": template(name, more),
    });
    create::<StatefulSet>(client, above.namespace(), name, spec).await
}

/// Creates a Job whose evicted pods are no failures; `indexed` or not.
pub async fn job(
    client: Client,
    above: &Pods,
    name: &str,
    completions: usize,
    indexed: bool,
    more: Value,
) -> anyhow::Result<()> {
    let ends = json!({ "metadata": { "annotations": { FINISH: "Succeeded" } }, "spec": { "restartPolicy": "Never" } });
    let ignored = json!({ "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] });
    let spec = json!({
        "completions": completions, "parallelism": completions, "backoffLimit": 0,
        "completionMode": if indexed { "Indexed" } else { "NonIndexed" },
        "podFailurePolicy": { "rules": [ignored] },
        "template": with(template(name, ends), more),
    });
    create::<Job>(client, above.namespace(), name, spec).await
}

/// Creates a pod without a controller.
pub async fn bare(above: &Pods, name: &str, more: Value) -> anyhow::Result<Value> {
    above.create(&with(template(name, more), json!({ "metadata": { "name": name } }))).await
}

/// The pod's author would find all that was written, and nothing of a move in progress.
pub fn is_as_written(pod: &Value) -> anyhow::Result<()> {
    let (meta, written) = (&pod["metadata"], stuck_spec());
    ensure!(meta["annotations"]["note"] == "kept", "{meta}");
    ensure!(meta["finalizers"].is_null(), "{meta}");
    let preferred = "/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    ensure!(pod["spec"].pointer(preferred) == written.pointer(preferred), "{}", pod["spec"]["affinity"]);
    ensure!(pod["spec"]["containers"][0]["resources"] == written["containers"][0]["resources"], "{}", pod["spec"]);
    let tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    ensure!(tolerations.contains(&written["tolerations"][0]), "{tolerations:?}");
    Ok(())
}

/// Waits until the Job is complete, and every pod of it that ended well is counted once and none as failed.
pub async fn until_complete(client: Client, above: &Pods, name: &str, completions: usize) -> anyhow::Result<()> {
    let jobs: Api<Job> = Api::namespaced(client, above.namespace());
    eventually(LONG, &format!("job {name} is complete"), async || {
        let status = jobs.get(name).await?.status.unwrap_or_default();
        let complete = status.conditions.iter().flatten().any(|c| c.type_ == "Complete" && c.status == "True");
        ensure!(complete, "{status:?}");
        ensure!(status.succeeded.and_then(|n| usize::try_from(n).ok()) == Some(completions), "{status:?}");
        ensure!(status.failed.unwrap_or_default() == 0, "{status:?}");
        Ok(())
    })
    .await
}

/// Waits until the pods of `app` are exactly `count`, all run on `node`, and none is ending.
pub async fn until_running(above: &Pods, app: &str, count: usize, node: &str) -> anyhow::Result<Vec<Value>> {
    eventually(LONG, &format!("{count} pods of {app} run on {node}"), async || {
        let pods = of(above, app).await?;
        let states = states(&pods);
        let wanted = BTreeMap::from([((node.to_owned(), "Running".to_owned(), false), count)]);
        ensure!(states == wanted, "{states:?}");
        Ok(pods)
    })
    .await
}

/// The pods of `app`.
pub async fn of(above: &Pods, app: &str) -> anyhow::Result<Vec<Value>> {
    Ok(above.list().await?.into_iter().filter(|pod| pod["metadata"]["labels"]["app"] == app).collect())
}

/// How many pods are on which node in which phase, ending or not.
fn states(pods: &[Value]) -> BTreeMap<(String, String, bool), usize> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut states = BTreeMap::new();
    for pod in pods {
        let ending = !pod["metadata"]["deletionTimestamp"].is_null();
        *states.entry((text(&pod["spec"]["nodeName"]), text(&pod["status"]["phase"]), ending)).or_default() += 1;
    }
    states
}
