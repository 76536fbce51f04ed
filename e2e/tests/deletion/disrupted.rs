// SPDX-License-Identifier: Apache-2.0
//! Pods that the lower cluster ends or loses: its reasons are told above.

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::kwok::{HOLD, NodeShape};
use e2e::pods::{PATIENCE, Pods, condition, with};
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{held, only_on, pair};

fn taint(key: &str) -> Taint {
    Taint { key: key.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }
}

async fn is_disrupted(above: &Pods, name: &str, reason: &str) -> anyhow::Result<()> {
    let what = format!("is disrupted: {reason}");
    let disrupted = |pod: &Value| {
        let condition = condition(pod, "DisruptionTarget");
        condition["status"] == "True" && condition["reason"] == reason
    };
    above.until(name, &what, disrupted).await?;
    Ok(())
}

#[test]
fn a_pod_evicted_through_the_lower_api_says_so_and_has_failed() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("drained", async |above, below| {
            above.create(&held(pair.link.pod("drained"))).await?;
            above.until_ready("drained").await?;
            below.evict("drained").await?;
            is_disrupted(above, "drained", "EvictionByEvictionAPI").await?;
            below.annotate("drained", HOLD, None).await?;
            let failed = above.until_phase("drained", "Failed").await?;
            ensure!(condition(&failed, "DisruptionTarget")["status"] == "True", "{}", failed["status"]);
            Ok(())
        })
        .await
    })
}

#[test]
fn a_pod_evicted_by_its_lower_kubelet_shows_why() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("evicted", async |above, below| {
            above.create(&pair.link.pod("evicted")).await?;
            above.until_ready("evicted").await?;
            // As Kubernetes' pkg/kubelet/eviction does under pressure.
            let message = "The node was low on resource: memory.";
            let disrupted = json!({ "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet" });
            let status =
                json!({ "phase": "Failed", "reason": "Evicted", "message": message, "conditions": [disrupted] });
            below.merge_status("evicted", status).await?;
            let failed = above.until_phase("evicted", "Failed").await?;
            let told = &failed["status"];
            ensure!(told["reason"] == "Evicted" && told["message"] == message, "{told}");
            ensure!(condition(&failed, "DisruptionTarget")["reason"] == "TerminationByKubelet", "{told}");
            Ok(())
        })
        .await
    })
}

#[test]
fn a_pod_preempted_below_says_so_and_has_failed() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let classes: Api<PriorityClass> = Api::all(pair.lower.client());
        let class = json!({ "metadata": { "name": "important" }, "value": 1000 });
        classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
        let small = NodeShape {
            name: "small".to_owned(),
            cpu: "1".to_owned(),
            labels: [("small".to_owned(), String::new())].into(),
            taints: vec![taint("small")],
            ..NodeShape::default()
        };
        pair.lower.kwok_nodes(small).await?;
        pair.within("preempted", async |above, below| {
            let container = json!({
                "name": "main",
                "image": "example.org/app:1",
                "resources": { "requests": { "cpu": "1" } },
            });
            let whole = json!({ "spec": { "containers": [container] } });
            above.create(&with(held(only_on(pair.link.pod("victim"), "small")), whole)).await?;
            above.until_ready("victim").await?;
            let spec = json!({
                "priorityClassName": "important",
                "nodeSelector": { "small": "" },
                "tolerations": [{ "key": "small", "operator": "Exists" }],
                "containers": [container],
            });
            below.create(&json!({ "metadata": { "name": "vip" }, "spec": spec })).await?;
            is_disrupted(above, "victim", "PreemptionByScheduler").await?;
            below.annotate("victim", HOLD, None).await?;
            above.until_phase("victim", "Failed").await?;
            below.until_ready("vip").await?;
            below.delete("vip", Some(0)).await
        })
        .await
    })
}

/// A node that nobody keeps alive: its kubelet is this test.
async fn played_node(lower: &Cluster, key: &str) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(lower.client());
    let resources = json!({ "cpu": "4", "memory": "4Gi", "pods": "10" });
    let node = json!({
        "metadata": { "name": key, "labels": { key: "" } },
        "spec": { "taints": [taint(key)] },
        "status": { "capacity": resources, "allocatable": resources, "conditions": [ready()] },
    });
    nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
    eventually(PATIENCE, "pods can be bound to the played node", async || {
        let taints = nodes.get(key).await?.spec.and_then(|spec| spec.taints).unwrap_or_default();
        ensure!(taints.iter().all(|taint| taint.key == key), "{taints:?}");
        Ok(())
    })
    .await
}

fn ready() -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({ "type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now,
        "lastTransitionTime": now })
}

#[test]
fn a_pod_on_a_lost_lower_node_is_not_ready_above_until_the_node_is_back() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        played_node(&pair.lower, "played").await?;
        pair.within("lost-node", async |above, below| {
            above.create(&only_on(pair.link.pod("cut-off"), "played")).await?;
            let bound = below.until("cut-off", "is bound", |pod| pod["spec"]["nodeName"] == "played").await?;
            let name = &bound["spec"]["containers"][0]["name"];
            let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
            let container = json!({ "name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0,
                "started": true, "state": running });
            let conditions =
                ["Initialized", "ContainersReady", "Ready"].map(|kind| json!({ "type": kind, "status": "True" }));
            let status = json!({ "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": conditions,
                "containerStatuses": [container] });
            below.merge_status("cut-off", status.clone()).await?;
            above.until_ready("cut-off").await?;

            // Nobody renews the node: its cluster declares it lost and its pods not ready.
            let lost =
                above.until("cut-off", "is not ready", |pod| condition(pod, "Ready")["status"] == "False").await?;
            ensure!(lost["status"]["phase"] == "Running", "{}", lost["status"]);

            let nodes: Api<Node> = Api::all(pair.lower.client());
            let back = Patch::Strategic(json!({ "status": { "conditions": [ready()] } }));
            nodes.patch_status("played", &PatchParams::default(), &back).await.context("node status")?;
            below.merge_status("cut-off", status).await?;
            above.until_ready("cut-off").await?;
            below.force_delete(&bound).await
        })
        .await
    })
}
