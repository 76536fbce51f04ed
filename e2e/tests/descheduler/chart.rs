// SPDX-License-Identifier: Apache-2.0
//! The chart, by the real helm and a real API server.

use anyhow::{Context as _, ensure};
use e2e::descheduler::lab::Lab;
use e2e::helm::{of_kind, template};
use serde_json::json;

#[test]
fn an_api_server_takes_all_that_is_rendered() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        for values in [
            json!({ "canary": { "namespace": "default", "create": false } }),
            json!({ "canary": { "namespace": "default", "create": false }, "barePods": true, "surge": true,
                "multiScheduler": { "url": "https://multi-scheduler.tensile.svc:8443", "caSecret": "multi-scheduler" }, "exclusionsNamespace": "kube-system",
                "settings": { "dry-run": true, "max-pods-to-evict-per-node": 3 }, "replicas": 1,
                "tolerations": [{ "operator": "Exists" }], "imagePullSecrets": [{ "name": "registry" }],
                "serviceAccount": { "name": "mover", "annotations": { "a": "b" } } }),
        ] {
            let objects = template("descheduler", "other", "tensile", &values).await?;
            let dry = lab.upper.apply(&objects, &["--dry-run=server"]).await;
            dry.with_context(|| format!("with {values}"))?;
        }
        // A dry run makes no namespace for what is in it.
        let objects = template("descheduler", "other", "tensile", &json!({})).await?;
        let namespaces: Vec<_> = of_kind(&objects, "Namespace").cloned().collect();
        ensure!(namespaces.len() == 1, "{namespaces:?}");
        let name = namespaces[0]["metadata"]["name"].as_str().unwrap_or_default();
        let roles = of_kind(&objects, "Role").filter(|role| role["metadata"]["namespace"] == name);
        ensure!(roles.count() == 1, "no right in {name}");
        lab.upper.apply(&namespaces, &["--dry-run=server"]).await.map(drop)
    })
}
