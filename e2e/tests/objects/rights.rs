// SPDX-License-Identifier: Apache-2.0
//! A virtual node that may read Secrets of some namespaces only.

use anyhow::ensure;
use e2e::cluster::Cluster;
use e2e::kubeconfig::User;
use e2e::link::Link;
use std::path::PathBuf;

use crate::objects::{Objects, config_map, mounting, secret, secret_of, value_of};
use crate::pair;

const LOWER_RBAC: &str = include_str!("../../../charts/virtual-node/files/lower-rbac.yaml");

/// A kubeconfig of the identity that the manifest for lower clusters makes.
async fn shipped_identity(cluster: &Cluster) -> anyhow::Result<PathBuf> {
    let manifest = cluster.folder().join("lower-rbac.yaml");
    std::fs::write(&manifest, LOWER_RBAC)?;
    let path = manifest.display().to_string();
    cluster.kubectl(&["apply", "-f", &path]).await?;
    let secrets = Objects::secrets(cluster, "tensile");
    let full = secrets.until("virtual-node", "has its token", |secret| secret["data"]["token"].is_string()).await?;
    let token: k8s_openapi::ByteString = serde_json::from_value(full["data"]["token"].clone())?;
    cluster.kubeconfig_for("shipped", None, &User::Token(&String::from_utf8(token.0)?))
}

#[test]
fn a_namespace_whose_secrets_are_forbidden_below_is_told_on_the_pod_and_works_once_it_is_allowed() -> anyhow::Result<()>
{
    e2e::run(async {
        let pair = pair().await?;
        let kubeconfig = shipped_identity(&pair.lower).await?;
        let link = Link::builder(&pair.upper, &pair.lower, "shipped").lower_kubeconfig(&kubeconfig).start().await?;
        pair.within("forbidden", async |above, below| {
            let maps = Objects::config_maps(&pair.upper, above.namespace());
            maps.create("public", serde_json::json!({ "data": { "a": "b" } })).await?;
            let secrets = Objects::secrets(&pair.upper, above.namespace());
            secrets.create("private", secret_of("s")).await?;
            let mut without = mounting(link.pod("without"), &[config_map("public")]);
            without["spec"]["automountServiceAccountToken"] = false.into();
            above.create(&without).await?;
            above.until_ready("without").await?;
            // Only because every pod has one: it runs without, and is told so.
            above.create(&link.pod("plain")).await?;
            above.until_ready("plain").await?;
            let event = above.until_event("plain", "TokenOmitted").await?;
            ensure!(event.contains("automountServiceAccountToken: true"), "{event}");
            let plain = below.get("plain").await?;
            let sources = plain["spec"]["volumes"][0]["projected"]["sources"].as_array();
            let sources = sources.map(|all| all.iter().filter(|source| source.get("secret").is_some()).count());
            ensure!(
                sources == Some(0) && plain["metadata"]["annotations"].get("tensile.io/tokens").is_none(),
                "{plain}"
            );
            // That one asks for it, and waits.
            let mut asks = link.pod("asks");
            asks["spec"]["automountServiceAccountToken"] = true.into();
            above.create(&asks).await?;
            above.until_event("asks", "LowerForbidden").await?;
            let strict = Link::builder(&pair.upper, &pair.lower, "shipped-strict").lower_kubeconfig(&kubeconfig);
            let strict = strict.args(&["--missing-token=wait"]).start().await?;
            above.create(&strict.pod("strict")).await?;
            above.until_event("strict", "LowerForbidden").await?;

            above.create(&mounting(link.pod("with"), &[secret("private")])).await?;
            let event = above.until_event("with", "LowerForbidden").await?;
            let words = format!(
                "cannot list resource \"secrets\" in API group \"\" in the namespace \"{}\"",
                above.namespace()
            );
            ensure!(event.contains(&words), "{event}");
            ensure!(below.find("with").await?.is_none(), "the pod is there");
            let binding = [
                "-n",
                above.namespace(),
                "create",
                "rolebinding",
                "tensile-virtual-node-secrets",
                "--clusterrole=tensile-virtual-node-secrets",
                "--serviceaccount=tensile:virtual-node",
            ];
            pair.lower.kubectl(&binding).await?;
            for name in ["with", "asks", "strict"] {
                above.until_ready(name).await?;
            }
            let lower = Objects::secrets(&pair.lower, above.namespace());
            ensure!(value_of(&lower.get("private").await?) == "s", "the copy differs");
            Ok(())
        })
        .await
    })
}
