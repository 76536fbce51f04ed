// SPDX-License-Identifier: Apache-2.0
//! Growth, release and loss: what is deleted upstairs deletes nothing below that it must not.

use anyhow::ensure;
use e2e::link::Link;
use e2e::pods::uid;
use serde_json::{Value, json};

use crate::{Side, pair, using};

#[test]
fn a_volume_goes_with_its_claim_where_the_policy_says_delete_and_stays_where_it_says_retain() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("policy", async |above, below| {
            let (upper, lower) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below));
            let mut shown = Vec::new();
            for policy in ["Delete", "Retain"] {
                let class = format!("{}-{}", above.namespace(), policy.to_lowercase());
                upper.class(&class, json!({ "reclaimPolicy": policy })).await?;
                lower.volume(&class, &class, json!({})).await?;
                let claim = upper.claim(&policy.to_lowercase(), &class, json!({})).await?;
                above.create(&using(pair.link.pod(&policy.to_lowercase()), &policy.to_lowercase())).await?;
                above.until_ready(&policy.to_lowercase()).await?;
                shown.push((class, format!("pvc-{}", uid(&claim))));
            }
            for name in ["delete", "retain"] {
                // In use: it stays until the pod has gone.
                upper.claims.delete(name).await?;
                ensure!(lower.claims.find(name).await?.is_some(), "{name} is gone while in use");
                above.delete(name, None).await?;
                upper.claims.until_gone(name).await?;
            }
            lower.claims.until_gone("delete").await?;
            upper.volumes.until_gone(&shown[0].1).await?;
            let released = |volume: &Value| volume["status"]["phase"] == "Released";
            lower.volumes.until(&shown[0].0, "is there, with its data", released).await?;

            upper.volumes.until(&shown[1].1, "is released", released).await?;
            let kept = lower.claims.get("retain").await?;
            ensure!(
                kept["status"]["phase"] == "Bound" && kept["metadata"].get("deletionTimestamp").is_none(),
                "{kept}"
            );
            ensure!(lower.volumes.get(&shown[1].0).await?["status"]["phase"] == "Bound", "its volume was let go");
            Ok(())
        })
        .await
    })
}

#[test]
fn a_volume_that_was_kept_serves_the_claim_that_it_is_given_to() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("kept", async |above, below| {
            let (upper, lower, class) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below), above.namespace());
            upper.class(class, json!({ "reclaimPolicy": "Retain" })).await?;
            lower.volume(class, class, json!({})).await?;
            let first = upper.claim("first", class, json!({})).await?;
            above.create(&using(pair.link.pod("first"), "first")).await?;
            above.until_ready("first").await?;
            above.delete("first", None).await?;
            above.until_gone("first").await?;
            upper.claims.delete("first").await?;
            let shown = format!("pvc-{}", uid(&first));
            upper.volumes.until(&shown, "is released", |volume| volume["status"]["phase"] == "Released").await?;

            upper.volumes.merge(&shown, json!({ "spec": { "claimRef": null } })).await?;
            let second = upper.claim("second", class, json!({ "spec": { "volumeName": shown } })).await?;
            upper.until_bound("second").await?;
            above.create(&using(pair.link.pod("second"), "second")).await?;
            above.until_ready("second").await?;
            let pod = below.get("second").await?;
            let claim = &pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"];
            ensure!(*claim == "first", "it got another volume: {claim}");
            let whose = &lower.claims.get("first").await?["metadata"]["annotations"]["tensile.io/upper-uid"];
            ensure!(*whose == uid(&second), "{whose}");
            Ok(())
        })
        .await
    })
}

#[test]
fn growth_goes_down_and_the_new_size_comes_up() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("grows", async |above, below| {
            let (upper, lower, class) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below), above.namespace());
            upper.class(class, json!({ "allowVolumeExpansion": true })).await?;
            let there = json!({ "provisioner": "example.org/none", "allowVolumeExpansion": true,
                "volumeBindingMode": "Immediate" });
            lower.class(class, there).await?;
            lower.volume(class, class, json!({})).await?;
            let claim = upper.claim("data", class, json!({})).await?;
            above.create(&using(pair.link.pod("user"), "data")).await?;
            above.until_ready("user").await?;
            upper.until_bound("data").await?;
            let request = json!({ "spec": { "resources": { "requests": { "storage": "3Gi" } } } });
            upper.claims.merge("data", request.clone()).await?;
            let asks = |claim: &Value| claim["spec"]["resources"]["requests"]["storage"] == "3Gi";
            lower.claims.until("data", "asks for more", asks).await?;

            // As the driver's resizer would.
            lower.volumes.merge(class, json!({ "spec": { "capacity": { "storage": "3Gi" } } })).await?;
            lower.claims.merge_status("data", json!({ "capacity": { "storage": "3Gi" } })).await?;
            let grown = |claim: &Value| claim["status"]["capacity"]["storage"] == "3Gi";
            upper.claims.until("data", "has grown", grown).await?;
            let shown = upper.volumes.get(&format!("pvc-{}", uid(&claim))).await?;
            ensure!(shown["spec"]["capacity"]["storage"] == "3Gi", "{}", shown["spec"]);
            Ok(())
        })
        .await
    })
}

#[test]
fn a_claim_that_is_deleted_below_is_lost_and_no_empty_volume_takes_its_place() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("lost", async |above, below| {
            let (upper, lower, class) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below), above.namespace());
            upper.class(class, json!({})).await?;
            lower.volume(class, class, json!({})).await?;
            upper.claim("data", class, json!({})).await?;
            above.create(&using(pair.link.pod("first"), "data")).await?;
            above.until_ready("first").await?;
            upper.until_bound("data").await?;
            above.delete("first", None).await?;
            above.until_gone("first").await?;
            lower.claims.delete("data").await?;
            lower.claims.until_gone("data").await?;
            lower.volume(&format!("{class}-empty"), class, json!({})).await?;
            above.create(&using(pair.link.pod("second"), "data")).await?;
            let event = above.until_event("second", "VolumeLost").await?;
            ensure!(event.contains("an empty one does not take its place"), "{event}");
            ensure!(below.find("second").await?.is_none(), "the pod is there");
            ensure!(lower.claims.find("data").await?.is_none(), "the claim was made again");
            Ok(())
        })
        .await
    })
}

/// Killed between every two steps that matter: what happened meanwhile is done when it is back.
#[test]
fn a_killed_process_goes_on_where_it_was() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let link = Link::start(&pair.upper, &pair.lower, "killed").await?;
        pair.within("killed", async |above, below| {
            let (upper, lower, class) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below), above.namespace());
            upper.class(class, json!({})).await?;
            link.kill();
            lower.volume(class, class, json!({})).await?;
            let claim = upper.claim("data", class, json!({})).await?;
            let chosen = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "killed" } } });
            upper.claims.merge("data", chosen).await?;
            link.restart()?;
            upper.until_bound("data").await?;
            lower.until_bound("data").await?;
            link.kill();
            upper.claims.delete("data").await?;
            upper.claims.until_gone("data").await?;
            link.restart()?;
            lower.claims.until_gone("data").await?;
            upper.volumes.until_gone(&format!("pvc-{}", uid(&claim))).await?;
            Ok(())
        })
        .await
    })
}
