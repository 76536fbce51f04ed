// SPDX-License-Identifier: Apache-2.0
//! Virtual nodes that are killed, and those around them: neighbours on the same lower cluster, API servers that go away.

mod away;
mod burst;
mod capacity;
mod neighbours;
mod node;

use e2e::cluster::Cluster;
use e2e::kwok::NodeShape;
use e2e::link::Link;
use e2e::namespace;
use e2e::pods::Pods;
use tokio::sync::{OnceCell, RwLock};

/// Two upper clusters on one lower cluster.
struct World {
    upper: Cluster,
    neighbour: Cluster,
    lower: Cluster,
    /// Held by all tests; by those that take an API server away, alone.
    peace: RwLock<()>,
}

/// The one that all tests here share.
async fn world() -> anyhow::Result<&'static World> {
    static SHARED: OnceCell<World> = OnceCell::const_new();
    SHARED.get_or_try_init(World::start).await
}

impl World {
    async fn start() -> anyhow::Result<Self> {
        let lower = async {
            let lower = Cluster::builder("lower").audit(true).start().await?;
            lower.kwok_nodes(NodeShape { count: 3, ..NodeShape::default() }).await?;
            anyhow::Ok(lower)
        };
        // It soon notices that a node is lost; leases are renewed every 10 s.
        let grace = "--node-monitor-grace-period=25s";
        let upper = Cluster::builder("upper").audit(true).controller_manager_args(&[grace]).start();
        let neighbour = Cluster::builder("neighbour").start();
        let (upper, neighbour, lower) = tokio::try_join!(upper, neighbour, lower)?;
        Ok(Self { upper, neighbour, lower, peace: RwLock::default() })
    }

    /// Runs `test` in a fresh namespace upstairs, with the pods of that namespace above and below.
    async fn within(
        &self,
        name: &str,
        test: impl AsyncFnOnce(&Pods, &Pods) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        namespace::within(name, &self.upper, &[&self.lower], async |namespace| {
            test(&Pods::of(&self.upper, namespace), &Pods::of(&self.lower, namespace)).await
        })
        .await
    }

    /// The same, with a virtual node of this name.
    async fn with_link(
        &self,
        name: &str,
        test: impl AsyncFnOnce(&Link, &Pods, &Pods) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let link = Link::start(&self.upper, &self.lower, name).await?;
        self.within(name, async |above, below| test(&link, above, below).await).await
    }
}
