// SPDX-License-Identifier: Apache-2.0
//! Namespaces below come with the first pod.

use anyhow::ensure;
use e2e::namespace;
use e2e::objects::Objects;
use e2e::pods::uid;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::pair;

const MARKS: [&str; 2] = ["tensile.io/upper-cluster", "tensile.io/virtual-node"];

#[test]
fn a_namespace_below_is_made_and_marked() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let upper: Api<Namespace> = Api::all(pair.upper.client());
        let lower: Api<Namespace> = Api::all(pair.lower.client());
        let upper_cluster = upper.get("kube-system").await?.uid().unwrap_or_default();
        pair.within("made", async |above, _| {
            above.create(&pair.link.pod("first")).await?;
            above.until_ready("first").await?;
            let namespace = lower.get(above.namespace()).await?;
            let marks = MARKS.map(|key| namespace.labels().get(key).map(String::as_str));
            ensure!(marks == [Some(upper_cluster.as_str()), Some(pair.link.name())], "{:?}", namespace.metadata);
            Ok(())
        })
        .await
    })
}

#[test]
fn a_namespace_that_is_there_already_is_left_as_it_is() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let lower: Api<Namespace> = Api::all(pair.lower.client());
        pair.within("there", async |above, _| {
            let metadata = ObjectMeta { name: Some(above.namespace().to_owned()), ..ObjectMeta::default() };
            let made = lower.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await?;
            above.create(&pair.link.pod("first")).await?;
            above.until_ready("first").await?;
            let found = lower.get(above.namespace()).await?;
            ensure!(found.metadata.labels == made.metadata.labels, "{:?}", found.metadata);
            ensure!(found.metadata.annotations == made.metadata.annotations, "{:?}", found.metadata);
            Ok(())
        })
        .await
    })
}

#[test]
fn a_namespace_that_ends_below_is_told_on_the_pod_and_made_again_when_it_has_gone() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("ends", async |above, below| {
            namespace::make(above.namespace(), &pair.lower).await?;
            // Something of somebody else that takes its time.
            let held = Objects::within::<ConfigMap>(&pair.lower, above.namespace());
            held.create("held", json!({ "metadata": { "finalizers": ["example.org/held"] } })).await?;
            let namespaces = Objects::all::<Namespace>(&pair.lower);
            namespaces.delete(above.namespace()).await?;
            let is_ending = |namespace: &Value| namespace["status"]["phase"] == "Terminating";
            let ending = namespaces.until(above.namespace(), "is ending", is_ending).await?;
            above.create(&pair.link.pod("waits")).await?;
            let event = above.until_event("waits", "LowerNamespaceTerminating").await?;
            ensure!(event.contains("because it is being terminated"), "{event}");
            ensure!(below.find("waits").await?.is_none(), "the pod is there");
            pair.within("beside", async |other, _| {
                other.create(&pair.link.pod("runs")).await?;
                other.until_ready("runs").await.map(drop)
            })
            .await?;
            held.merge("held", json!({ "metadata": { "finalizers": null } })).await?;
            above.until_ready("waits").await?;
            ensure!(uid(&namespaces.get(above.namespace()).await?) != uid(&ending), "it is the same namespace");
            Ok(())
        })
        .await
    })
}
