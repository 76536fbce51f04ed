// SPDX-License-Identifier: Apache-2.0
//! Volumes of the upper cluster's own go down with their claims.

use anyhow::ensure;
use e2e::link::Link;
use e2e::objects::Objects;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use crate::{Side, pair, using};

#[test]
fn a_csi_volume_goes_down_with_its_claim_and_its_secrets_and_leaves_only_its_data() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("csi", async |above, below| {
            let (upper, lower, name) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below), above.namespace());
            let secrets = Objects::within::<Secret>(&pair.upper, above.namespace());
            secrets.create("key", json!({ "stringData": { "key": "k" } })).await?;
            let csi = json!({ "spec": { "storageClassName": null, "csi": {
                "driver": "disks.example.org", "volumeHandle": name,
                "nodeStageSecretRef": { "namespace": above.namespace(), "name": "key" },
            } } });
            upper.volume(name, "", csi).await?;
            upper.claim("data", "", json!({ "spec": { "volumeName": name } })).await?;
            upper.until_bound("data").await?;
            above.create(&using(pair.link.pod("user"), "data")).await?;
            above.until_ready("user").await?;

            let copy = lower.until_bound("data").await?;
            let carried = copy["spec"]["volumeName"].as_str().unwrap_or_default().to_owned();
            let volume = lower.volumes.get(&carried).await?;
            ensure!(volume["spec"]["csi"]["volumeHandle"] == name, "{}", volume["spec"]);
            ensure!(volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain", "{}", volume["spec"]);
            let lower_secrets = Objects::within::<Secret>(&pair.lower, above.namespace());
            ensure!(lower_secrets.get("key").await?["data"]["key"] == "aw==", "the Secret differs");

            above.delete("user", None).await?;
            above.until_gone("user").await?;
            upper.claims.delete("data").await?;
            lower.claims.until_gone("data").await?;
            lower.volumes.until_gone(&carried).await?;
            lower_secrets.until_gone("key").await?;
            let released = |volume: &Value| volume["status"]["phase"] == "Released";
            upper.volumes.until(name, "is there, released", released).await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn a_path_of_a_machine_is_refused_where_the_operator_says_so() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let strict = Link::builder(&pair.upper, &pair.lower, "strict").args(&["--refuse-host-path"]).start().await?;
        pair.within("path", async |above, below| {
            let (upper, lower, name) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below), above.namespace());
            upper.volume(name, "", json!({ "spec": { "storageClassName": null } })).await?;
            upper.claim("data", "", json!({ "spec": { "volumeName": name } })).await?;
            upper.until_bound("data").await?;
            above.create(&using(strict.pod("refused"), "data")).await?;
            let event = above.until_event("refused", "HostPathNotAllowed").await?;
            ensure!(event.contains(&format!("volume {name} is a path of a lower node")), "{event}");
            ensure!(lower.claims.find("data").await?.is_none(), "the claim is there");
            above.delete("refused", None).await?;
            above.create(&using(pair.link.pod("allowed"), "data")).await?;
            above.until_ready("allowed").await?;
            Ok(())
        })
        .await
    })
}
