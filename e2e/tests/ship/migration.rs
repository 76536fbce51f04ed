// SPDX-License-Identifier: Apache-2.0
//! Coming from tensile-kube: the command line of its manifest, as the docs show it, starts a virtual node that runs its pods.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::kwok::NodeShape;
use e2e::pods::{PATIENCE, Pods};
use e2e::port::Port;
use e2e::service;
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::json;
use tensile_testkit::shipped::repository;

/// The name that the manifest gives the node.
const NODE: &str = "virtual-kubelet";

/// Environment and arguments of the manifest, from the page that shows them.
fn manifest() -> anyhow::Result<(BTreeMap<String, String>, Vec<String>)> {
    let page = fs::read_to_string(repository("docs/src/migration.md"))?;
    let block = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).context("no such block")?;
    let (args, variables): (Vec<&str>, Vec<&str>) = block.lines().partition(|line| line.starts_with("--"));
    let variables = variables.iter().filter_map(|line| line.split_once('='));
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok((variables.collect(), args.into_iter().map(str::to_owned).collect()))
}

#[test]
fn the_command_line_of_tensile_kubes_manifest_runs_a_pod_that_its_webhook_annotated() -> anyhow::Result<()> {
    e2e::run(async {
        let (upper, lower) = tokio::try_join!(Cluster::builder("upper").start(), async {
            let lower = Cluster::builder("lower").start().await?;
            lower.kwok_nodes(NodeShape { count: 2, ..NodeShape::default() }).await?;
            anyhow::Ok(lower)
        })?;
        let certificate = upper.authority().server(&format!("system:node:{NODE}"), &["192.0.2.7"])?;
        certificate.write(upper.folder(), "kubelet")?;
        fs::write(upper.folder().join("ca.pem"), upper.authority().identity().certificate)?;
        // Where the manifest's volumes would be, and ports that are free here.
        let here = |file: &str| upper.folder().join(file).display().to_string();
        let metrics = Port::reserve()?;
        let (variables, args) = manifest()?;
        ensure!(variables.len() == 6 && args.len() == 11, "{variables:?} {args:?}");
        let mut launch = service::launch("virtual-node", NODE, upper.folder())?;
        for (name, value) in variables {
            let value = match name.as_str() {
                "KUBELET_PORT" => "0".to_owned(),
                "APISERVER_CERT_LOCATION" => here("kubelet.crt"),
                "APISERVER_KEY_LOCATION" => here("kubelet.key"),
                "APISERVER_CA_CERT_LOCATION" => here("ca.pem"),
                _ => value,
            };
            launch = launch.env(name, value);
        }
        for arg in args {
            let arg = match arg.split_once('=') {
                Some((flag @ "--client-kubeconfig", _)) => format!("{flag}={}", lower.kubeconfig().display()),
                Some((flag @ "--metrics-addr", _)) => format!("{flag}=127.0.0.1:{}", metrics.number()),
                _ => arg,
            };
            launch = launch.arg(arg);
        }
        let mut process = launch.env("KUBECONFIG", upper.kubeconfig()).start()?;
        let nodes: Api<Node> = Api::all(upper.client());
        let node = eventually(PATIENCE, "the node is there", async || {
            process.ensure_running()?;
            Ok(nodes.get(NODE).await?)
        })
        .await?;
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        ensure!(!taints.iter().any(|taint| taint.key == "virtual-kubelet.io/provider"), "{taints:?}");

        let (above, below) = (Pods::of(&upper, "default"), Pods::of(&lower, "default"));
        let stash = json!({ "tolerations": [{ "key": "example.org/kept", "operator": "Exists" }] });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "old", "labels": { "virtual-pod": "true" }, "annotations": { "clusterSelector": stash.to_string() },
            },
            "spec": {
                "automountServiceAccountToken": false, "nodeSelector": { "clusterID": NODE },
                "containers": [{ "name": "main", "image": "example.org/app:1" }],
            },
        });
        above.create(&pod).await?;
        above.until_ready("old").await?;
        let lower_pod = below.get("old").await?;
        let tolerations = lower_pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        ensure!(tolerations.iter().any(|one| one["key"] == "example.org/kept"), "{lower_pod}");
        Ok(())
    })
}
