// SPDX-License-Identifier: Apache-2.0
//! The chart, by the real helm and a real API server, with each of its options.

use anyhow::{Context as _, ensure};
use e2e::helm::{of_kind, template};
use serde_json::{Value, json};

use super::world;

/// Values that switch every part of the chart on or off.
fn variants() -> [Value; 5] {
    [
        json!({}),
        json!({
            "replicas": 3,
            "registration": {
                "failurePolicy": "Ignore", "reinvocationPolicy": "Never", "excludedNamespaces": ["monitoring"],
                "matchConditions": [{ "name": "users", "expression": "!request.userInfo.username.startsWith('system:node:')" }],
            },
            "settings": {
                "ignore-selector-keys": ["clusterID", "region"], "deny-unsupported": true, "follow-selected-node": false,
            },
            "networkPolicy": { "enabled": true, "metricsFrom": [{ "namespaceSelector": {} }] },
            "schedulerName": "multi-scheduler",
            "tolerations": [{ "operator": "Exists" }], "nodeSelector": { "role": "infra" },
            "priorityClassName": "system-cluster-critical", "imagePullSecrets": [{ "name": "registry" }],
            "podAnnotations": { "a": "b" }, "serviceAccount": { "name": "hook", "annotations": { "a": "b" } },
        }),
        json!({ "certificate": { "source": "cert-manager" }, "networkPolicy": { "enabled": true } }),
        json!({ "certificate": { "source": "cert-manager", "issuerRef": { "name": "ours", "kind": "ClusterIssuer" } } }),
        json!({
            "certificate": {
                "source": "secret", "secretName": "mine",
                "caBundle": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
            },
        }),
    ]
}

/// Kinds of cert-manager, which is not installed here.
const FOREIGN: [&str; 2] = ["Issuer", "Certificate"];

#[test]
fn an_api_server_takes_all_that_is_rendered() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        for values in variants() {
            let objects = template("webhook", "other", "tensile", &values).await?;
            ensure!(of_kind(&objects, "Deployment").count() == 1, "{objects:?}");
            let ours = objects.iter().filter(|object| !FOREIGN.iter().any(|kind| object["kind"] == *kind));
            // A bundle is checked when it is used.
            let dry = world.pair.upper.apply(ours, &["--dry-run=server"]).await;
            dry.with_context(|| format!("with {values}"))?;
        }
        Ok(())
    })
}

#[test]
fn the_certificate_comes_from_where_the_values_say() -> anyhow::Result<()> {
    e2e::run(async {
        let [own, _, made, issued, given] = variants();
        let registered = |objects: &[Value]| of_kind(objects, "MutatingWebhookConfiguration").next().cloned();
        let args = |objects: &[Value]| {
            let deployment = of_kind(objects, "Deployment").next().unwrap_or(&Value::Null);
            deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
        };

        let objects = template("webhook", "r", "ns", &own).await?;
        ensure!(args(&objects).contains("--serving-names=r-webhook.ns.svc"), "{}", args(&objects));
        let roles = |objects: &[Value]| -> Vec<Value> {
            of_kind(objects, "Role").map(|role| role["metadata"]["name"].clone()).collect()
        };
        ensure!(roles(&objects) == ["r-webhook-exclusions", "r-webhook"], "{:?}", roles(&objects));
        ensure!(of_kind(&objects, "ClusterRole").count() == 1, "no rights in the cluster");

        for (values, issuers, issuer) in [
            (made, 1, json!({ "name": "r-webhook", "kind": "Issuer" })),
            (issued, 0, json!({ "name": "ours", "kind": "ClusterIssuer" })),
        ] {
            let objects = template("webhook", "r", "ns", &values).await?;
            let certificate = of_kind(&objects, "Certificate").next().context("no Certificate")?;
            ensure!(certificate["spec"]["issuerRef"] == issuer, "{certificate}");
            ensure!(certificate["spec"]["dnsNames"] == json!(["r-webhook.ns.svc"]), "{certificate}");
            ensure!(certificate["spec"]["secretName"] == "r-webhook-certificate", "{certificate}");
            ensure!(of_kind(&objects, "Issuer").count() == issuers, "{issuers} issuers expected");
            let from = registered(&objects).unwrap_or_default()["metadata"]["annotations"].take();
            ensure!(from == json!({ "cert-manager.io/inject-ca-from": "ns/r-webhook" }), "{from}");
            ensure!(args(&objects).contains("--tlscert=/etc/tensile-certificate/tls.crt"), "{}", args(&objects));
            ensure!(roles(&objects) == ["r-webhook-exclusions"], "rights that nobody needs: {:?}", roles(&objects));
            let granted = &of_kind(&objects, "ClusterRole").next().context("no ClusterRole")?["rules"];
            ensure!(!granted.to_string().contains("mutatingwebhookconfigurations"), "{granted}");
        }

        let objects = template("webhook", "r", "ns", &given).await?;
        let bundle = registered(&objects).unwrap_or_default()["webhooks"][0]["clientConfig"]["caBundle"].take();
        ensure!(bundle.as_str().is_some_and(|bundle| bundle.starts_with("LS0tLS1CRUdJTi")), "{bundle}");
        Ok(())
    })
}

#[test]
fn values_that_mean_nothing_are_refused() -> anyhow::Result<()> {
    e2e::run(async {
        for (values, word) in [
            (json!({ "replica": 2 }), "replica"),
            (json!({ "replicas": 0 }), "replicas"),
            (json!({ "certificate": { "source": "vault" } }), "source"),
            (json!({ "certificate": { "source": "secret" } }), "secretName"),
            (json!({ "registration": { "failurePolicy": "Retry" } }), "failurePolicy"),
            (json!({ "settings": { "port": 1 } }), "port"),
        ] {
            let refused = template("webhook", "r", "ns", &values).await.err().context("it was rendered")?;
            let refused = format!("{refused:#}");
            ensure!(refused.contains("schema") && refused.contains(word), "{values}: {refused}");
        }
        Ok(())
    })
}
