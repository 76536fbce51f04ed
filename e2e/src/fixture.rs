//! The clusters that most suites use: one upper, one or two lower ones with simulated nodes, started once per test
//! binary.

use tokio::sync::OnceCell;

use crate::cluster::{Builder, Cluster};
use crate::kwok::NodeShape;
use crate::link::Link;
use crate::pods::Pods;

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

/// One upper and one lower cluster, with a virtual node between them.
pub struct Pair {
    /// Where users create pods.
    pub upper: Cluster,
    /// Where they run; it has simulated nodes.
    pub lower: Cluster,
    /// The virtual node.
    pub link: Link,
}

impl Pair {
    /// Starts all three; the virtual node is called `link`.
    pub async fn start(upper: Builder, lower: Builder) -> anyhow::Result<Self> {
        let lower = async {
            let lower = lower.start().await?;
            lower.kwok_nodes(NodeShape { count: NODES, ..NodeShape::default() }).await?;
            anyhow::Ok(lower)
        };
        let (upper, lower) = tokio::try_join!(upper.start(), lower)?;
        let link = Link::start(&upper, &lower, "link").await?;
        Ok(Self { upper, lower, link })
    }

    /// Runs `test` in a fresh namespace upstairs ([`crate::namespace::within`]), with the pods of that namespace above
    /// and below.
    pub async fn within<T>(
        &self,
        name: &str,
        test: impl AsyncFnOnce(&Pods, &Pods) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        crate::namespace::within(name, &self.upper, &[&self.lower], async |namespace| {
            test(&Pods::of(&self.upper, namespace), &Pods::of(&self.lower, namespace)).await
        })
        .await
    }
}

async fn lower(name: &str) -> anyhow::Result<Cluster> {
    let cluster = Cluster::builder(name).audit(true).start().await?;
    cluster.kwok_nodes(NodeShape { count: NODES, ..NodeShape::default() }).await?;
    Ok(cluster)
}
