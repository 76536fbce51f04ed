// SPDX-License-Identifier: Apache-2.0
//! Who pods are below: tokens of their upper service accounts, and what else of their own cluster they find there.

mod lives;
#[path = "../objects/objects.rs"]
mod objects;
mod real;
mod rights;
mod tokens;

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::fixture::Pair;
use e2e::pods::Pods;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use objects::Objects;

/// The clusters of all tests here but the real ones.
async fn pair() -> anyhow::Result<&'static Pair> {
    static SHARED: OnceCell<Pair> = OnceCell::const_new();
    let builder = |name| Cluster::builder(name).audit(true);
    SHARED.get_or_try_init(|| Pair::start(builder("upper"), builder("lower"))).await
}

/// The pod with one more volume, which projects a token for this audience, as file `token`.
fn projecting(mut pod: Value, audience: &str, seconds: u64) -> Value {
    let source = json!({ "audience": audience, "expirationSeconds": seconds, "path": "token" });
    pod["spec"]["volumes"] =
        json!([{ "name": "extra", "projected": { "sources": [{ "serviceAccountToken": source }] } }]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "extra", "mountPath": "/extra" }]);
    pod
}

/// Name of the Secret with the tokens of a lower pod.
fn secret_name(lower: &Value) -> anyhow::Result<String> {
    let noted = lower["metadata"]["annotations"]["tensile.io/tokens"].as_str().context("it has no tokens")?;
    let noted: Value = serde_json::from_str(noted)?;
    Ok(noted["secret"].as_str().context("no name")?.to_owned())
}

/// Waits for the Secret of a pod that is there below.
async fn secret_of(cluster: &Cluster, below: &Pods, pod: &str) -> anyhow::Result<Value> {
    let name = secret_name(&below.get(pod).await?)?;
    Objects::secrets(cluster, below.namespace()).until(&name, "is there", |_| true).await
}

/// A token in a Secret.
fn token(secret: &Value, key: &str) -> anyhow::Result<String> {
    let bytes: ByteString = serde_json::from_value(secret["data"][key].clone()).with_context(|| key.to_owned())?;
    Ok(String::from_utf8(bytes.0)?)
}

/// What a token says (RFC 7519).
fn claims(token: &str) -> anyhow::Result<Value> {
    let payload = token.split('.').nth(1).context("no JWT")?;
    let mut base64 = payload.replace('-', "+").replace('_', "/");
    while base64.len() % 4 != 0 {
        base64.push('=');
    }
    let bytes: ByteString = serde_json::from_value(json!(base64))?;
    Ok(serde_json::from_slice(&bytes.0)?)
}

/// Says on the Secret that all its tokens have run out.
async fn expire(secrets: &Objects, secret: &Value) -> anyhow::Result<()> {
    let noted = secret["metadata"]["annotations"]["tensile.io/tokens"].as_str().context("no note")?;
    let mut lives: Value = serde_json::from_str(noted)?;
    for life in lives.as_object_mut().context("no object")?.values_mut() {
        life["expires"] = json!("2026-01-01T00:00:00Z");
    }
    let name = secret["metadata"]["name"].as_str().context("no name")?;
    secrets.merge(name, json!({ "metadata": { "annotations": { "tensile.io/tokens": lives.to_string() } } })).await
}

/// Fails when a token shows in `text`.
fn ensure_absent(token: &str, text: &str, what: &str) -> anyhow::Result<()> {
    let encoded = serde_json::to_value(ByteString(token.as_bytes().to_vec()))?;
    let shown = text.contains(token) || encoded.as_str().is_some_and(|encoded| text.contains(encoded));
    ensure!(!shown, "{what} shows a token");
    Ok(())
}
