// SPDX-License-Identifier: Apache-2.0
//! Objects are there below before the pod is, wherever the pod refers to them.

use anyhow::ensure;
use e2e::pods::condition;
use serde_json::{Value, json};

use crate::objects::{Objects, config_map, mounting, secret, secret_of, value_of};
use crate::pair;

#[test]
fn every_kind_of_reference_takes_its_object_along() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("kinds", async |above, below| {
            let (maps, secrets) = both(&pair.upper, above.namespace());
            for name in ["volume", "projected", "env", "env-from"] {
                maps.create(name, json!({ "data": { "key": name }, "binaryData": { "bytes": "AAEC" } })).await?;
                secrets.create(name, secret_of(&format!("secret {name}"))).await?;
            }
            for name in ["pull", "csi", "csi-2"] {
                secrets.create(name, secret_of(name)).await?;
            }
            let mut pod = mounting(
                pair.link.pod("all"),
                &[
                    config_map("volume"),
                    secret("volume"),
                    json!({ "projected": { "sources": [
                    { "configMap": { "name": "projected" } }, { "secret": { "name": "projected" } },
                ] } }),
                    json!({ "csi": { "driver": "example.org", "nodePublishSecretRef": { "name": "csi" } } }),
                    json!({ "rbd": { "image": "i", "monitors": ["m"], "secretRef": { "name": "csi-2" } } }),
                ],
            );
            pod["spec"]["imagePullSecrets"] = json!([{ "name": "pull" }]);
            pod["spec"]["containers"][0]["env"] = json!([
                { "name": "A", "valueFrom": { "configMapKeyRef": { "name": "env", "key": "key" } } },
                { "name": "B", "valueFrom": { "secretKeyRef": { "name": "env", "key": "key" } } },
            ]);
            pod["spec"]["containers"][0]["envFrom"] =
                json!([{ "configMapRef": { "name": "env-from" } }, { "secretRef": { "name": "env-from" } }]);
            above.create(&pod).await?;
            above.until_ready("all").await?;

            let lower = below.get("all").await?;
            let (maps, secrets) = both(&pair.lower, above.namespace());
            for name in ["volume", "projected", "env", "env-from"] {
                let map = maps.get(name).await?;
                ensure!(
                    map["data"] == json!({ "key": name }) && map["binaryData"] == json!({ "bytes": "AAEC" }),
                    "{map}"
                );
                ensure!(made_before(&map, &lower), "{name} came after the pod");
                ensure!(value_of(&secrets.get(name).await?) == format!("secret {name}"), "{name}");
            }
            for name in ["pull", "csi", "csi-2"] {
                ensure!(value_of(&secrets.get(name).await?) == name, "{name}");
            }
            let marks = &maps.get("env").await?["metadata"];
            ensure!(marks["labels"]["tensile.io/virtual-node"] == pair.link.name(), "{marks}");
            ensure!(marks["annotations"]["global"] == "true", "{marks}");
            ensure!(marks["annotations"]["tensile.io/upper-name"] == format!("{}/env", above.namespace()), "{marks}");
            Ok(())
        })
        .await
    })
}

fn both(cluster: &e2e::cluster::Cluster, namespace: &str) -> (Objects, Objects) {
    (Objects::config_maps(cluster, namespace), Objects::secrets(cluster, namespace))
}

/// By `resourceVersion`, which counts all writes of a cluster.
fn made_before(object: &Value, pod: &Value) -> bool {
    let number = |object: &Value| {
        let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        text.parse::<u64>().unwrap_or_default()
    };
    number(object) < number(pod)
}

