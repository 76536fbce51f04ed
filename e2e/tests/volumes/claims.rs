// SPDX-License-Identifier: Apache-2.0
//! Claims go down with the pods that need them, and the upper cluster sees them bound.

use anyhow::ensure;
use e2e::link::Link;
use e2e::namespace;
use e2e::pods::{condition, uid, with};
use serde_json::{Value, json};

use crate::{Side, pair, using};

#[test]
fn a_claim_is_bound_below_and_shown_above_before_its_pod_is_placed() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("bound", async |above, below| {
            let (upper, lower, class) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below), above.namespace());
            upper.class(class, json!({})).await?;
            lower.volume(class, class, json!({})).await?;
            let claim = upper.claim("data", class, json!({})).await?;
            above.create(&using(pair.link.pod("first"), "data")).await?;
            above.until_ready("first").await?;

            let bound = upper.until_bound("data").await?;
            ensure!(bound["status"]["capacity"]["storage"] == "2Gi", "{}", bound["status"]);
            let name = format!("pvc-{}", uid(&claim));
            ensure!(bound["spec"]["volumeName"] == name, "{}", bound["spec"]);
            let shown = upper.volumes.get(&name).await?;
            let terms = &shown["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
            ensure!(terms[0]["matchExpressions"][0]["values"] == json!([pair.link.name()]), "{terms}");
            let copy = lower.until_bound("data").await?;
            ensure!(copy["spec"]["volumeName"] == class, "{}", copy["spec"]);
            ensure!(copy["metadata"]["annotations"]["tensile.io/upper-uid"] == uid(&claim), "{}", copy["metadata"]);

            // Nothing but the volume sends the second one there.
            let mut second = using(pair.link.pod("second"), "data");
            second["spec"]["nodeSelector"] = json!({});
            above.create(&second).await?;
            let second = above.until_ready("second").await?;
            ensure!(second["spec"]["nodeName"] == pair.link.name(), "{}", second["spec"]["nodeName"]);
            Ok(())
        })
        .await
    })
}

#[test]
fn a_lower_class_that_waits_for_a_pod_gets_one_and_the_pod_goes_to_the_volumes_node() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("waits", async |above, below| {
            let (upper, lower, class) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below), above.namespace());
            upper.class(class, json!({})).await?;
            lower.class(class, json!({ "provisioner": "kubernetes.io/no-provisioner" })).await?;
            let nodes = pair.lower.kubectl(&["get", "nodes", "-o", "jsonpath={.items[1].metadata.name}"]).await?;
            let node = String::from_utf8(nodes.stdout)?;
            let on_node = json!([{ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] }]);
            let local = json!({ "spec": {
                "local": { "path": "/data" },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": on_node }] } },
            } });
            lower.volume(class, class, local).await?;
            upper.claim("data", class, json!({})).await?;
            above.create(&using(pair.link.pod("local"), "data")).await?;
            above.until_ready("local").await?;
            let pod = below.get("local").await?;
            ensure!(pod["spec"]["nodeName"] == node, "{}", pod["spec"]["nodeName"]);
            lower.until_bound("data").await?;
            let size = |claim: &Value| claim["status"]["capacity"]["storage"] == "2Gi";
            upper.claims.until("data", "has the size of the volume", size).await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn a_claim_that_cannot_bind_is_told_on_the_pod_and_goes_on_when_it_can() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let mapped = Link::builder(&pair.upper, &pair.lower, "mapped").args(&["--storage-classes=of-others=mapped"]);
        let mapped = mapped.start().await?;
        pair.within("unbound", async |above, below| {
            let (upper, lower) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below));
            let missing = with(using(pair.link.pod("early"), "later"), json!({ "spec": { "nodeName": "link" } }));
            above.create(&missing).await?;
            let event = above.until_event("early", "ClaimNotFound").await?;
            ensure!(event == "persistentvolumeclaim \"later\" not found", "{event}");

            upper.claim("later", "of-others", json!({})).await?;
            let event = above.until_event("early", "ClaimNotBound").await?;
            ensure!(event.contains("StorageClass \"of-others\" makes none in lower clusters"), "{event}");
            let pod = above.get("early").await?;
            ensure!(condition(&pod, "virtual-kubelet.io/Accepted")["status"] == "False", "{}", pod["status"]);
            ensure!(lower.claims.find("later").await?.is_none(), "the claim is there");

            // Where the operator says what the class is called below, it goes down, and waits there for a volume.
            upper.claim("mapped", "of-others", json!({})).await?;
            let pod = using(mapped.pod("mapped"), "mapped");
            above.create(&with(pod, json!({ "spec": { "nodeName": "mapped" } }))).await?;
            let copy = lower.claims.until("mapped", "is there", |_| true).await?;
            ensure!(copy["spec"]["storageClassName"] == "mapped", "{}", copy["spec"]);
            above
                .until("mapped", "says what the lower scheduler says", |pod| {
                    let message = condition(pod, "virtual-kubelet.io/Scheduled")["message"].as_str();
                    message.is_some_and(|message| message.contains("unbound immediate PersistentVolumeClaims"))
                })
                .await?;
            let volume = format!("{}-late", above.namespace());
            lower.volume(&volume, "mapped", json!({})).await?;
            above.until_ready("mapped").await?;
            upper.until_bound("mapped").await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn a_claim_of_others_below_is_left_alone_and_the_copy_has_another_name() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("taken", async |above, below| {
            namespace::make(above.namespace(), &pair.lower).await?;
            let (upper, lower, class) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below), above.namespace());
            upper.class(class, json!({})).await?;
            let theirs = lower.claim("data", "theirs", json!({})).await?;
            lower.volume(class, class, json!({})).await?;
            upper.claim("data", class, json!({})).await?;
            above.create(&using(pair.link.pod("user"), "data")).await?;
            above.until_ready("user").await?;
            let pod = below.get("user").await?;
            let name = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"].as_str().unwrap_or_default();
            ensure!(name.starts_with("data-"), "{}", pod["spec"]["volumes"]);
            lower.until_bound(name).await?;
            ensure!(lower.claims.get("data").await?["spec"] == theirs["spec"], "the foreign claim was touched");
            Ok(())
        })
        .await
    })
}

#[test]
fn an_ephemeral_volume_is_the_claim_that_the_upper_cluster_makes_for_it() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("ephemeral", async |above, below| {
            let (upper, lower, class) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below), above.namespace());
            upper.class(class, json!({})).await?;
            lower.volume(class, class, json!({})).await?;
            let template = json!({ "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": { "requests": { "storage": "1Gi" } },
            } });
            let volumes = json!([{ "name": "scratch", "ephemeral": { "volumeClaimTemplate": template } }]);
            above.create(&with(pair.link.pod("web"), json!({ "spec": { "volumes": volumes } }))).await?;
            above.until_ready("web").await?;
            let pod = below.get("web").await?;
            let claim = json!({ "claimName": "web-scratch" });
            ensure!(pod["spec"]["volumes"][0]["persistentVolumeClaim"] == claim, "{}", pod["spec"]["volumes"]);
            lower.until_bound("web-scratch").await?;
            above.delete("web", None).await?;
            upper.claims.until_gone("web-scratch").await?;
            lower.claims.until_gone("web-scratch").await
        })
        .await
    })
}
