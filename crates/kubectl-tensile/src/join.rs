// SPDX-License-Identifier: Apache-2.0
//! `join`: an identity with few rights in the lower cluster, its kubeconfig in the upper one.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what a command prints is its result, and its progress")]

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tensile_core::names;
use tensile_runtime::clients::{ClientSource, connect, probe};
use tokio::time::{Instant, sleep};

use crate::args::Join;
use crate::cluster::Upper;

/// What a virtual node may do in its lower cluster.
pub const LOWER_RBAC: &str = include_str!("../../../charts/virtual-node/files/lower-rbac.yaml");
/// Namespace and name of account and token there.
const IDENTITY: (&str, &str) = ("tensile", "virtual-node");
/// Who applies what is applied here.
const FIELD_MANAGER: &str = "kubectl-tensile";
/// The token is there within this time, or something is wrong with the lower controller manager.
const TOKEN: Duration = Duration::from_secs(30);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// Joins a lower cluster. Running it again changes nothing that is right already.
pub async fn run(upper: &Upper, join: &Join) -> anyhow::Result<bool> {
    let server = server(join)?;
    let secret = format!("lower-{}", join.node);
    let manifests: Vec<Value> = serde_saphyr::from_multiple(LOWER_RBAC).context("the manifest of this build")?;
    if join.dry_run {
        print!("# In the lower cluster:\n{LOWER_RBAC}");
        println!("# In the upper cluster: Secret {}/{secret}, with a kubeconfig for {server}", join.namespace);
        return Ok(true);
    }
    let source = ClientSource::new("kubectl-plugin", Some(join.lower_kubeconfig.clone()));
    let lower = connect(&source.context(join.lower_context.clone())).await.context("lower cluster")?;
    let version = probe(&lower).await.context("lower cluster")?;
    eprintln!("lower cluster: {} at {server}", version.git_version);
    for manifest in &manifests {
        apply(&lower, manifest).await.context("lower cluster")?;
    }
    eprintln!("lower cluster: identity {}/{} is there", IDENTITY.0, IDENTITY.1);
    let (ca, token) = token(&lower).await?;
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": join.namespace } });
    apply(&upper.client, &namespace).await.context("upper cluster")?;
    let kubeconfig = ByteString(kubeconfig(&server, &ca, &token).to_string().into_bytes());
    let kept = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": secret, "namespace": join.namespace,
            "labels": { names::VIRTUAL_NODE: names::label_value(&join.node) },
        },
        "data": { "kubeconfig": kubeconfig },
    });
    apply(&upper.client, &kept).await.context("upper cluster")?;
    eprintln!("upper cluster: Secret {}/{secret} is there", join.namespace);
    println!(
        "helm install {} charts/virtual-node --namespace {} --set lower.existingSecret={secret}",
        join.node, join.namespace
    );
    Ok(true)
}

/// Where the virtual node will reach the lower API server.
fn server(join: &Join) -> anyhow::Result<String> {
    if let Some(server) = &join.lower_server {
        return Ok(server.clone());
    }
    let path = join.lower_kubeconfig.display();
    let config = Kubeconfig::read_from(&join.lower_kubeconfig).with_context(|| format!("kubeconfig {path}"))?;
    let name =
        join.lower_context.clone().or(config.current_context).context("the kubeconfig has no current-context")?;
    let context = config.contexts.iter().find(|context| context.name == name);
    let context = context.and_then(|context| context.context.as_ref());
    let cluster = context.and_then(|context| config.clusters.iter().find(|cluster| cluster.name == context.cluster));
    let server = cluster.and_then(|cluster| cluster.cluster.as_ref()?.server.clone());
    let server = server.with_context(|| format!("context {name} of kubeconfig {path} has no server"))?;
    if ["//127.", "//localhost", "//[::1]"].iter().any(|local| server.contains(local)) {
        eprintln!("{server} is this machine: a virtual node elsewhere does not reach it. --lower-server gives another");
    }
    Ok(server)
}

/// Applies an object as it is. An object of somebody else's with the same fields is not taken from them.
async fn apply(client: &Client, manifest: &Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(manifest.clone())?;
    let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    let resource = match kind.as_str() {
        "Namespace" => ApiResource::erase::<Namespace>(&()),
        "ServiceAccount" => ApiResource::erase::<ServiceAccount>(&()),
        "Secret" => ApiResource::erase::<Secret>(&()),
        "ClusterRole" => ApiResource::erase::<ClusterRole>(&()),
        "ClusterRoleBinding" => ApiResource::erase::<ClusterRoleBinding>(&()),
        _ => bail!("{kind} is not among what this command makes"),
    };
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object.name_any();
    let applied = api.patch(&name, &PatchParams::apply(FIELD_MANAGER), &Patch::Apply(manifest)).await;
    applied.with_context(|| format!("cannot apply {kind} {name}"))?;
    Ok(())
}

/// CA and token of the identity, once the lower control plane has made them.
async fn token(lower: &Client) -> anyhow::Result<(ByteString, String)> {
    let secrets: Api<Secret> = Api::namespaced(lower.clone(), IDENTITY.0);
    let deadline = Instant::now() + TOKEN;
    loop {
        let data = secrets.get(IDENTITY.1).await.context("cannot read the token")?.data.unwrap_or_default();
        if let (Some(ca), Some(token)) = (data.get("ca.crt"), data.get("token")) {
            return Ok((ca.clone(), String::from_utf8(token.0.clone()).context("the token is no text")?));
        }
        if Instant::now() > deadline {
            bail!(
                "Secret {}/{} of the lower cluster got no token within {} s: does its controller manager run?",
                IDENTITY.0,
                IDENTITY.1,
                TOKEN.as_secs()
            );
        }
        sleep(LOOK).await;
    }
}

/// A kubeconfig, as JSON, which is YAML too.
fn kubeconfig(server: &str, ca: &ByteString, token: &str) -> Value {
    let named = |name: &str, what: &str, value: Value| json!([BTreeMap::from([("name", json!(name)), (what, value)])]);
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "lower",
        "clusters": named("lower", "cluster", json!({ "server": server, "certificate-authority-data": ca })),
        "users": named("virtual-node", "user", json!({ "token": token })),
        "contexts": named("lower", "context", json!({ "cluster": "lower", "user": "virtual-node" })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubeconfig_is_one_that_kubectl_reads() {
        let text = kubeconfig("https://lower:6443", &ByteString(b"pem".to_vec()), "t").to_string();
        let config = Kubeconfig::from_yaml(&text).unwrap();
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://lower:6443"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("cGVt"));
        assert_eq!(config.contexts[0].context.as_ref().unwrap().cluster, "lower");
    }
}
