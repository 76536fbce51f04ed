// SPDX-License-Identifier: Apache-2.0
//! What others have below is theirs.

use anyhow::ensure;
use e2e::link::Link;
use e2e::namespace;
use serde_json::{Value, json};

use crate::objects::{Objects, config_map, mounting, secret, secret_of, value_of};
use crate::pair;

#[test]
fn a_copy_gets_another_name_when_its_own_is_taken_and_the_pod_refers_to_that() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("taken", async |above, below| {
            namespace::make(above.namespace(), &pair.lower).await?;
            let lower = Objects::secrets(&pair.lower, above.namespace());
            let theirs = lower.create("app", secret_of("theirs")).await?;
            let upper = Objects::secrets(&pair.upper, above.namespace());
            upper.create("app", secret_of("ours")).await?;
            let mut pod = mounting(pair.link.pod("user"), &[secret("app")]);
            pod["spec"]["containers"][0]["env"] =
                json!([{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "app", "key": "key" } } }]);
            above.create(&pod).await?;
            above.until_ready("user").await?;

            let pod = below.get("user").await?;
            let name = pod["spec"]["volumes"][0]["secret"]["secretName"].as_str().unwrap_or_default().to_owned();
            ensure!(name.starts_with("app-"), "{}", pod["spec"]);
            let env = pod["spec"]["containers"][0]["env"].as_array().into_iter().flatten();
            let named = env.filter(|variable| variable["valueFrom"]["secretKeyRef"]["name"] == name);
            ensure!(named.count() == 1, "{}", pod["spec"]);
            ensure!(value_of(&lower.get(&name).await?) == "ours", "the copy differs");
            upper.merge("app", secret_of("ours, newer")).await?;
            lower.until(&name, "has changed", |secret| value_of(secret) == "ours, newer").await?;
            above.delete("user", None).await?;
            lower.until_gone(&name).await?;
            ensure!(lower.get("app").await? == theirs, "the foreign Secret was touched");
            Ok(())
        })
        .await
    })
}

#[test]
fn a_pod_says_that_a_name_is_taken_if_copies_must_not_be_renamed() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let strict = Link::builder(&pair.upper, &pair.lower, "strict").args(&["--on-conflict=refuse"]).start().await?;
        pair.within("refuse", async |above, below| {
            namespace::make(above.namespace(), &pair.lower).await?;
            let lower = Objects::config_maps(&pair.lower, above.namespace());
            let theirs = lower.create("app", json!({ "data": { "whose": "theirs" } })).await?;
            let upper = Objects::config_maps(&pair.upper, above.namespace());
            upper.create("app", json!({ "data": { "whose": "ours" } })).await?;
            above.create(&mounting(strict.pod("user"), &[config_map("app")])).await?;
            let event = above.until_event("user", "LowerNameConflict").await?;
            let words = format!("configmap {}/app that node strict did not make", above.namespace());
            ensure!(event.contains(&words), "{event}");
            ensure!(below.find("user").await?.is_none(), "the pod is there");
            ensure!(lower.get("app").await? == theirs, "the foreign ConfigMap was touched");
            lower.delete("app").await?;
            above.until_ready("user").await?;
            ensure!(lower.get("app").await?["data"]["whose"] == "ours", "the copy differs");
            Ok(())
        })
        .await
    })
}

#[test]
fn two_virtual_nodes_on_one_lower_cluster_keep_a_copy_each() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let second = Link::start(&pair.upper, &pair.lower, "second").await?;
        pair.within("two", async |above, below| {
            let upper = Objects::config_maps(&pair.upper, above.namespace());
            upper.create("app", json!({ "data": { "a": "1" } })).await?;
            above.create(&mounting(pair.link.pod("of-first"), &[config_map("app")])).await?;
            above.until_ready("of-first").await?;
            above.create(&mounting(second.pod("of-second"), &[config_map("app")])).await?;
            above.until_ready("of-second").await?;
            let lower = Objects::config_maps(&pair.lower, above.namespace());
            let name =
                |pod: &Value| pod["spec"]["volumes"][0]["configMap"]["name"].as_str().unwrap_or_default().to_owned();
            let (first, other) = (name(&below.get("of-first").await?), name(&below.get("of-second").await?));
            ensure!(first == "app" && other != "app", "{first} {other}");
            for name in [&first, &other] {
                ensure!(lower.get(name).await?["data"]["a"] == "1", "{name}");
            }
            above.delete("of-second", None).await?;
            lower.until_gone(&other).await?;
            ensure!(lower.get(&first).await?["metadata"]["labels"]["tensile.io/virtual-node"] == "link", "{first}");
            Ok(())
        })
        .await
    })
}
