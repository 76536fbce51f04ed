// SPDX-License-Identifier: Apache-2.0
//! Exclusions in a ConfigMap: the next pods of an owner keep off a virtual node, until the exclusion ends.

use anyhow::{Context as _, ensure};
use e2e::pods::{PATIENCE, Pods};
use e2e::wait::eventually;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::lab::{EXCLUSIONS, Lab};

/// An entry's value: not to `node` until so many minutes from now.
fn not_to(node: &str, minutes: i64) -> String {
    let until = Timestamp::now() + SignedDuration::from_mins(minutes);
    json!({ "version": 1, "nodes": [{ "node": node, "until": until.to_string(), "attempts": 1 }] }).to_string()
}

/// Whether the API server would store a pod `name` of nobody that keeps off a node.
async fn keeps_off(lab: &Lab, above: &Pods, name: &str) -> anyhow::Result<bool> {
    let pods: Api<Pod> = Api::namespaced(lab.upper.client(), above.namespace());
    let pod = json!({
        "metadata": { "name": name, "labels": { "virtual-pod": "true" } },
        "spec": { "containers": [{ "name": "main", "image": "example.org/app:1" }] },
    });
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let stored = pods.create(&params, &serde_json::from_value(pod)?).await?;
    Ok(serde_json::to_value(stored.spec)?["affinity"].to_string().contains("metadata.name"))
}

#[test]
fn new_pods_of_an_excluded_owner_go_elsewhere_while_it_lasts() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.within("excluded", async |above| {
            // Alone, the preference would win.
            let east = json!({ "key": "clusterID", "operator": "In", "values": ["east"] });
            let preferred = json!([{ "weight": 100, "preference": { "matchExpressions": [east] } }]);
            let more = json!({ "affinity": { "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            } } });
            lab.deploy(above, "moved", 0, more).await?;
            let sets: Api<ReplicaSet> = Api::namespaced(lab.upper.client(), above.namespace());
            let owner = eventually(PATIENCE, "the ReplicaSet is made", async || {
                let all = sets.list(&ListParams::default()).await?;
                all.items.into_iter().find_map(|set| set.uid()).context("there is none")
            })
            .await?;

            let maps: Api<ConfigMap> = Api::namespaced(lab.upper.client(), EXCLUSIONS);
            let bare = |name: &str| format!("pod.{}.{name}", above.namespace());
            let map: ConfigMap = serde_json::from_value(json!({
                "metadata": { "generateName": "exclusions-", "labels": { "tensile.io/exclusions": "true" } },
                "data": {
                    "owner.damaged": "{",
                    format!("owner.{owner}"): not_to("east", 30),
                    bare("kept-off"): not_to("east", 30),
                    bare("free-again"): not_to("east", -1),
                },
            }))?;
            maps.create(&PostParams::default(), &map).await?;
            eventually(PATIENCE, "the webhook has heard of it", async || {
                ensure!(keeps_off(lab, above, "kept-off").await?, "not yet");
                Ok(())
            })
            .await?;
            ensure!(!keeps_off(lab, above, "free-again").await?, "an exclusion that ended counts");

            let deployments: Api<Deployment> = Api::namespaced(lab.upper.client(), above.namespace());
            let scale = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
            deployments.patch("moved", &PatchParams::default(), &scale).await?;
            let running = |pod: &Value| pod["status"]["phase"] == "Running" && pod["spec"]["nodeName"] == "west";
            above.until_all(3, "are running in the west", running).await?;
            Ok(())
        })
        .await
    })
}
