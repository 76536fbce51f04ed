// SPDX-License-Identifier: Apache-2.0
//! Claims that pods bring along, and their volumes, with virtual nodes between real clusters.

mod carried;
mod claims;
mod containers;
mod lives;

use e2e::cluster::Cluster;
use e2e::fixture::Pair;
use e2e::objects::Objects;
use e2e::pods::{Pods, with};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The clusters of most tests here.
async fn pair() -> anyhow::Result<&'static Pair> {
    static SHARED: OnceCell<Pair> = OnceCell::const_new();
    SHARED.get_or_try_init(|| Pair::start(Cluster::builder("upper"), Cluster::builder("lower"))).await
}

/// One side of a test: everything about storage in one namespace of one cluster.
struct Side {
    claims: Objects,
    volumes: Objects,
    classes: Objects,
}

impl Side {
    fn of(cluster: &Cluster, pods: &Pods) -> Self {
        Self {
            claims: Objects::within::<PersistentVolumeClaim>(cluster, pods.namespace()),
            volumes: Objects::all::<PersistentVolume>(cluster),
            classes: Objects::all::<StorageClass>(cluster),
        }
    }

    /// A class for lower clusters. Its name is that of the test's namespace, as all that has no namespace.
    async fn class(&self, name: &str, more: Value) -> anyhow::Result<()> {
        let class = json!({ "provisioner": "volumes.tensile.io", "volumeBindingMode": "WaitForFirstConsumer" });
        self.classes.create(name, with(class, more)).await.map(drop)
    }

    /// A volume that was there before: 2 GiB of a path, or what `more` says.
    async fn volume(&self, name: &str, class: &str, more: Value) -> anyhow::Result<Value> {
        let volume = json!({ "spec": {
            "capacity": { "storage": "2Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain",
        } });
        let mut volume = with(volume, more);
        if ["csi", "local", "hostPath"].iter().all(|source| volume["spec"].get(source).is_none()) {
            volume = with(volume, json!({ "spec": { "hostPath": { "path": "/data" } } }));
        }
        self.volumes.create(name, volume).await
    }

    /// A claim of 1 GiB.
    async fn claim(&self, name: &str, class: &str, more: Value) -> anyhow::Result<Value> {
        let claim = json!({ "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": { "requests": { "storage": "1Gi" } },
        } });
        self.claims.create(name, with(claim, more)).await
    }

    async fn until_bound(&self, name: &str) -> anyhow::Result<Value> {
        self.claims.until(name, "is bound", |claim| claim["status"]["phase"] == "Bound").await
    }
}

/// `pod` with a volume of this claim.
fn using(pod: Value, claim: &str) -> Value {
    with(pod, json!({ "spec": { "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }] } }))
}
