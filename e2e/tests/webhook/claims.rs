// SPDX-License-Identifier: Apache-2.0
//! Pods whose claim was given to the virtual node before go there.

use anyhow::ensure;
use e2e::pods::{PATIENCE, Pods, with};
use e2e::wait::eventually;
use serde_json::{Value, json};

use super::{World, choosy, world};

/// A claim that the scheduler chose this node for.
async fn claim(world: &World, pods: &Pods, name: &str, node: &str) -> anyhow::Result<()> {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name, "namespace": pods.namespace(),
            "annotations": { "volume.kubernetes.io/selected-node": node },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    world.pair.upper.apply([&claim], &[]).await.map(drop)
}

fn using(world: &World, claims: &[&str]) -> Value {
    let volume = |claim: &&str| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } });
    let volumes: Vec<Value> = claims.iter().map(volume).collect();
    with(choosy(world, "claims"), json!({ "spec": { "volumes": volumes } }))
}

#[test]
fn a_pod_goes_to_the_virtual_node_of_its_claim_and_to_no_other_node() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        let other = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "other", "labels": { "type": "virtual-kubelet" } },
        });
        world.pair.upper.apply([&other], &[]).await?;
        world
            .pair
            .within("claims", async |above, _| {
                for (name, node) in [("here", "link"), ("there", "other"), ("real", "worker-1")] {
                    claim(world, above, name, node).await?;
                }
                for (claims, expected) in [
                    (["here"].as_slice(), json!("link")),
                    (&["there", "real"], json!("other")),
                    (&["real"], Value::Null),
                ] {
                    eventually(PATIENCE, "the claims are known", async || {
                        let pod = above.create_dry(&using(world, claims)).await?;
                        ensure!(pod["spec"]["nodeName"] == expected, "{claims:?}: {}", pod["spec"]["nodeName"]);
                        Ok(())
                    })
                    .await?;
                }
                let pod = above.create_dry(&using(world, &["here", "there"])).await?;
                ensure!(pod["spec"]["nodeName"].is_null(), "{}", pod["spec"]["nodeName"]);

                // One that takes no new pods.
                world.pair.upper.kubectl(&["cordon", "other"]).await?;
                eventually(PATIENCE, "it is known that the node takes no pods", async || {
                    let pod = above.create_dry(&using(world, &["there"])).await?;
                    ensure!(pod["spec"]["nodeName"].is_null(), "{}", pod["spec"]["nodeName"]);
                    Ok(())
                })
                .await
            })
            .await
    })
}
