// SPDX-License-Identifier: Apache-2.0
//! What users create: bare pods, and the pods of controllers, are split above and run below where their author wanted
//! them.

use anyhow::ensure;
use e2e::kwok::FINISH;
use e2e::pods::{Pods, with};
use serde_json::{Value, json};

use super::{World, choosy, choosy_spec, stash, world};

/// Whether a pod that was created with the choosy spec is split: its cluster is chosen above, its node below.
fn is_split(pod: &Value) -> anyhow::Result<()> {
    ensure!(pod["spec"]["nodeSelector"] == json!({ "clusterID": "link" }), "{}", pod["spec"]["nodeSelector"]);
    let stash = stash(pod).unwrap_or_default();
    ensure!(stash["nodeSelector"] == json!({ "disk": "ssd" }), "{}", pod["metadata"]);
    let tolerations = pod["spec"]["tolerations"].as_array().into_iter().flatten();
    let endless = tolerations.filter(|one| {
        let key = one["key"].as_str().unwrap_or_default();
        ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].contains(&key)
            && one["tolerationSeconds"].is_null()
    });
    ensure!(endless.count() == 2, "{}", pod["spec"]["tolerations"]);
    Ok(())
}

/// Whether its lower pod has its constraints back, and runs on the one node that meets them.
async fn is_restored(below: &Pods, name: &str) -> anyhow::Result<()> {
    let lower = below.until_ready(name).await?;
    ensure!(lower["spec"]["nodeSelector"]["disk"] == "ssd", "{}", lower["spec"]["nodeSelector"]);
    ensure!(lower["spec"]["nodeName"] == "lower-ssd-1", "it runs on {}", lower["spec"]["nodeName"]);
    ensure!(stash(&lower).is_none(), "{}", lower["metadata"]);
    Ok(())
}

#[test]
fn a_bare_pod_is_split_above_and_restored_below() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .pair
            .within("bare", async |above, below| {
                is_split(&above.create(&choosy(world, "bare")).await?)?;
                above.until_ready("bare").await?;
                is_restored(below, "bare").await
            })
            .await
    })
}

/// Creates a workload whose template is choosy, waits until its pods run, and sees that all are split and restored.
async fn runs_split(world: &World, above: &Pods, below: &Pods, workload: Value, count: usize) -> anyhow::Result<()> {
    let labels = json!({ "app": "choosy", "virtual-pod": "true" });
    let spec = with(world.pair.link.pod_spec(), choosy_spec());
    let restart = if workload["kind"] == "Job" { json!({ "restartPolicy": "Never" }) } else { json!({}) };
    let template = json!({ "template": { "metadata": { "labels": labels }, "spec": with(spec, restart) } });
    let workload = with(workload, json!({ "metadata": { "namespace": above.namespace() }, "spec": template }));
    world.pair.upper.apply([&workload], &[]).await?;
    let pods = above.until_all(count, "run", |pod| pod["status"]["phase"] == "Running").await?;
    for pod in &pods {
        is_split(pod)?;
        is_restored(below, pod["metadata"]["name"].as_str().unwrap_or_default()).await?;
    }
    Ok(())
}

#[test]
fn pods_of_a_deployment_are_split_and_restored() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .pair
            .within("deployment", async |above, below| {
                let deployment = json!({
                    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "choosy" },
                    "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "choosy" } } },
                });
                runs_split(world, above, below, deployment, 3).await
            })
            .await
    })
}

#[test]
fn pods_of_a_stateful_set_are_split_and_restored() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .pair
            .within("stateful", async |above, below| {
                let set = json!({
                    "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "choosy" },
                    "spec": {
                        "replicas": 2, "serviceName": "none", "selector": { "matchLabels": { "app": "choosy" } },
                    },
                });
                runs_split(world, above, below, set, 2).await
            })
            .await
    })
}

#[test]
fn pods_of_a_job_are_split_and_restored_and_complete_it() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .pair
            .within("job", async |above, below| {
                let job = json!({
                    "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "choosy" },
                    "spec": { "completions": 2, "parallelism": 2 },
                });
                runs_split(world, above, below, job, 2).await?;
                for pod in below.list().await? {
                    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                    below.annotate(name, FINISH, Some("Succeeded")).await?;
                }
                let namespace = format!("--namespace={}", above.namespace());
                let complete = ["wait", "job/choosy", "--for=condition=Complete", "--timeout=60s", &namespace];
                world.pair.upper.kubectl(&complete).await.map(drop)
            })
            .await
    })
}

#[test]
fn what_another_mutation_adds_after_the_split_is_split_too() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        // Adds a constraint once the pod is split, and never before. (A condition of the policy itself would do the same the
        // first time, and then it would not be invoked again.)
        let late = "has(object.metadata.annotations) && 'clusterSelector' in object.metadata.annotations \
                    ? [JSONPatch{op: 'add', path: '/spec/nodeSelector/late', value: 'yes'}] : []";
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
            "metadata": { "name": "late" },
            "spec": {
                "reinvocationPolicy": "IfNeeded",
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "objectSelector": { "matchLabels": { "late": "true" } },
                    "resourceRules": [{
                        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
                    }],
                },
                "mutations": [{
                    "patchType": "JSONPatch", "jsonPatch": { "expression": late },
                }],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": { "name": "late" }, "spec": { "policyName": "late" },
        });
        world.pair.upper.apply([&policy, &binding], &[]).await?;
        let pod = json!({ "metadata": { "labels": { "late": "true", "virtual-pod": "true" } }, "spec": choosy_spec() });
        world
            .pair
            .within("reinvoked", async |above, _| {
                // The policy counts a little later than it is applied.
                e2e::wait::eventually(e2e::pods::PATIENCE, "the late constraint is in the stash", async || {
                    let pod = above.create_dry(&with(world.pair.link.pod("late"), pod.clone())).await?;
                    let stash = stash(&pod).unwrap_or_default();
                    ensure!(stash["nodeSelector"] == json!({ "disk": "ssd", "late": "yes" }), "{pod}");
                    ensure!(pod["spec"]["nodeSelector"] == json!({ "clusterID": "link" }), "{}", pod["spec"]);
                    Ok(())
                })
                .await
            })
            .await
    })
}
