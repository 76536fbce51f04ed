// SPDX-License-Identifier: Apache-2.0
//! What controllers above count on when their pods end: a Job on the last status, a StatefulSet on the name.

use std::fmt::Debug;

use anyhow::{Context as _, ensure};
use e2e::kwok::{FINISH, HOLD};
use e2e::pods::{PATIENCE, condition, uid, with};
use e2e::wait::eventually;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::pair;

const ACCEPTED: &str = "virtual-kubelet.io/Accepted";

async fn create<K>(api: &Api<K>, name: &str, spec: Value) -> anyhow::Result<()>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let object = json!({ "metadata": { "name": name }, "spec": spec });
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

#[test]
fn a_job_completes_and_its_pods_are_free_to_go() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("job", async |above, below| {
            let jobs: Api<Job> = Api::namespaced(pair.upper.client(), above.namespace());
            let pod = with(pair.link.pod_spec(), json!({ "restartPolicy": "Never" }));
            let template = json!({ "metadata": { "annotations": { FINISH: "Succeeded" } }, "spec": pod });
            create(&jobs, "work", json!({ "parallelism": 2, "completions": 3, "template": template })).await?;
            eventually(PATIENCE, "the job is complete", async || {
                let status = jobs.get("work").await?.status.unwrap_or_default();
                let complete = status.conditions.iter().flatten().any(|c| c.type_ == "Complete" && c.status == "True");
                ensure!(complete && status.succeeded == Some(3) && status.failed.is_none(), "{status:?}");
                Ok(())
            })
            .await?;
            above.until_all(3, "have no finalizer", |pod| pod["metadata"]["finalizers"].is_null()).await?;
            jobs.delete("work", &DeleteParams::background()).await?;
            above.until_all(0, "are left", |_| true).await?;
            below.until_all(0, "are left", |_| true).await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn a_job_counts_a_pod_that_was_deleted_while_it_ran_and_replaces_it() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("job-again", async |above, _| {
            let jobs: Api<Job> = Api::namespaced(pair.upper.client(), above.namespace());
            let pod = with(pair.link.pod_spec(), json!({ "restartPolicy": "Never" }));
            create(&jobs, "work", json!({ "template": { "spec": pod } })).await?;
            let running = above.until_all(1, "run", |pod| pod["status"]["phase"] == "Running").await?;
            above.delete(name(&running[0]), None).await?;
            eventually(PATIENCE, "the job counts a failure and has another pod ready", async || {
                let status = jobs.get("work").await?.status.unwrap_or_default();
                ensure!(status.failed == Some(1) && status.ready == Some(1), "{status:?}");
                Ok(())
            })
            .await?;
            above.until_gone(name(&running[0])).await
        })
        .await
    })
}

#[test]
fn the_next_pod_of_a_stateful_set_waits_until_the_old_one_has_ended_below() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("stateful", async |above, below| {
            let sets: Api<StatefulSet> = Api::namespaced(pair.upper.client(), above.namespace());
            let labels = json!({ "app": "db" });
            let template = json!({
                "metadata": { "labels": labels, "annotations": { HOLD: "" } },
                "spec": pair.link.pod_spec(),
            });
            let spec = json!({ "serviceName": "db", "selector": { "matchLabels": labels }, "template": template });
            create(&sets, "db", spec).await?;
            let (old, old_lower) = (above.until_ready("db-0").await?, below.get("db-0").await?);
            above.force_delete(&old).await?;

            let next = above
                .until("db-0", "is the next one and waits for its name", |pod| {
                    uid(pod) != uid(&old) && condition(pod, ACCEPTED)["reason"] == "NameTaken"
                })
                .await?;
            let lower = below.get("db-0").await?;
            ensure!(uid(&lower) == uid(&old_lower), "a second lower pod was made: {}", lower["metadata"]);
            below.annotate("db-0", HOLD, None).await?;

            let ready = above.until_ready("db-0").await?;
            let owner = &below.get("db-0").await?["metadata"]["annotations"]["tensile.io/upper-uid"];
            ensure!(uid(&ready) == uid(&next) && *owner == uid(&next), "{owner} is not {}", uid(&next));
            // Let it go with its namespace.
            below.annotate("db-0", HOLD, None).await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn a_running_pod_that_vanished_below_has_failed_and_its_deployment_replaces_it() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("replaced", async |above, below| {
            let deployments: Api<Deployment> = Api::namespaced(pair.upper.client(), above.namespace());
            let labels = json!({ "app": "web" });
            let template = json!({ "metadata": { "labels": labels }, "spec": pair.link.pod_spec() });
            create(&deployments, "web", json!({ "selector": { "matchLabels": labels }, "template": template })).await?;
            let ready = above.until_all(1, "are ready", |pod| condition(pod, "Ready")["status"] == "True").await?;
            let lost = name(&ready[0]);
            below.force_delete(&below.get(lost).await?).await?;

            let failed = above.until_phase(lost, "Failed").await?;
            let status = &failed["status"];
            ensure!(status["reason"] == "PodLost" && condition(&failed, "Ready")["status"] == "False", "{status}");
            let ended = &status["containerStatuses"][0]["state"]["terminated"];
            ensure!(ended["exitCode"] == 137 && ended["startedAt"].is_string(), "{ended}");
            let event = above.until_event(lost, "PodLost").await?;
            ensure!(event.contains(pair.link.name()), "{event}");

            let both = above.until_all(2, "are there", |_| true).await?;
            let next = both.iter().map(name).find(|name| *name != lost).context("no other")?;
            above.until_ready(next).await?;
            ensure!(below.find(lost).await?.is_none(), "the failed pod runs again");
            Ok(())
        })
        .await
    })
}
