// SPDX-License-Identifier: Apache-2.0
//! Copies follow what they are copies of, and go when nobody needs them.

use anyhow::ensure;
use e2e::pods::uid;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::{Value, json};

use crate::objects::{Objects, config_map, mounting, secret, secret_of, value_of};
use crate::pair;

/// What is never to be seen in a log.
const CANARY: &str = "canary-b2f1c7";

#[test]
fn a_change_reaches_one_object_below_with_one_request_and_many_pods_share_a_copy() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("shared", async |above, _| {
            let upper = Objects::config_maps(&pair.upper, above.namespace());
            upper.create("shared", json!({ "data": { "a": "1" } })).await?;
            for index in 0..10 {
                above.create(&mounting(pair.link.pod(&format!("pod-{index}")), &[config_map("shared")])).await?;
            }
            above.until_all(10, "are running", |pod| pod["status"]["phase"] == "Running").await?;
            let lower = Objects::config_maps(&pair.lower, above.namespace());
            let before = lower.get("shared").await?;
            upper.merge("shared", json!({ "data": { "a": "2", "b": "3" } })).await?;
            let after =
                lower.until("shared", "has changed", |map| map["data"] == json!({ "a": "2", "b": "3" })).await?;
            ensure!(uid(&before) == uid(&after), "it was made again");

            let of_this = |cluster: &e2e::cluster::Cluster| -> anyhow::Result<Vec<String>> {
                let mut audit = cluster.audit()?.by("tensile-virtual-node");
                audit.requests.retain(|request| {
                    request.object_ref.as_ref().is_some_and(|object| {
                        object.resource == "configmaps"
                            && object.namespace == above.namespace()
                            && object.name == "shared"
                    })
                });
                Ok(audit.requests.iter().map(e2e::cluster::Request::kind).collect())
            };
            ensure!(of_this(&pair.upper)? == ["get configmaps", "get configmaps"], "{:?}", of_this(&pair.upper)?);
            let below = of_this(&pair.lower)?;
            let writes: Vec<_> = below.iter().filter(|kind| !kind.starts_with("create")).collect();
            ensure!(writes == ["update configmaps"], "{below:?}");
            Ok(())
        })
        .await
    })
}

#[test]
fn an_object_that_is_made_again_upstairs_is_made_again_below_also_if_it_is_immutable() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("immutable", async |above, _| {
            let upper = Objects::secrets(&pair.upper, above.namespace());
            let fixed = |value: &str| e2e::pods::with(secret_of(value), json!({ "immutable": true }));
            upper.create("fixed", fixed("first")).await?;
            above.create(&mounting(pair.link.pod("user"), &[secret("fixed")])).await?;
            above.until_ready("user").await?;
            let lower = Objects::secrets(&pair.lower, above.namespace());
            let first = lower.get("fixed").await?;
            ensure!(first["immutable"] == true && value_of(&first) == "first", "{}", first["metadata"]);
            upper.delete("fixed").await?;
            upper.create("fixed", fixed("second")).await?;
            let second = lower.until("fixed", "is the second", |secret| value_of(secret) == "second").await?;
            ensure!(uid(&second) != uid(&first) && second["immutable"] == true, "{}", second["metadata"]);
            Ok(())
        })
        .await
    })
}

#[test]
fn a_secret_deleted_while_in_use_goes_below_too_and_comes_back_with_it() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("deleted", async |above, below| {
            let upper = Objects::secrets(&pair.upper, above.namespace());
            upper.create("revoked", secret_of("old")).await?;
            above.create(&mounting(pair.link.pod("user"), &[secret("revoked")])).await?;
            let running = above.until_ready("user").await?;
            let lower = Objects::secrets(&pair.lower, above.namespace());
            let before = below.get("user").await?;
            upper.delete("revoked").await?;
            lower.until_gone("revoked").await?;
            above.create(&mounting(pair.link.pod("new"), &[secret("revoked")])).await?;
            above.until_event("new", "CreateContainerConfigError").await?;
            ensure!(uid(&below.get("user").await?) == uid(&before), "the pod that ran was made again");
            ensure!(above.get("user").await?["status"] == running["status"], "the pod that ran was disturbed");

            upper.create("revoked", secret_of("new")).await?;
            above.until_ready("new").await?;
            ensure!(value_of(&lower.get("revoked").await?) == "new", "the copy is old");
            Ok(())
        })
        .await
    })
}

