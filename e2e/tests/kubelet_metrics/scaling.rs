// SPDX-License-Identifier: Apache-2.0
//! `kubectl top` and an autoscaler, by a metrics-server that takes the virtual node for a kubelet.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::wait::eventually;
use serde_json::{Value, json};

use super::test;

/// Two scrapes of the metrics-server, a decision, and a start.
const SCALED: Duration = Duration::from_secs(120);

#[test]
fn kubectl_top_tells_what_pods_and_node_use_and_an_autoscaler_adds_a_pod() -> anyhow::Result<()> {
    test("scaling", async |world, above, _| {
        let (upper, namespace) = (&world.pair.upper, above.namespace());
        let labels = json!({ "app": "busy" });
        let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": { "name": "busy" },
                "spec": {
                    "replicas": 1,
                    "selector": { "matchLabels": labels },
                    "template": { "metadata": { "labels": labels }, "spec": world.busy("busy")["spec"] },
                },
            },
            {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": { "name": "busy" },
                "spec": {
                    "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "busy" },
                    "minReplicas": 1,
                    "maxReplicas": 2,
                    "metrics": [{
                        "type": "Resource",
                        "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 100 } },
                    }],
                },
            },
        ] });
        let manifest = upper.folder().join("scaling.json");
        std::fs::write(&manifest, objects.to_string())?;
        upper.kubectl(&["apply", "--namespace", namespace, "-f", &manifest.display().to_string()]).await?;

        let top = world.above.until_told(upper, &["pod", "--namespace", namespace, "--no-headers"]).await?;
        let cores = top.split_whitespace().nth(1).and_then(|cpu| cpu.strip_suffix('m')).context("no CPU")?;
        let cores: u32 = cores.parse()?;
        // It is let use 150, where the machine can hold it to that, and asked for 50.
        ensure!((60..=1_100).contains(&cores), "{top}");
        let node = world.above.until_told(upper, &["node", "link", "--no-headers"]).await?;
        ensure!(node.starts_with("link") && !node.contains("unknown"), "{node}");

        eventually(SCALED, "a second pod runs", async || {
            let get = ["get", "deployment", "busy", "--namespace", namespace, "-o", "json"];
            let deployment: Value = serde_json::from_slice(&upper.kubectl(&get).await?.stdout)?;
            ensure!(deployment["spec"]["replicas"] == 2, "the autoscaler has not decided yet");
            ensure!(deployment["status"]["readyReplicas"] == 2, "{}", deployment["status"]);
            Ok(())
        })
        .await
    })
}
