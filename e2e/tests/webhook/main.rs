// SPDX-License-Identifier: Apache-2.0
//! The webhook as it ships, called by a real API server: the chart as helm renders it, with two processes for its pods.

mod chart;
mod claims;
mod down;
mod input;
mod rotation;
mod untouched;
mod workloads;

use e2e::cluster::Cluster;
use e2e::fixture::Pair;
use e2e::kwok::NodeShape;
use e2e::pods::with;
use e2e::webhook::Installation;
use k8s_openapi::api::core::v1::Taint;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLock};

/// What all tests here share.
struct World {
    pair: Pair,
    hooks: Installation,
    /// Held by all tests that need the webhook; by those that take it away, alone.
    peace: RwLock<()>,
}

/// Certificates are short-lived, so that everything here happens across their rotation.
const LIFETIME: &str = "12s";
const CA_LIFETIME: &str = "36s";
const REPLICAS: usize = 2;

async fn world() -> anyhow::Result<&'static World> {
    static SHARED: OnceCell<World> = OnceCell::const_new();
    SHARED
        .get_or_try_init(async || {
            let pair = Pair::start(Cluster::builder("upper").audit(true), Cluster::builder("lower")).await?;
            let taint = Taint { key: "dedicated".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
            let ssd = NodeShape {
                name: "ssd".to_owned(),
                labels: [("disk".to_owned(), "ssd".to_owned())].into(),
                taints: vec![taint],
                ..NodeShape::default()
            };
            pair.lower.kwok_nodes(ssd).await?;
            let values = json!({ "certificate": { "lifetime": LIFETIME, "caLifetime": CA_LIFETIME } });
            let hooks = Installation::start(&pair.upper, "tensile", REPLICAS, &values).await?;
            Ok(World { pair, hooks, peace: RwLock::default() })
        })
        .await
}

/// A pod that opts in and fits the virtual node, with constraints that only a lower node can meet.
fn choosy(world: &World, name: &str) -> Value {
    with(
        world.pair.link.pod(name),
        json!({ "metadata": { "labels": { "virtual-pod": "true" } }, "spec": choosy_spec() }),
    )
}

/// The constraints of such a pod: they are met by `lower-ssd-1` alone.
fn choosy_spec() -> Value {
    let provider = json!({ "key": "virtual-kubelet.io/provider", "operator": "Exists" });
    json!({
        "nodeSelector": { "disk": "ssd" },
        "tolerations": [provider, { "key": "dedicated", "operator": "Exists" }],
    })
}

/// The stash of a pod, read.
fn stash(pod: &Value) -> Option<Value> {
    serde_json::from_str(pod["metadata"]["annotations"]["clusterSelector"].as_str()?).ok()
}
