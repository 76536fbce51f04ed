// SPDX-License-Identifier: Apache-2.0
//! What is moved, and that it stays what it was.

use anyhow::{Context as _, ensure};
use e2e::descheduler::audit::{self, exclusions};
use e2e::descheduler::lab::{Lab, WITHOUT};
use e2e::descheduler::workload::{LONG, deployment, job, of, stateful_set, until_complete, until_running};
use e2e::pods::{PATIENCE, Pods, condition, uid};
use e2e::wait::eventually;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// Condition that is `False` while the lower scheduler finds no node.
const SCHEDULED: &str = "virtual-kubelet.io/Scheduled";

#[test]
fn a_deployment_that_fits_the_sum_of_a_cluster_but_no_node_runs_in_the_other_despite_its_budget() -> anyhow::Result<()>
{
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.read().await;
        lab.within("deployment", async |above| {
            let budgets: Api<PodDisruptionBudget> = Api::namespaced(lab.upper.client(), above.namespace());
            let spec = json!({ "minAvailable": "100%", "selector": { "matchLabels": { "app": "web" } } });
            let budget = json!({ "metadata": { "name": "web" }, "spec": spec });
            budgets.create(&PostParams::default(), &serde_json::from_value(budget)?).await?;
            deployment(lab.upper.client(), above, "web", 3, json!({})).await?;
            let stuck = eventually(PATIENCE, "a pod is told that there is no room", async || {
                let pods = above.list().await?.into_iter();
                let mut told = pods.filter(|pod| condition(pod, SCHEDULED)["reason"] == "Unschedulable");
                told.next().context("none is")
            })
            .await?;
            let told = condition(&stuck, SCHEDULED)["message"].to_string();
            ensure!(told.contains("Insufficient cpu"), "{told}");
            let pods = until_running(above, "web", 3, "west").await?;
            for pod in &pods {
                ensure!(pod["metadata"]["annotations"]["note"] == "kept", "{}", pod["metadata"]);
            }
            let owner = &pods[0]["metadata"]["ownerReferences"][0];
            let told = above.until_event(owner["name"].as_str().unwrap_or_default(), "Descheduled").await?;
            ensure!(told.contains("Insufficient cpu") && told.contains("web-"), "{told}");
            written_before(lab, above, audit::owner(&pods[0])).await
        })
        .await
    })
}

/// The exclusion of the owner is there, and was written before the first eviction in the namespace.
async fn written_before(lab: &Lab, above: &Pods, owner: &str) -> anyhow::Result<()> {
    let (map, record) = exclusions(lab, owner).await?;
    ensure!(record["nodes"][0]["node"] == "east" && record["nodes"][0]["attempts"] == 1, "{record}");
    let requests = lab.upper.audit()?.by("tensile-descheduler").requests;
    let write = requests.iter().position(|request| {
        request.object_ref.as_ref().is_some_and(|about| about.resource == "configmaps" && about.name == map)
            || request.kind() == "create configmaps"
    });
    let eviction = requests.iter().position(|request| {
        let about = request.object_ref.as_ref();
        about.is_some_and(|about| about.subresource == "eviction" && about.namespace == above.namespace())
    });
    ensure!(write.is_some() && write < eviction, "written at {write:?}, evicted at {eviction:?}");
    Ok(())
}

#[test]
fn a_stateful_set_keeps_its_names_and_never_has_two_of_one() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.read().await;
        lab.within("stateful", async |above| {
            stateful_set(lab.upper.client(), above, "db", 2, json!({})).await?;
            let pods = until_running(above, "db", 2, "west").await?;
            let names: Vec<_> = pods.iter().map(|pod| &pod["metadata"]["name"]).collect();
            ensure!(names == ["db-0", "db-1"], "{names:?}");
            let [east, west] = lab.below(above);
            ensure!(east.list().await?.is_empty(), "something is left in east");
            for (pod, lower) in pods.iter().zip(west.list().await?) {
                ensure!(lower["metadata"]["annotations"]["tensile.io/upper-uid"] == uid(pod), "{}", lower["metadata"]);
            }
            Ok(())
        })
        .await
    })
}

#[test]
fn jobs_complete_without_a_failure_and_with_every_index() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.read().await;
        lab.within("jobs", async |above| {
            job(lab.upper.client(), above, "work", 2, false, json!({})).await?;
            job(lab.upper.client(), above, "parts", 2, true, json!({})).await?;
            until_complete(lab.upper.client(), above, "work", 2).await?;
            until_complete(lab.upper.client(), above, "parts", 2).await?;
            let done = of(above, "parts").await?.into_iter().filter(|pod| pod["status"]["phase"] == "Succeeded");
            let mut indexes: Vec<String> = done
                .map(|pod| pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"].to_string())
                .collect();
            indexes.sort();
            ensure!(indexes == ["\"0\"", "\"1\""], "{indexes:?}");
            Ok(())
        })
        .await
    })
}

