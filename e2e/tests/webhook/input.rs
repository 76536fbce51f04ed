// SPDX-License-Identifier: Apache-2.0
//! Bad input: the webhook ends soon, with the promised exit code and one sentence that names what is wrong.

use std::fs;

use anyhow::{Context as _, ensure};
use e2e::kubeconfig::User;
use e2e::pki::Authority;
use e2e::process::Launch;
use e2e::service::{self, CANNOT_START, SECRET, SOON, WRONG_FLAG, fails, says, waits_for_upper};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::world;

/// A webhook on any free port.
fn webhook(name: &str, folder: &TempDir) -> anyhow::Result<Launch> {
    Ok(service::launch("webhook", name, folder.path())?.args([
        "--address=127.0.0.1",
        "--port=0",
        "--metrics-addr=127.0.0.1:0",
    ]))
}

#[test]
fn flags_that_do_not_add_up_are_named() -> anyhow::Result<()> {
    e2e::run(async {
        let folder = tempfile::tempdir()?;
        for (name, flags, words) in [
            ("unknown", ["--no-such-flag"].as_slice(), ["--no-such-flag"].as_slice()),
            ("no-configuration", &[], &["--webhook-configuration is missing", "--tlscert"]),
            ("no-names", &["--webhook-configuration=w"], &["--serving-names is missing"]),
            ("half", &["--tlscert=c"], &["--tlskey is missing"]),
        ] {
            fails(webhook(name, &folder)?.args(flags.iter().copied()), WRONG_FLAG, words).await?;
        }
        Ok(())
    })
}

#[test]
fn files_that_are_no_certificate_are_named() -> anyhow::Result<()> {
    e2e::run(async {
        let folder = tempfile::tempdir()?;
        let authority = Authority::new("ca")?;
        authority.server("webhook", &["127.0.0.1"])?.write(folder.path(), "good")?;
        authority.server("webhook", &["127.0.0.1"])?.write(folder.path(), "other")?;
        fs::write(folder.path().join("garbage"), SECRET)?;
        let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        for (name, cert, key, words) in [
            ("no-cert", "nowhere", "good.key", ["cannot read", "nowhere"]),
            ("no-key", "good.crt", "nowhere", ["cannot read", "nowhere"]),
            ("bad-cert", "garbage", "good.key", ["garbage", "holds no PEM certificate"]),
            ("bad-key", "good.crt", "garbage", ["garbage", "holds no PEM private key"]),
            ("mismatch", "good.crt", "other.key", ["other.key", "does not fit the certificate"]),
        ] {
            let launch = webhook(name, &folder)?.arg("--tlscert").arg(file(cert)).arg("--tlskey").arg(file(key));
            fails(launch, CANNOT_START, &words).await?;
        }
        let launch = webhook("bad-ca", &folder)?.arg("--tlscert").arg(file("good.crt"));
        let launch = launch.arg("--tlskey").arg(file("good.key")).arg("--CA").arg(file("garbage"));
        fails(launch, CANNOT_START, &["garbage", "holds no PEM certificate"]).await
    })
}

/// Arguments of a certificate of its own.
const OWN: [&str; 3] = ["--webhook-configuration=w", "--serving-names=127.0.0.1", "--namespace=default"];

#[test]
fn a_missing_right_is_named_by_verb_and_object() -> anyhow::Result<()> {
    e2e::run(async {
        let (world, folder) = (world().await?, tempfile::tempdir()?);
        let (upper, group) = (&world.pair.upper, "rbac.authorization.k8s.io");
        let name = "tensile-webhook-certificate";
        let role = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": { "name": "rigid" },
            "rules": [
                { "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] },
                { "apiGroups": [""], "resources": ["secrets"], "resourceNames": [name],
                  "verbs": ["get", "list", "watch", "patch"] },
                { "apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"],
                  "resourceNames": ["w"], "verbs": ["get", "list", "watch"] },
            ],
        });
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": "rigid" },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "rigid" },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": "rigid" }],
        });
        upper.apply([&role, &binding], &[]).await?;
        let can = ["auth", "can-i", "create", "secrets", "--as=rigid"];
        e2e::wait::eventually(e2e::pods::PATIENCE, "the role counts", async || upper.kubectl(&can).await).await?;
        let identity = upper.authority().client("rigid", &[])?;
        let kubeconfig = upper.kubeconfig_for("rigid", None, &User::Certificate(&identity))?;
        let launch = webhook("rigid", &folder)?.args(OWN).arg("--kubeconfig").arg(kubeconfig);
        let words = [
            "upper cluster",
            "RBAC does not allow to patch mutatingwebhookconfigurations",
            "missing: patch mutatingwebhookconfigurations.admissionregistration.k8s.io w in all namespaces",
        ];
        fails(launch, CANNOT_START, &words).await
    })
}

#[test]
fn credentials_that_are_not_accepted_are_told_without_the_token() -> anyhow::Result<()> {
    e2e::run(async {
        let (world, folder) = (world().await?, tempfile::tempdir()?);
        let kubeconfig = world.pair.upper.kubeconfig_for("bad-token", None, &User::Token(SECRET))?;
        let launch = webhook("bad-token", &folder)?.args(OWN).arg("--kubeconfig").arg(kubeconfig);
        fails(launch, CANNOT_START, &["upper cluster", "401 Unauthorized"]).await
    })
}

#[test]
fn a_secret_of_somebody_else_is_left_alone_and_told() -> anyhow::Result<()> {
    e2e::run(async {
        let (world, folder) = (world().await?, tempfile::tempdir()?);
        let upper = &world.pair.upper;
        let theirs = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "theirs", "namespace": "default" },
            "stringData": { "password": SECRET },
        });
        upper.apply([&theirs], &[]).await?;
        let launch = webhook("theirs", &folder)?.args(OWN).arg("--certificate-secret=theirs");
        let mut process = launch.arg("--kubeconfig").arg(upper.kubeconfig()).start()?;
        let log = says(&mut process, "Secret default/theirs is not touched").await?;
        ensure!(!log.contains(SECRET), "the secret is told");
        let status = process.terminate(SOON).await.context("it does not end")?;
        ensure!(status.success(), "{status}");
        let data = upper.kubectl(&["get", "secret", "theirs", "--namespace=default", "-o", "jsonpath={.data}"]).await?;
        ensure!(
            String::from_utf8(data.stdout)? == format!("{{\"password\":\"{}\"}}", "dG9wLXNlY3JldC10b2tlbg=="),
            "changed"
        );
        Ok(())
    })
}

#[test]
fn an_upper_cluster_that_is_away_is_waited_for_alive_and_not_ready() -> anyhow::Result<()> {
    e2e::run(async {
        let (world, folder) = (world().await?, tempfile::tempdir()?);
        let nobody = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let server = format!("http://{nobody}");
        let kubeconfig = world.pair.upper.kubeconfig_for("nobody", Some(&server), &User::Anonymous)?;
        waits_for_upper(webhook("waits", &folder)?.args(OWN).arg("--kubeconfig").arg(kubeconfig)).await
    })
}
