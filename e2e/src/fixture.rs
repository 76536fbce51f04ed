//! The clusters that most suites use: one upper, two lower ones with simulated nodes, started once per test binary.

use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::kwok::NodeShape;

/// One upper and two lower clusters.
pub struct Fixture {
    /// Where users create pods.
    pub upper: Cluster,
    /// Where they run; each has simulated nodes.
    pub lowers: [Cluster; 2],
}

/// How many simulated nodes each lower cluster has.
const NODES: usize = 3;

impl Fixture {
    /// The one that all tests of this binary share. It lives until the process ends; the reaper ends it.
    pub async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceCell<Fixture> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// One of its own, for tests that break clusters.
    pub async fn start() -> anyhow::Result<Self> {
        let (upper, one, two) =
            tokio::try_join!(Cluster::builder("upper").audit(true).start(), lower("lower-a"), lower("lower-b"),)?;
        Ok(Self { upper, lowers: [one, two] })
    }

    /// Runs `test` in a fresh namespace upstairs ([`crate::namespace::within`]).
    pub async fn within<T>(&self, name: &str, test: impl AsyncFnOnce(&str) -> anyhow::Result<T>) -> anyhow::Result<T> {
        crate::namespace::within(name, &self.upper, &self.lowers.each_ref(), test).await
    }
}

async fn lower(name: &str) -> anyhow::Result<Cluster> {
    let cluster = Cluster::builder(name).audit(true).start().await?;
    cluster.kwok_nodes(NodeShape { count: NODES, ..NodeShape::default() }).await?;
    Ok(cluster)
}
