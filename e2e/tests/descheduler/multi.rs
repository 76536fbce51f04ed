//! With the real multi-scheduler: it knows where there is room, and keeps pods off what they are excluded from.

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::descheduler::lab::{Lab, OURS, WITHOUT, admin};
use e2e::descheduler::workload::{deployment, until_running};
use e2e::multi_scheduler::{MultiScheduler, SCHEDULER};
use e2e::pods::{PATIENCE, Pods, condition, uid};
use e2e::port::Port;
use e2e::process::Launch;
use e2e::wait::eventually;
use http::Request;
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
