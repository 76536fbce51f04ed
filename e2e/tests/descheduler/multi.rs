// SPDX-License-Identifier: Apache-2.0
//! With the real multi-scheduler: it knows where there is room, and keeps pods off what they are excluded from.

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::descheduler::audit::{all_is_well, exclusions, owner, workloads_with};
use e2e::descheduler::lab::{Lab, OURS, WITHOUT, admin};
use e2e::descheduler::workload::{LONG, deployment, of, until_running};
use e2e::link::Link;
use e2e::multi_scheduler::{MultiScheduler, SCHEDULER};
use e2e::pods::{PATIENCE, Pods, condition, uid};
use e2e::port::Port;
use e2e::process::Launch;
use e2e::wait::eventually;
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

/// A multi-scheduler for both clusters, and its scheduler stands still.
async fn multi_scheduler(lab: &Lab) -> anyhow::Result<MultiScheduler> {
    let namespace = format!("--exclusions-namespace={OURS}");
    let [east, west] = &lab.lowers;
    let multi = MultiScheduler::builder(&lab.upper).args(&[&namespace]).start(&[east, west]).await?;
    multi.scheduler().kill();
    Ok(multi)
}

/// A descheduler that asks it, as who may.
async fn launch(lab: &Lab, multi: &MultiScheduler, above: &Pods, port: &Port) -> anyhow::Result<Launch> {
    let namespace = above.namespace();
    let role = format!("{namespace}-asks");
    let objects = [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "asks", "namespace": namespace } }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": role },
            "rules": [{ "nonResourceURLs": ["/fit"], "verbs": ["post"] }] }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": role },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": "asks", "namespace": namespace }] }),
    ];
    lab.upper.apply(&objects, &[]).await?;
    let token = lab.upper.kubectl(&["create", "token", "asks", "--namespace", namespace]).await?;
    let file = |end: &str| lab.upper.folder().join(format!("{namespace}.{end}"));
    std::fs::write(file("token"), String::from_utf8(token.stdout)?.trim())?;
    std::fs::write(file("ca"), multi.authority().identity().certificate)?;
    Ok(lab.launch_at(&format!("descheduler-{namespace}"), port)?.args([
        "--leader-elect=false".to_owned(),
        format!("--multi-scheduler-url={}", multi.server()),
        format!("--multi-scheduler-ca={}", file("ca").display()),
        format!("--multi-scheduler-token-file={}", file("token").display()),
    ]))
}

/// Waits for the only pod and binds it to east, as a scheduler would that knows nothing of lower nodes. It is stuck there.
async fn stuck_in_east(lab: &Lab, above: &Pods) -> anyhow::Result<Value> {
    let pod = above.until_all(1, "are there", |pod| pod["spec"]["nodeName"].is_null()).await?.remove(0);
    stick(lab, above, &pod).await
}

/// The same for this one.
async fn stick(lab: &Lab, above: &Pods, pod: &Value) -> anyhow::Result<Value> {
    let name = pod["metadata"]["name"].as_str().context("no name")?;
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
        "target": { "apiVersion": "v1", "kind": "Node", "name": "east" } });
    let request = Request::post(format!("/api/v1/namespaces/{}/pods/{name}/binding", above.namespace()))
        .header(http::header::CONTENT_TYPE, "application/json");
    lab.upper.client().request_text(request.body(binding.to_string().into_bytes())?).await?;
    let stuck = |pod: &Value| condition(pod, "virtual-kubelet.io/Scheduled")["status"] == "False";
    above.until(name, "is stuck", stuck).await
}

/// Changes all nodes of a lower cluster.
async fn change_nodes(cluster: &Cluster, change: &Value) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client());
    for node in nodes.list(&ListParams::default()).await? {
        let name = node.metadata.name.unwrap_or_default();
        nodes.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await?;
    }
    Ok(())
}

