// SPDX-License-Identifier: Apache-2.0
//! Services that go down with pods, with virtual nodes between real clusters; and what is left when a virtual node leaves.

mod cleanup;
mod dual_stack;
mod joined;
mod real;
mod separate;

use anyhow::ensure;
use e2e::cluster::Cluster;
use e2e::fixture::Pair;
use e2e::objects::Objects;
use e2e::pods::{PATIENCE, with};
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The clusters of all tests here.
async fn pair() -> anyhow::Result<&'static Pair> {
    static SHARED: OnceCell<Pair> = OnceCell::const_new();
    SHARED.get_or_try_init(|| Pair::start(Cluster::builder("upper"), Cluster::builder("lower"))).await
}

fn services(cluster: &Cluster, namespace: &str) -> Objects {
    Objects::within::<Service>(cluster, namespace)
}

fn slices(cluster: &Cluster, namespace: &str) -> Objects {
    Objects::within::<EndpointSlice>(cluster, namespace)
}

/// A Service of pods with label `app=web`.
fn web() -> Value {
    json!({ "spec": { "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] } })
}

/// `pod` with that label.
fn labelled(pod: Value) -> Value {
    with(pod, json!({ "metadata": { "labels": { "app": "web" } } }))
}

/// Waits until the slices of a Service in this cluster name exactly these addresses.
async fn until_leads_to(cluster: &Cluster, namespace: &str, service: &str, expected: &[&str]) -> anyhow::Result<()> {
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    eventually(PATIENCE, &format!("Service {namespace}/{service} leads to {expected:?}"), async || {
        let found = addresses(cluster, namespace, service).await?;
        ensure!(found == expected, "{found:?} instead of {expected:?}");
        Ok(())
    })
    .await
}

/// The addresses of a Service's slices in this cluster, in order.
async fn addresses(cluster: &Cluster, namespace: &str, service: &str) -> anyhow::Result<Vec<String>> {
    let of_service = format!("kubernetes.io/service-name={service}");
    let slices = slices(cluster, namespace).list("", &of_service).await?;
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let mut addresses: Vec<String> =
        endpoints.filter_map(|endpoint| endpoint["addresses"][0].as_str().map(str::to_owned)).collect();
    addresses.sort_unstable();
    Ok(addresses)
}
