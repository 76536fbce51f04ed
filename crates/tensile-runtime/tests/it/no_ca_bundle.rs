// SPDX-License-Identifier: Apache-2.0
//! A machine without any CA bundle, as a `scratch` image is one. Played by a child process, because the bundle is looked
//! up through the process' environment.

use std::process::Command;

use tensile_runtime::clients::{ClientSource, connect};

/// Set in the child, which then does what the test is about.
const CHILD: &str = "TENSILE_TEST_WITHOUT_CA_BUNDLE";

/// Runs test `name` of this binary again, in a process that finds no CA bundle; whether this is that process.
fn without_bundle(name: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .env("SSL_CERT_FILE", "/dev/null")
        .env("SSL_CERT_DIR", "/nonexistent")
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    assert!(String::from_utf8_lossy(&child.stdout).contains("1 passed"), "the child ran no test");
    false
}

async fn connected(server: &str) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: c, cluster: {{server: '{server}'}}}}]\ncontexts: [{{name: a, context: {{cluster: c}}}}]\n"
    );
    std::fs::write(&path, kubeconfig).unwrap();
    let made = connect(&ClientSource::new("virtual-node", Some(path))).await;
    made.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn an_http_address_needs_none() {
    if without_bundle("no_ca_bundle::an_http_address_needs_none") {
        assert_eq!(connected("http://127.0.0.1:1").await, Ok(()));
    }
}

#[tokio::test]
async fn an_https_address_without_a_ca_of_its_own_says_what_is_missing() {
    if without_bundle("no_ca_bundle::an_https_address_without_a_ca_of_its_own_says_what_is_missing") {
        let error = connected("https://127.0.0.1:1").await.unwrap_err();
        assert!(
            error.ends_with(
                "it names no certificate-authority, and this machine has no CA bundle to check the server with"
            ),
            "{error}"
        );
    }
}
