// SPDX-License-Identifier: Apache-2.0
//! What a container writes to a claim is there for the next one, and what happens to containers is told above.

use anyhow::ensure;
use e2e::cluster::Cluster;
use e2e::fixture::RealPair;
use e2e::objects::Objects;
use e2e::pods::{uid, with};
use e2e::real_node;
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use crate::{Side, using};

#[test]
fn a_container_reads_what_an_earlier_one_wrote_to_its_claim_and_kubelets_events_are_told_above() -> anyhow::Result<()> {
    if !real_node::can_run() {
        return Ok(());
    }
    e2e::run(async {
        let pair = RealPair::start(Cluster::builder("upper"), Cluster::builder("lower"), &[]).await?;
        pair.within("written", async |above, below| {
            let (upper, lower, class) = (Side::of(&pair.upper, above), Side::of(&pair.lower, below), above.namespace());
            upper.class(class, json!({})).await?;
            let folder = tempfile::tempdir()?;
            let path = json!({ "spec": { "hostPath": { "path": folder.path() } } });
            lower.volume(class, class, path).await?;
            upper.claim("data", class, json!({})).await?;
            let mounting = |name: &str, script: &str| {
                let mut pod = using(pair.pod(name, script), "data");
                pod["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
                pod["spec"]["restartPolicy"] = json!("Never");
                pod
            };
            above.create(&mounting("writer", "echo written once > /data/file")).await?;
            above.until_phase("writer", "Succeeded").await?;
            above.delete("writer", None).await?;
            above.until_gone("writer").await?;
            above.create(&mounting("reader", "cat /data/file")).await?;
            above.until_phase("reader", "Succeeded").await?;
            let log = pair.upper.kubectl(&["-n", above.namespace(), "logs", "reader"]).await?.stdout;
            ensure!(String::from_utf8_lossy(&log).trim() == "written once", "{}", String::from_utf8_lossy(&log));

            let events = Objects::within::<Event>(&pair.upper, above.namespace());
            let reader = above.get("reader").await?;
            let about = |pod: &Value| format!("involvedObject.uid={}", uid(pod));
            let started = |event: &Value| event["reason"] == "Started" && event["source"]["component"] == "kubelet";
            let event = events.until_one(&about(&reader), "is Started", started).await?;
            ensure!(event["involvedObject"]["fieldPath"] == "spec.containers{main}", "{event}");
            let image = json!([{ "name": "main", "image": "example.org/no-such:1" }]);
            let pull = above.create(&with(pair.pod("pull", ""), json!({ "spec": { "containers": image } }))).await?;
            events.until_one(&about(&pull), "is a failed pull", |event| event["reason"] == "Failed").await?;
            let probe = json!({ "exec": { "command": ["false"] }, "periodSeconds": 1, "failureThreshold": 1 });
            let mut unhealthy = pair.pod("unhealthy", "exec sleep 1000000");
            unhealthy["spec"]["containers"][0]["livenessProbe"] = probe;
            let unhealthy = above.create(&unhealthy).await?;
            for reason in ["Unhealthy", "Killing"] {
                events.until_one(&about(&unhealthy), reason, |event| event["reason"] == reason).await?;
            }
            events
                .until_one(&about(&unhealthy), "has a count", |event| {
                    event["reason"] == "Unhealthy" && event["count"].as_i64() > Some(1)
                })
                .await?;
            Ok(())
        })
        .await
    })
}
