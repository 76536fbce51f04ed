// SPDX-License-Identifier: Apache-2.0
//! Events of lower pods on their upper pods, with one virtual node between two real clusters.

mod limits;
mod stories;

use e2e::cluster::Cluster;
use e2e::fixture::Pair;
use e2e::objects::Objects;
use e2e::pods::uid;
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The clusters of all tests here.
async fn pair() -> anyhow::Result<&'static Pair> {
    static SHARED: OnceCell<Pair> = OnceCell::const_new();
    SHARED.get_or_try_init(|| Pair::start(Cluster::builder("upper"), Cluster::builder("lower"))).await
}

fn events(cluster: &Cluster, namespace: &str) -> Objects {
    Objects::within::<Event>(cluster, namespace)
}

/// Chooses the events about the pod with this UID.
fn about(pod: &Value) -> String {
    format!("involvedObject.uid={}", uid(pod))
}

/// An event about a container of `pod`, as a kubelet writes them.
fn told(pod: &Value, reason: &str, message: &str) -> Value {
    let metadata = &pod["metadata"];
    json!({
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"],
            "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "fieldPath": "spec.containers{main}",
        },
        "reason": reason, "message": message, "type": "Warning",
        "source": { "component": "kubelet", "host": "lower-1" },
        "reportingComponent": "kubelet", "reportingInstance": "lower-1",
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1,
    })
}
