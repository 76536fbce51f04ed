// SPDX-License-Identifier: Apache-2.0
//! What the virtual node must be allowed, and that it is no more than a node's.

use std::path::PathBuf;

use anyhow::ensure;
use e2e::cluster::Cluster;
use e2e::kubeconfig::User;
use e2e::link::Link;
use serde_json::json;

use crate::pair;

const RULES: &str = include_str!("../../../charts/virtual-node/files/upper-rules.yaml");
const LEASE_RULES: &str = include_str!("../../../charts/virtual-node/files/upper-lease-rules.yaml");
const NODE_RULES: &str = include_str!("../../../charts/virtual-node/files/upper-node-rules.yaml");

/// Applies `rules` as a cluster role that `user` has.
async fn allow(cluster: &Cluster, user: &str, name: &str, rules: &str) -> anyhow::Result<()> {
    let manifest = cluster.folder().join(format!("{name}.yaml"));
    let role =
        format!("{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {{name: {name}}}, rules: ");
    let rules: serde_json::Value = serde_saphyr::from_str(rules)?;
    std::fs::write(&manifest, format!("{role}{rules}}}"))?;
    cluster.kubectl(&["apply", "-f", &manifest.display().to_string()]).await?;
    let (role, user) = (format!("--clusterrole={name}"), format!("--user={user}"));
    cluster.kubectl(&["create", "clusterrolebinding", name, &role, &user]).await?;
    Ok(())
}

/// A kubeconfig of a user who may do upstairs what the chart allows, but for tokens.
async fn limited(cluster: &Cluster, user: &str) -> anyhow::Result<PathBuf> {
    allow(cluster, user, "limited", RULES).await?;
    allow(cluster, user, "limited-leases", LEASE_RULES).await?;
    let reader = "extension-apiserver-authentication-reader";
    let (role, name) = (format!("--role={reader}"), format!("--user={user}"));
    cluster.kubectl(&["-n", "kube-system", "create", "rolebinding", "limited", &role, &name]).await?;
    let identity = cluster.authority().client(user, &[])?;
    cluster.kubeconfig_for("limited", None, &User::Certificate(&identity))
}

#[test]
fn tokens_are_refused_until_the_virtual_node_may_ask_as_its_node_and_then_only_for_its_pods() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let kubeconfig = limited(&pair.upper, "limited-user").await?;
        let link = Link::builder(&pair.upper, &pair.lower, "limited").upper_kubeconfig(&kubeconfig).start().await?;
        pair.within("refused", async |above, below| {
            above.create(&link.pod("web")).await?;
            let told = above.until_event("web", "TokenRefused").await?;
            ensure!(told.contains(r#"cannot create resource "serviceaccounts/token""#), "{told}");
            ensure!(told.contains(&format!("token of service account {}/default", above.namespace())), "{told}");
            ensure!(below.find("web").await?.is_none(), "it is there already");
            // Nobody waits for a pod without tokens.
            let mut plain = link.pod("plain");
            plain["spec"]["automountServiceAccountToken"] = json!(false);
            above.create(&plain).await?;
            above.until_ready("plain").await?;

            allow(&pair.upper, "limited-user", "limited-node", &NODE_RULES.replace("NODENAME", "limited")).await?;
            above.until_ready("web").await?;

            // The node's rights, tried by hand: a token of an account whose pods run elsewhere, and one for nobody.
            let file = kubeconfig.display().to_string();
            let node = ["--kubeconfig", &file, "--as=system:node:limited", "--as-group=system:nodes"];
            let ask = |more: &'static [&'static str], namespace: &str| {
                let given = ["-n", namespace, "create", "token"].into_iter().chain(more.iter().copied());
                node.iter().copied().chain(given).map(str::to_owned).collect::<Vec<_>>()
            };
            for (args, words) in [
                (ask(&["default"], above.namespace()), "not bound to a pod"),
                (ask(&["default"], "kube-system"), "no relationship found"),
            ] {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let refused = pair.upper.kubectl(&args).await.err().map(|error| format!("{error:#}"));
                ensure!(refused.as_ref().is_some_and(|refused| refused.contains(words)), "{args:?}: {refused:?}");
            }
            Ok(())
        })
        .await
    })
}