#[test]
fn a_copy_that_somebody_deletes_below_is_made_again() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("removed", async |above, _| {
            let upper = Objects::config_maps(&pair.upper, above.namespace());
            upper.create("wanted", json!({ "data": { "a": "1" } })).await?;
            above.create(&mounting(pair.link.pod("user"), &[config_map("wanted")])).await?;
            above.until_ready("user").await?;
            let lower = Objects::config_maps(&pair.lower, above.namespace());
            let first = lower.get("wanted").await?;
            lower.delete("wanted").await?;
            lower.until("wanted", "is there again", |map| uid(map) != uid(&first) && map["data"]["a"] == "1").await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn a_copy_goes_with_the_last_pod_that_refers_to_it() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("last", async |above, _| {
            let (maps, secrets) = (
                Objects::config_maps(&pair.upper, above.namespace()),
                Objects::secrets(&pair.upper, above.namespace()),
            );
            maps.create("both", json!({ "data": {} })).await?;
            secrets.create("one", secret_of("s")).await?;
            above.create(&mounting(pair.link.pod("first"), &[config_map("both"), secret("one")])).await?;
            above.create(&mounting(pair.link.pod("second"), &[config_map("both")])).await?;
            above.until_all(2, "are running", |pod| pod["status"]["phase"] == "Running").await?;
            let (maps, secrets) = (
                Objects::config_maps(&pair.lower, above.namespace()),
                Objects::secrets(&pair.lower, above.namespace()),
            );
            above.delete("first", None).await?;
            secrets.until_gone("one").await?;
            maps.get("both").await?;
            above.delete("second", None).await?;
            maps.until_gone("both").await
        })
        .await
    })
}

/// Killed while a copy lost its last pod, and while another changed: both are found again.
#[test]
fn a_killed_process_goes_on_where_it_was_and_logs_no_secret() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = crate::own("killed").await?;
        pair.within("killed", async |above, below| {
            let upper = Objects::secrets(pair.upper, above.namespace());
            for name in ["kept", "left"] {
                upper.create(name, secret_of(CANARY)).await?;
                above.create(&mounting(pair.link.pod(name), &[secret(name)])).await?;
                above.until_ready(name).await?;
            }
            let lower = Objects::secrets(pair.lower, above.namespace());
            ensure!(value_of(&lower.get("kept").await?) == CANARY, "the copy differs");
            pair.link.kill();
            below.delete("left", Some(0)).await?;
            above.delete("left", Some(0)).await?;
            upper.merge("kept", secret_of("changed while away")).await?;
            pair.link.restart()?;
            lower.until("kept", "has changed", |secret| value_of(secret) == "changed while away").await?;
            lower.until_gone("left").await?;
            ensure!(lower.find("kept").await?.is_some(), "a copy in use was removed");
            let log = std::fs::read_to_string(pair.link.process().log())?;
            ensure!(log.contains("copied below"), "this is not its log:\n{log}");
            let encoded = serde_json::to_string(&k8s_openapi::ByteString(CANARY.as_bytes().to_vec()))?;
            ensure!(
                !log.contains(CANARY) && !log.contains(encoded.trim_matches('"')),
                "the log has the secret:\n{log}"
            );
            Ok(())
        })
        .await
    })
}

/// A copy whose namespace has no pod any more, as a process leaves it that is killed at the wrong instant.
#[test]
fn a_copy_of_which_no_pod_is_left_is_removed_at_the_start_and_nothing_else_is() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = crate::own("orphans").await?;
        let namespaces: Api<Namespace> = Api::all(pair.upper.client());
        let cluster = kube::ResourceExt::uid(&namespaces.get("kube-system").await?).unwrap_or_default();
        let metadata = ObjectMeta { name: Some("left-over".to_owned()), ..ObjectMeta::default() };
        let below: Api<Namespace> = Api::all(pair.lower.client());
        below.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await?;
        let lower = Objects::secrets(pair.lower, "left-over");
        let marked = |node: &str| -> Value {
            json!({ "metadata": {
                "labels": { "tensile.io/upper-cluster": cluster, "tensile.io/virtual-node": node },
                "annotations": { "tensile.io/upper-name": "left-over/x", "tensile.io/upper-uid": "u" },
            } })
        };
        lower.create("orphan", marked(pair.link.name())).await?;
        lower.create("of-another-node", marked("another")).await?;
        lower.create("foreign", json!({})).await?;
        pair.link.kill();
        pair.link.restart()?;
        lower.until_gone("orphan").await?;
        lower.get("of-another-node").await?;
        lower.get("foreign").await?;
        Ok(())
    })
}
