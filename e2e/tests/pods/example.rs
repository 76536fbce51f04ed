//! The example provider of the library, against a real API server: what the library promises, whatever is behind it.

use anyhow::ensure;
use e2e::pods::{PATIENCE, uid};
use e2e::service;
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::{Value, json};

use super::pair;

const NODE: &str = "memory";

fn pod(name: &str, annotations: &Value) -> Value {
    json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": {
            "nodeName": NODE,
            "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": "example.org/app:1" }],
        },
    })
}

#[test]
fn the_example_provider_runs_finishes_and_ends_pods_and_loses_those_it_forgets() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let launch = service::launch("examples/memory", NODE, pair.upper.folder());
        let mut provider = launch?.env("KUBECONFIG", pair.upper.kubeconfig()).arg(NODE).start()?;
        let nodes: Api<Node> = Api::all(pair.upper.client());
        eventually(PATIENCE, "its node is ready", async || {
            let conditions = nodes.get(NODE).await?.status.and_then(|status| status.conditions).unwrap_or_default();
            ensure!(conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"), "{conditions:?}");
            Ok(())
        })
        .await?;
        pair.within("example", async |above, _| {
            for name in ["runs", "deleted"] {
                above.create(&pod(name, &json!({}))).await?;
                above.until_ready(name).await?;
            }
            above.create(&pod("finishes", &json!({ "example/finish": "Succeeded" }))).await?;
            let finished = above.until_phase("finishes", "Succeeded").await?;
            above.delete("deleted", None).await?;
            above.until_gone("deleted").await?;

            // It remembers nothing: what ran is lost and must not run again, what finished has finished.
            let runs = above.get("runs").await?;
            provider.restart()?;
            let lost = above.until_phase("runs", "Failed").await?;
            ensure!(uid(&lost) == uid(&runs) && lost["status"]["reason"] == "PodLost", "{}", lost["status"]);
            above.create(&pod("afterwards", &json!({}))).await?;
            above.until_ready("afterwards").await?;
            let after = above.get("finishes").await?;
            ensure!(after["status"] == finished["status"], "{} became {}", finished["status"], after["status"]);
            Ok(())
        })
        .await
    })
}