#[test]
fn with_the_multi_scheduler_alone_its_scheduler_keeps_pods_off_what_they_are_excluded_from() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("multi-alone", async |above| {
            let namespace = above.namespace();
            lab.upper.kubectl(&["label", "namespace", namespace, WITHOUT]).await?;
            let multi = multi_scheduler(lab).await?;
            // The whole of east is away for a moment: a pod is stuck there.
            change_nodes(&lab.lowers[0], &json!({ "spec": { "unschedulable": true } })).await?;
            let moved = async {
                let more = json!({ "spec": { "schedulerName": SCHEDULER, "containers": [{
                    "name": "main", "image": "example.org/app:1", "resources": { "requests": { "cpu": "1" } } }] } });
                deployment(lab.upper.client(), above, "web", 1, more).await?;
                let first = stuck_in_east(lab, above).await?;
                ensure!(first["metadata"]["annotations"]["clusterSelector"].is_null(), "the webhook was asked");
                // Canaries go where the webhook is not asked either.
                let port = Port::reserve()?;
                let launch = launch(lab, &multi, above, &port).await?;
                let mut process = launch.arg(format!("--canary-namespace={namespace}")).start()?;
                above.until_gone(first["metadata"]["name"].as_str().unwrap_or_default()).await?;
                eventually(PATIENCE, "it is ready", async || {
                    process.ensure_running()?;
                    let (status, told) = admin(&port, "/readyz").await?;
                    ensure!(status == 200, "{status} {told}");
                    Ok(())
                })
                .await
            }
            .await;
            // Now it has room again, and pods prefer it: only the exclusion speaks against it.
            change_nodes(&lab.lowers[0], &json!({ "spec": { "unschedulable": null } })).await?;
            moved?;
            let nodes: Api<Node> = Api::all(lab.upper.client());
            eventually(PATIENCE, "east offers room", async || {
                let offered = nodes.get("east").await?.status.and_then(|status| status.allocatable).unwrap_or_default();
                ensure!(offered.get("cpu").is_some_and(|cpu| cpu.0 == "24"), "{:?}", offered.get("cpu"));
                Ok(())
            })
            .await?;
            multi.scheduler().restart()?;
            until_running(above, "web", 1, "west").await.map(drop)
        })
        .await
    })
}

#[test]
fn with_both_a_pod_stays_while_it_fits_nowhere_and_moves_when_it_does() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("multi-both", async |above| {
            let multi = multi_scheduler(lab).await?;
            // No lower node has this.
            let more = json!({ "spec": { "schedulerName": SCHEDULER, "nodeSelector": { "shelf": "top" } } });
            deployment(lab.upper.client(), above, "web", 1, more).await?;
            let first = stuck_in_east(lab, above).await?;
            let name = first["metadata"]["name"].as_str().context("no name")?;
            let stash = first["metadata"]["annotations"]["clusterSelector"].as_str();
            ensure!(stash.is_some_and(|stash| stash.contains("shelf")), "{stash:?}");
            multi.scheduler().restart()?;
            let port = Port::reserve()?;
            let _process = launch(lab, &multi, above, &port).await?.start()?;
            let shows = |pod: &Value| condition(pod, "tensile.io/Placeable")["status"] == "False";
            let pod = above.until(name, "shows that it fits nowhere", shows).await?;
            ensure!(uid(&pod) == uid(&first), "it was moved");
            above.until_event(name, "NowhereFits").await?;

            change_nodes(&lab.lowers[1], &json!({ "metadata": { "labels": { "shelf": "top" } } })).await?;
            let pods = until_running(above, "web", 1, "west").await?;
            ensure!(pods[0]["metadata"]["annotations"]["clusterSelector"].as_str() == stash, "{}", pods[0]["metadata"]);
            Ok(())
        })
        .await
    })
}

