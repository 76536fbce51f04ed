// SPDX-License-Identifier: Apache-2.0
//! Bad input: the virtual node ends soon, with the promised exit code and one sentence that names what is wrong.

use std::fs;
use std::path::Path;

use anyhow::ensure;
use e2e::cluster::Cluster;
use e2e::kubeconfig::{self, User, kubeconfig};
use e2e::link::{Builder, Link};
use e2e::pki::Authority;
use e2e::service::{self, CANNOT_START, SECRET, WRONG_FLAG, fails, waits_for_upper};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{World, world};

fn link<'a>(world: &'a World, name: &str) -> Builder<'a> {
    Link::builder(&world.upper, &world.lower, name)
}

/// A kubeconfig file in which one thing is wrong.
fn wrong_kubeconfig(
    cluster: &Cluster,
    name: &str,
    server: &str,
    ca: Option<&str>,
    user: &User<'_>,
) -> anyhow::Result<std::path::PathBuf> {
    let path = cluster.folder().join(format!("{name}.kubeconfig"));
    kubeconfig::write(&path, &kubeconfig(name, server, ca, user))?;
    Ok(path)
}

#[test]
fn an_unknown_flag_is_named() -> anyhow::Result<()> {
    e2e::run(async {
        let folder = tempfile::tempdir()?;
        let launch = service::launch("virtual-node", "unknown-flag", folder.path())?.arg("--no-such-flag");
        fails(launch, WRONG_FLAG, &["--no-such-flag"]).await
    })
}

#[test]
fn a_name_that_cannot_be_a_nodes_is_named() -> anyhow::Result<()> {
    e2e::run(async {
        let folder = tempfile::tempdir()?;
        let launch = service::launch("virtual-node", "bad-name", folder.path())?;
        fails(launch.args(["--client-kubeconfig=x", "--nodename=Bad_Name"]), WRONG_FLAG, &["--nodename", "Bad_Name"])
            .await
    })
}

#[test]
fn a_missing_lower_cluster_is_named() -> anyhow::Result<()> {
    e2e::run(async {
        let folder = tempfile::tempdir()?;
        let launch = service::launch("virtual-node", "no-lower", folder.path())?;
        fails(launch.arg("--nodename=some"), WRONG_FLAG, &["--client-kubeconfig"]).await
    })
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_named() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let nowhere = Path::new("/nonexistent/lower.kubeconfig");
        let words = ["lower cluster", "cannot read kubeconfig", "/nonexistent/lower.kubeconfig"];
        fails(link(world, "nowhere").lower_kubeconfig(nowhere).launch()?, CANNOT_START, &words).await?;

        let garbage = world.upper.folder().join("garbage.kubeconfig");
        fs::write(&garbage, format!("apiVersion: v1\nusers: [{{token: {SECRET}\n"))?;
        let words = ["upper cluster", &garbage.to_string_lossy(), "not valid YAML"];
        fails(link(world, "garbage").upper_kubeconfig(&garbage).launch()?, CANNOT_START, &words).await
    })
}

#[test]
fn a_wrong_authority_is_told_from_an_absent_server() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let other = Authority::new("other-ca")?.identity().certificate;
        let user = User::Certificate(world.lower.admin());
        let file = wrong_kubeconfig(&world.lower, "wrong-ca", &world.lower.server(), Some(&other), &user)?;
        let words = ["lower cluster", "certificate is not trusted", "certificate-authority"];
        fails(link(world, "wrong-ca").lower_kubeconfig(&file).launch()?, CANNOT_START, &words).await
    })
}

#[test]
fn credentials_that_are_not_accepted_are_told_without_the_token() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let file = world.lower.kubeconfig_for("bad-token", None, &User::Token(SECRET))?;
        let words = ["lower cluster", "401 Unauthorized", "token"];
        fails(link(world, "bad-token").lower_kubeconfig(&file).launch()?, CANNOT_START, &words).await
    })
}

#[test]
fn a_missing_right_is_named_by_verb_and_resource() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let roles: Api<ClusterRole> = Api::all(world.lower.client());
        let bindings: Api<ClusterRoleBinding> = Api::all(world.lower.client());
        let rights = json!([
            { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "patch", "delete"] },
            { "apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"] },
            { "apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"] },
            { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "update", "delete"] },
            { "apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get"] },
            { "apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["patch"] },
        ]);
        let role = json!({ "metadata": { "name": "rigid" }, "rules": rights });
        roles.create(&PostParams::default(), &serde_json::from_value(role)?).await?;
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": { "name": "rigid" },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "rigid" },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": "rigid" }],
        });
        bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
        let can_list = ["auth", "can-i", "list", "nodes", "--as=rigid"];
        e2e::wait::eventually(e2e::pods::PATIENCE, "the role counts", async || {
            world.lower.kubectl(&can_list).await.map(drop)
        })
        .await?;
        let identity = world.lower.authority().client("rigid", &[])?;
        let file = world.lower.kubeconfig_for("rigid", None, &User::Certificate(&identity))?;
        let words = ["lower cluster", "RBAC does not allow to patch pods/resize", "missing: patch pods/resize in all"];
        fails(link(world, "rigid").lower_kubeconfig(&file).launch()?, CANNOT_START, &words).await
    })
}

/// An API server of a version that nobody here can run: it answers any request with its version.
async fn old_server(tasks: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tasks.spawn(async move {
        let version = json!({ "major": "1", "minor": "19", "gitVersion": "v1.19.16" }).to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
        loop {
            let (mut client, _) = listener.accept().await?;
            let mut request = [0; 4096];
            ensure!(client.read(&mut request).await? > 0, "an empty request");
            client.write_all(format!("{head}{}\r\n\r\n{version}", version.len()).as_bytes()).await?;
        }
    });
    Ok(format!("http://{address}"))
}

#[test]
fn a_version_that_is_not_supported_is_named() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let mut tasks = JoinSet::new();
        let server = old_server(&mut tasks).await?;
        let file = wrong_kubeconfig(&world.lower, "old", &server, None, &User::Anonymous)?;
        let words = ["lower cluster", "v1.19.16", "oldest supported version is 1.33"];
        fails(link(world, "old").lower_kubeconfig(&file).launch()?, CANNOT_START, &words).await
    })
}

#[test]
fn an_upper_cluster_that_is_away_is_waited_for() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let nobody = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let file = wrong_kubeconfig(&world.upper, "nobody", &format!("http://{nobody}"), None, &User::Anonymous)?;
        waits_for_upper(link(world, "waits").upper_kubeconfig(&file).launch()?).await
    })
}
