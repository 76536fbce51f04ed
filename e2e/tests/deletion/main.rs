// SPDX-License-Identifier: Apache-2.0
//! How pods end: deleted above, vanished below, evicted, preempted, or with their node.

mod controllers;
mod disrupted;
mod grace;
mod vanished;

use e2e::cluster::Cluster;
use e2e::fixture::Pair;
use e2e::kwok::HOLD;
use e2e::pods::with;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The clusters of all tests here. The lower one soon notices that a node is lost; kwok renews leases every 10 s.
async fn pair() -> anyhow::Result<&'static Pair> {
    static SHARED: OnceCell<Pair> = OnceCell::const_new();
    let start = async || {
        let lower = Cluster::builder("lower").controller_manager_args(&["--node-monitor-grace-period=25s"]);
        Pair::start(Cluster::builder("upper"), lower).await
    };
    SHARED.get_or_try_init(start).await
}

/// The pod with an annotation; it goes down with it.
fn annotated(pod: Value, key: &str, value: &str) -> Value {
    with(pod, json!({ "metadata": { "annotations": { key: value } } }))
}

/// The pod whose containers do not end below when it is deleted, until the annotation is taken away there.
fn held(pod: Value) -> Value {
    annotated(pod, HOLD, "")
}

/// The pod that runs only on lower nodes labelled with `key`, and tolerates a taint of the same key.
fn only_on(pod: Value, key: &str) -> Value {
    let stash = json!({
        "nodeSelector": { key: "" },
        "tolerations": [{ "key": key, "operator": "Exists", "effect": "NoSchedule" }],
    });
    annotated(pod, "clusterSelector", &stash.to_string())
}
