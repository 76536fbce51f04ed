// SPDX-License-Identifier: Apache-2.0
//! What goes wrong between a virtual node and its API servers, while it works and at its start.

mod faults;
mod input;

use e2e::cluster::Cluster;
use e2e::kwok::NodeShape;
use tokio::sync::OnceCell;

/// One upper and one lower cluster.
struct World {
    upper: Cluster,
    lower: Cluster,
}

/// The one that all tests here share.
async fn world() -> anyhow::Result<&'static World> {
    static SHARED: OnceCell<World> = OnceCell::const_new();
    let start = async || {
        let lower = async {
            let lower = Cluster::builder("lower").start().await?;
            lower.kwok_nodes(NodeShape { count: 3, ..NodeShape::default() }).await?;
            anyhow::Ok(lower)
        };
        let (upper, lower) = tokio::try_join!(Cluster::builder("upper").start(), lower)?;
        Ok(World { upper, lower })
    };
    SHARED.get_or_try_init(start).await
}