/// Of each kind of workload, one pod is stuck in east: in the end all are what they should be.
async fn each_kind_moves(lab: &Lab, above: &Pods, multi: &MultiScheduler, canaries: &str) -> anyhow::Result<()> {
    multi.scheduler().kill();
    workloads_with(lab, above, "", &json!({ "spec": { "schedulerName": SCHEDULER } })).await?;
    for app in ["web", "db", "work", "parts", "solo-0"] {
        let first = async || of(above, app).await?.into_iter().next().context("none is");
        stick(lab, above, &eventually(PATIENCE, &format!("a pod of {app} is there"), first).await?).await?;
    }
    let port = Port::reserve()?;
    let launch = launch(lab, multi, above, &port).await?;
    let mut process = launch.arg(format!("--canary-namespace={canaries}")).start()?;
    multi.scheduler().restart()?;
    all_is_well(lab, above, "").await?;
    process.ensure_running()
}

#[test]
fn each_kind_of_workload_moves_with_the_multi_scheduler_alone_and_with_both() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("kinds-alone", async |above| {
            lab.upper.kubectl(&["label", "namespace", above.namespace(), WITHOUT]).await?;
            let multi = multi_scheduler(lab).await?;
            each_kind_moves(lab, above, &multi, above.namespace()).await.context("alone")?;
            lab.within("kinds-both", async |above| {
                each_kind_moves(lab, above, &multi, "default").await.context("with the webhook")
            })
            .await
        })
        .await
    })
}

/// A pod that fits nowhere leaves east and west, and stays in north: its owner was moved twice. Then west has room again.
async fn back_to_west(lab: &Lab, above: &Pods) -> anyhow::Result<()> {
    let prefers = |node: &str, weight: u8| {
        json!({ "weight": weight, "preference": { "matchExpressions": [
            { "key": "clusterID", "operator": "In", "values": [node] }] } })
    };
    let preferred = json!([prefers("east", 100), prefers("west", 50)]);
    // No lower node has this.
    let more = json!({ "spec": { "nodeSelector": { "ledge": "low" }, "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": preferred } } } });
    let first = lab.launch("descheduler-twice")?.args(["--leader-elect=false", "--max-moves-per-owner=2"]);
    let mut first = first.start()?;
    deployment(lab.upper.client(), above, "web", 1, more).await?;
    let pod = eventually(LONG, "it has left east and west", async || {
        first.ensure_running()?;
        let pods = of(above, "web").await?;
        pods.into_iter().find(|pod| pod["spec"]["nodeName"] == "north").context("it is not in north")
    })
    .await?;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    above.until_event(name, "Parked").await?;
    first.kill();
    let excluded = |record: &Value, node: &str| -> anyhow::Result<Timestamp> {
        let mut nodes = record["nodes"].as_array().into_iter().flatten();
        let one = nodes.find(|one| one["node"] == node && one["attempts"] == 1);
        Ok(one.with_context(|| format!("{node} in {record}"))?["until"].as_str().unwrap_or_default().parse()?)
    };
    let (_, before) = exclusions(lab, owner(&pod)).await?;
    ensure!(excluded(&before, "east")? < excluded(&before, "west")?, "{before}");

    let multi = multi_scheduler(lab).await?;
    let port = Port::reserve()?;
    let _process = launch(lab, &multi, above, &port).await?.start()?;
    let shows = |pod: &Value| condition(pod, "tensile.io/Placeable")["status"] == "False";
    above.until(name, "shows that it fits nowhere", shows).await?;
    change_nodes(&lab.lowers[1], &json!({ "metadata": { "labels": { "ledge": "low" } } })).await?;
    until_running(above, "web", 1, "west").await?;
    let (_, after) = exclusions(lab, owner(&pod)).await?;
    // What ended is not the oldest, but the one from where there is room.
    ensure!(excluded(&after, "east")? == excluded(&before, "east")?, "{before} {after}");
    ensure!(excluded(&after, "west")? < excluded(&before, "west")?, "{before} {after}");
    Ok(())
}

#[test]
fn an_exclusion_ends_early_when_its_cluster_has_room_again() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("multi-again", async |above| {
            // With only two, the other one would be the only place to go.
            let north = Link::start(&lab.upper, &lab.lowers[0], "north").await?;
            let back = back_to_west(lab, above).await;
            // Other tests know of two.
            north.kill();
            lab.upper.kubectl(&["delete", "node", "north"]).await?;
            back
        })
        .await
    })
}
