// SPDX-License-Identifier: Apache-2.0
//! The chart: what helm makes of it, and what an API server says to that. Its configuration of the scheduler is what all
//! other tests here run with.

use anyhow::{Context as _, ensure};
use e2e::helm::{of_kind, template};
use serde_json::{Value, json};

use crate::lab::Lab;

/// Values that differ in what is rendered.
fn variants() -> Vec<Value> {
    let image = json!({ "image": { "repository": "kube-scheduler" } });
    vec![
        json!({ "scheduler": image }),
        json!({ "scheduler": { "enabled": false }, "replicas": 1, "settings": { "stale": "open" } }),
        json!({
            "scheduler": image,
            "certificate": { "source": "secret", "secretName": "mine" },
            "exclusionsNamespace": "default",
            "weights": { "mode": "binpack", "headroom": 8 },
            "profiles": [{ "schedulerName": "east",
                "plugins": { "multiPoint": { "disabled": [{ "name": "InterPodAffinity" }] } } }],
        }),
    ]
}

#[test]
fn an_api_server_takes_all_that_is_rendered() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        for values in variants() {
            let objects = template("multi-scheduler", "other", "default", &values).await?;
            ensure!(of_kind(&objects, "Deployment").count() == 1, "{objects:?}");
            lab.upper.apply(&objects, &["--dry-run=server"]).await.with_context(|| format!("with {values}"))?;
        }
        Ok(())
    })
}

#[test]
fn the_scheduler_and_its_rights_are_there_only_when_they_are_wanted() -> anyhow::Result<()> {
    e2e::run(async {
        let [with, without, own] = <[Value; 3]>::try_from(variants()).map_err(|_| anyhow::anyhow!("three"))?;
        let names = |objects: &[Value]| -> Vec<String> {
            let deployment = of_kind(objects, "Deployment").next().unwrap_or(&Value::Null);
            let all = deployment["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
            all.filter_map(|container| container["name"].as_str()).map(str::to_owned).collect()
        };
        let config = |objects: &[Value]| {
            let all = of_kind(objects, "ConfigMap");
            all.filter_map(|map| map["data"]["scheduler.yaml"].as_str()).collect::<String>()
        };
        let objects = template("multi-scheduler", "r", "ns", &with).await?;
        ensure!(names(&objects) == ["multi-scheduler", "kube-scheduler"], "{:?}", names(&objects));
        ensure!(config(&objects).contains("urlPrefix: https://localhost:8443/v1"), "{}", config(&objects));
        ensure!(of_kind(&objects, "Secret").count() == 1, "no certificate");
        ensure!(objects.iter().any(|object| object["roleRef"]["name"] == "system:kube-scheduler"), "no rights");

        let objects = template("multi-scheduler", "r", "ns", &without).await?;
        ensure!(names(&objects) == ["multi-scheduler"], "{:?}", names(&objects));
        let prefix = "urlPrefix: https://r-multi-scheduler.ns.svc:443/v1";
        ensure!(config(&objects).contains(prefix), "{}", config(&objects));
        ensure!(
            !objects.iter().any(|object| object["roleRef"]["name"] == "system:kube-scheduler"),
            "rights for nobody"
        );

        let objects = template("multi-scheduler", "r", "ns", &own).await?;
        ensure!(of_kind(&objects, "Secret").count() == 0, "a certificate that nobody asked for");
        ensure!(objects.iter().any(|object| object["data"]["profiles.yaml"].is_string()), "no profiles");
        Ok(())
    })
}

#[test]
fn values_that_mean_nothing_are_refused() -> anyhow::Result<()> {
    e2e::run(async {
        for (values, word) in [
            (json!({}), "repository"),
            (json!({ "scheduler": { "enabled": false, "weight": 0 } }), "weight"),
            (json!({ "scheduler": { "enabled": false, "name": "default-scheduler" } }), "name"),
            (json!({ "scheduler": { "enabled": false }, "certificate": { "source": "secret" } }), "secretName"),
            (json!({ "scheduler": { "enabled": false }, "certificate": { "source": "cert-manager" } }), "issuerRef"),
            (json!({ "scheduler": { "enabled": false }, "settings": { "port": 1 } }), "port"),
            (json!({ "scheduler": { "enabled": false }, "replica": 1 }), "replica"),
        ] {
            let refused = template("multi-scheduler", "r", "ns", &values).await.err().context("it was rendered")?;
            let refused = format!("{refused:#}");
            ensure!(refused.contains("schema") && refused.contains(word), "{values}: {refused}");
        }
        Ok(())
    })
}
