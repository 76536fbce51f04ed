// SPDX-License-Identifier: Apache-2.0
//! Pods on their way down and their status on the way up, with one virtual node between two real clusters.

mod example;
mod namespaces;
mod placement;
mod refusals;
mod status;
mod traces;
mod updates;

use e2e::cluster::Cluster;
use e2e::fixture::Pair;
use e2e::kwok::NodeShape;
use k8s_openapi::api::core::v1::Taint;
use tokio::sync::OnceCell;

/// The clusters of all tests here. The lower one takes no privileged pods, and has a node for `disk=ssd` that wants a
/// toleration of `dedicated`.
async fn pair() -> anyhow::Result<&'static Pair> {
    static SHARED: OnceCell<Pair> = OnceCell::const_new();
    SHARED
        .get_or_try_init(async || {
            let lower = Cluster::builder("lower").apiserver_args(&["--allow-privileged=false"]);
            let pair = Pair::start(Cluster::builder("upper").audit(true), lower).await?;
            let taint = Taint { key: "dedicated".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
            let ssd = NodeShape {
                name: "ssd".to_owned(),
                labels: [("disk".to_owned(), "ssd".to_owned())].into(),
                taints: vec![taint],
                ..NodeShape::default()
            };
            pair.lower.kwok_nodes(ssd).await?;
            Ok(pair)
        })
        .await
}