#[test]
fn a_pod_waits_with_a_reason_for_what_is_missing_and_goes_on_at_once_when_it_comes() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("missing", async |above, below| {
            let (maps, secrets) = both(&pair.upper, above.namespace());
            maps.create("there", json!({ "data": { "a": "b" } })).await?;
            let sources = [config_map("there"), config_map("later"), secret("later")];
            above.create(&mounting(pair.link.pod("waits"), &sources)).await?;
            let pod = above
                .until("waits", "says what is missing", |pod| {
                    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
                    waiting["reason"] == "CreateContainerConfigError"
                        && waiting["message"] == "configmap \"later\" not found, secret \"later\" not found"
                })
                .await?;
            ensure!(condition(&pod, "virtual-kubelet.io/Accepted")["status"] == "False", "{}", pod["status"]);
            let event = above.until_event("waits", "CreateContainerConfigError").await?;
            ensure!(event.contains("secret \"later\" not found"), "{event}");
            ensure!(below.find("waits").await?.is_none(), "it is there already");

            secrets.create("later", secret_of("s")).await?;
            above
                .until("waits", "waits for the other", |pod| {
                    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
                    waiting["message"] == "configmap \"later\" not found"
                })
                .await?;
            maps.create("later", json!({ "data": { "a": "b" } })).await?;
            above.until_ready("waits").await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn what_is_optional_is_not_waited_for_and_copied_when_it_comes() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("optional", async |above, below| {
            let mut pod = mounting(
                pair.link.pod("relaxed"),
                &[
                    json!({ "configMap": { "name": "may-come", "optional": true } }),
                    json!({ "secret": { "secretName": "may-come", "optional": true } }),
                ],
            );
            pod["spec"]["imagePullSecrets"] = json!([{ "name": "never" }]);
            above.create(&pod).await?;
            above.until_ready("relaxed").await?;

            let (maps, secrets) = both(&pair.upper, above.namespace());
            maps.create("may-come", json!({ "data": { "came": "yes" } })).await?;
            secrets.create("may-come", secret_of("came")).await?;
            let lower = below.get("relaxed").await?;
            let name = |pointer: &str| lower.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (maps, secrets) = both(&pair.lower, above.namespace());
            maps.until(&name("/spec/volumes/0/configMap/name"), "has come", |map| map["data"]["came"] == "yes").await?;
            let came = |secret: &Value| value_of(secret) == "came";
            secrets.until(&name("/spec/volumes/1/secret/secretName"), "has come", came).await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn types_of_secrets_are_kept_but_for_tokens_which_become_plain() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("types", async |above, _| {
            let (_, secrets) = both(&pair.upper, above.namespace());
            let login =
                json!({ "type": "kubernetes.io/basic-auth", "stringData": { "username": "u", "password": "p" } });
            secrets.create("login", login).await?;
            let account = json!({ "metadata": { "annotations": { "kubernetes.io/service-account.name": "default" } } });
            let token = json!({ "type": "kubernetes.io/service-account-token" });
            secrets.create("token", e2e::pods::with(account, token)).await?;
            let full = |secret: &Value| secret["data"]["token"].is_string();
            let upper = secrets.until("token", "has its token", full).await?;
            above.create(&mounting(pair.link.pod("typed"), &[secret("login"), secret("token")])).await?;
            above.until_ready("typed").await?;
            let (_, secrets) = both(&pair.lower, above.namespace());
            ensure!(secrets.get("login").await?["type"] == "kubernetes.io/basic-auth", "the type is lost");
            let token = secrets.get("token").await?;
            ensure!(token["type"] == "Opaque" && token["data"] == upper["data"], "{}", token["type"]);
            Ok(())
        })
        .await
    })
}

#[test]
fn objects_of_a_megabyte_go_down_whole() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("large", async |above, _| {
            let (maps, secrets) = both(&pair.upper, above.namespace());
            // The API server takes a mebibyte of data, names of keys included.
            let large = "x".repeat(1024 * 1024 - "key".len());
            maps.create("large", json!({ "data": { "key": large } })).await?;
            secrets.create("large", secret_of(&large)).await?;
            above.create(&mounting(pair.link.pod("large"), &[config_map("large"), secret("large")])).await?;
            above.until_ready("large").await?;
            let (maps, secrets) = both(&pair.lower, above.namespace());
            ensure!(maps.get("large").await?["data"]["key"] == large, "the ConfigMap differs");
            ensure!(value_of(&secrets.get("large").await?) == large, "the Secret differs");
            Ok(())
        })
        .await
    })
}
