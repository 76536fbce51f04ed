// SPDX-License-Identifier: Apache-2.0
//! Damaged pods that an API server takes without the webhook, it takes with the webhook too, or is told why not: no
//! patch makes a pod that it refuses.

#![allow(clippy::print_stdout, reason = "how much was tried is worth knowing")]

use anyhow::ensure;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tensile_testkit::fuzz::{Numbers, damage_json, reviews};

use super::lab::{Lab, WITHOUT};

const PODS: u64 = 600;

/// What constraints are made of.
const WORDS: &[&str] = &[
    "clusterID",
    "DoesNotExist",
    "Exists",
    "In",
    "kubernetes.io/hostname",
    "key",
    "labelSelector",
    "matchExpressions",
    "matchFields",
    "metadata.name",
    "nodeAffinity",
    "NoExecute",
    "NotIn",
    "operator",
    "podAffinity",
    "podAntiAffinity",
    "topologyKey",
    "values",
    "weight",
];

/// A real pod with something changed in its constraints.
fn damaged(number: u64, pods: &[Value]) -> Value {
    let mut numbers = Numbers::new(number);
    let mut pod = numbers.of(pods).clone();
    let fields = ["nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"];
    if let Some(constraint) = pod["spec"].get_mut(*numbers.of(&fields)) {
        damage_json(constraint, &mut numbers, WORDS);
    }
    pod
}

/// A pod of a review as somebody would create it.
fn pod_of(review: &Value) -> Value {
    let object = &review["request"]["object"];
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "generateName": "damaged-" } });
    pod["metadata"]["labels"] = object["metadata"]["labels"].clone();
    if let Some(stash) = object["metadata"]["annotations"].get("clusterSelector") {
        pod["metadata"]["annotations"] = json!({ "clusterSelector": stash });
    }
    let fields = ["nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "schedulingGates"];
    pod["spec"] = json!({ "containers": [{ "name": "main", "image": "example.org/app:1" }] });
    for field in fields {
        if let Some(value) = object["spec"].get(field) {
            pod["spec"][field] = value.clone();
        }
    }
    pod
}

/// What the API server says of creating the pod: nothing, or why not.
async fn refused(pods: &Api<DynamicObject>, pod: &Value) -> anyhow::Result<Option<String>> {
    // What is no object of the kind at all does not get to any server.
    let Ok(object) = serde_json::from_value(pod.clone()) else { return Ok(Some(String::new())) };
    match pods.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message.clone())),
        Err(error) => Err(error.into()),
    }
}

#[test]
fn no_patch_makes_a_pod_that_the_api_server_refuses() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.within("dry", async |above| {
            let namespaces: Api<Namespace> = Api::all(lab.upper.client());
            let aside = format!("{}-aside", above.namespace());
            e2e::namespace::make(&aside, &lab.upper).await?;
            let patch = Patch::Merge(json!({ "metadata": { "labels": { WITHOUT.0: WITHOUT.1 } } }));
            namespaces.patch(&aside, &PatchParams::default(), &patch).await?;

            let kind = kube::api::ApiResource::erase::<Pod>(&());
            let api = |namespace: &str| Api::namespaced_with(lab.upper.client(), namespace, &kind);
            let (with, without) = (api(above.namespace()), api(&aside));
            let pods: Vec<Value> = reviews().iter().map(pod_of).collect();
            let results: Vec<(bool, bool)> = stream::iter(0..PODS)
                .map(|number| damaged(number, &pods))
                .map(async |pod| {
                    if refused(&without, &pod).await?.is_some() {
                        return Ok((false, false));
                    }
                    let refusal = refused(&with, &pod).await?;
                    let told = refusal.as_deref().is_none_or(|message| message.contains("denied the request"));
                    ensure!(told, "with the webhook the API server refuses {pod}: {refusal:?}");
                    anyhow::Ok((true, refusal.is_none()))
                })
                .buffer_unordered(8)
                .try_collect()
                .await?;
            let valid = results.iter().filter(|(valid, _)| *valid).count();
            let taken = results.iter().filter(|(_, taken)| *taken).count();
            println!("{PODS} damaged pods: {valid} valid, {taken} of them taken with the webhook");
            ensure!(valid >= 100 && taken * 10 >= valid * 8, "{valid} valid and {taken} taken are too few");
            Ok(())
        })
        .await
    })
}