#[test]
fn constraints_are_the_same_after_the_third_move_as_before_the_first() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.read().await;
        lab.within("constraints", async |above| {
            // No node has these yet.
            let term =
                |rack: &str| json!({ "matchExpressions": [{ "key": "rack", "operator": "In", "values": [rack] }] });
            let required = json!({ "nodeSelectorTerms": [term("r1"), term("r2")] });
            let more = json!({ "spec": {
                "nodeSelector": { "disk": "ssd" },
                "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } },
                "containers": [{ "name": "main", "image": "example.org/app:1", "resources": { "requests": { "cpu": "100m" } } }],
            } });
            deployment(lab.upper.client(), above, "picky", 1, more).await?;
            let mut before: Option<Value> = None;
            for (node, below) in ["east", "west", "east", "west"].into_iter().zip(lab.below(above).iter().cycle()) {
                let (pod, lower) = eventually(LONG, &format!("the pod is on {node} and below it"), async || {
                    let known = before.as_ref().map(uid);
                    let is_next = |pod: &Value| pod["spec"]["nodeName"] == node && known != Some(uid(pod));
                    let pod = of(above, "picky").await?.into_iter().find(is_next).context("none is there")?;
                    let lower = below.get(pod["metadata"]["name"].as_str().unwrap_or_default()).await?;
                    Ok((pod, lower))
                })
                .await?;
                // What it was made with, and what the virtual node made of it below.
                ensure!(lower["spec"]["nodeSelector"] == json!({ "disk": "ssd" }), "{}", lower["spec"]);
                let affinity = &lower["spec"]["affinity"]["nodeAffinity"];
                ensure!(affinity["requiredDuringSchedulingIgnoredDuringExecution"] == required, "{affinity}");
                before = Some(pod);
            }
            let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(lab.lowers[1].client());
            let labels = json!({ "metadata": { "labels": { "disk": "ssd", "rack": "r2" } } });
            for node in nodes.list(&ListParams::default()).await? {
                let name = node.metadata.name.unwrap_or_default();
                nodes.patch(&name, &PatchParams::default(), &Patch::Merge(&labels)).await?;
            }
            until_running(above, "picky", 1, "west").await.map(drop)
        })
        .await
    })
}

#[test]
fn a_pod_that_can_go_nowhere_else_stays_and_says_why() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.read().await;
        lab.within("nowhere", async |above| {
            let here = json!({ "spec": { "nodeSelector": { "clusterID": "east" } } });
            deployment(lab.upper.client(), above, "pinned", 1, here).await?;
            let pods = above.until_all(1, "are stuck", |pod| condition(pod, SCHEDULED)["status"] == "False");
            let pod = pods.await?.remove(0);
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let told = above.until_event(name, "NowhereElse").await?;
            ensure!(told.contains("no other virtual node"), "{told}");
            ensure!(uid(&above.get(name).await?) == uid(&pod), "it was moved");
            Ok(())
        })
        .await
    })
}

#[test]
fn where_no_webhook_enforces_exclusions_pods_are_soon_left_alone() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.read().await;
        lab.within("unenforced", async |above| {
            lab.upper.kubectl(&["label", "namespace", above.namespace(), WITHOUT]).await?;
            // The API server knows the label when it no longer asks the webhook.
            let probe = json!({
                "metadata": { "generateName": "probe-", "labels": { "virtual-pod": "true" } },
                "spec": { "nodeSelector": { "disk": "ssd" }, "containers": [{ "name": "c", "image": "example.org/a" }] },
            });
            eventually(PATIENCE, "the webhook is not asked", async || {
                let annotations = &above.create_dry(&probe).await?["metadata"]["annotations"];
                ensure!(annotations["clusterSelector"].is_null(), "it is");
                Ok(())
            })
            .await?;
            deployment(lab.upper.client(), above, "stuck", 1, json!({})).await?;
            let left = eventually(LONG, "it is left alone", async || {
                let events = lab.upper.kubectl(&["get", "events", "-n", above.namespace(), "-o", "json"]).await?;
                let events: Value = serde_json::from_slice(&events.stdout)?;
                let found = events["items"].as_array().into_iter().flatten().find(|event| event["reason"] == "ExclusionNotEnforced");
                Ok(found.context("no such event")?["involvedObject"]["uid"].clone())
            })
            .await?;
            let pods = of(above, "stuck").await?;
            ensure!(pods.len() == 1 && pods[0]["metadata"]["uid"] == left, "{pods:?}");
            Ok(())
        })
        .await
    })
}
