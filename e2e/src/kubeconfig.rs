// SPDX-License-Identifier: Apache-2.0
//! Kubeconfig files. They are JSON, which is YAML too, and hold everything inside, so that they can be copied.

use std::path::Path;

use anyhow::Context as _;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::pki::Identity;

/// Who the client is.
#[derive(Clone, Debug)]
pub enum User<'a> {
    /// A client certificate.
    Certificate(&'a Identity),
    /// A bearer token, as of a service account.
    Token(&'a str),
    /// Nobody: to go through a proxy that authenticates.
    Anonymous,
}

/// A kubeconfig for one server and one user; `ca` is the PEM of the server's authority (none for plain HTTP).
pub fn kubeconfig(name: &str, server: &str, ca: Option<&str>, user: &User<'_>) -> Value {
    let base64 = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
    let mut cluster = json!({ "server": server });
    if let Some(ca) = ca {
        cluster["certificate-authority-data"] = base64(ca);
    }
    let user = match user {
        User::Certificate(identity) => json!({
            "client-certificate-data": base64(&identity.certificate),
            "client-key-data": base64(&identity.key),
        }),
        User::Token(token) => json!({ "token": token }),
        User::Anonymous => json!({}),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": cluster }],
        "users": [{ "name": name, "user": user }],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
        "current-context": name,
    })
}

/// Writes it to `path`.
pub fn write(path: &Path, kubeconfig: &Value) -> anyhow::Result<()> {
    std::fs::write(path, format!("{kubeconfig:#}\n")).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_base64_and_the_context_ties_cluster_and_user() {
        let config = kubeconfig("up", "https://127.0.0.1:1", Some("PEM"), &User::Token("t"));
        assert_eq!(config["clusters"][0]["cluster"]["certificate-authority-data"], "UEVN");
        assert_eq!(config["users"][0]["user"]["token"], "t");
        assert_eq!(config["contexts"][0]["context"], json!({ "cluster": "up", "user": "up" }));
    }
}
