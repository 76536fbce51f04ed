// SPDX-License-Identifier: Apache-2.0
//! The clusters that most suites use: one upper, one or two lower ones with simulated nodes or a real one, started once per
//! test binary.

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::cluster::{Builder, Cluster};
use crate::kwok::NodeShape;
use crate::link::Link;
use crate::pods::{Pods, with};
use crate::real_node::{self, RealNode};

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

    /// Runs `test` in a fresh namespace upstairs, with its pods above and below.
    pub async fn within<T>(
        &self,
        name: &str,
        test: impl AsyncFnOnce(&Pods, &Pods) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        within(name, &self.upper, &self.lower, test).await
    }
}

/// One upper and one lower cluster with a real node, and a virtual node between them whose kubelet API the upper API server
/// verifies and reaches. Only root can have it ([`crate::real_node::can_run`]).
pub struct RealPair {
    /// The virtual node.
    pub link: Link,
    /// The only node of the lower cluster.
    pub node: RealNode,
    /// Where users create pods.
    pub upper: Cluster,
    /// Where they run, in real containers.
    pub lower: Cluster,
}

impl RealPair {
    /// Starts all of them; the virtual node is called `link` and has these more arguments.
    pub async fn start(upper: Builder, lower: Builder, args: &[&str]) -> anyhow::Result<Self> {
        let lower = async {
            let lower = lower.start().await?;
            let node = RealNode::start(&lower, "real").await?;
            anyhow::Ok((lower, node))
        };
        let (upper, (lower, node)) = tokio::try_join!(upper.start(), lower)?;
        let link = Link::builder(&upper, &lower, "link").node_ip(&node.address().to_string()).certified()?;
        let link = link.args(args).start().await?;
        Ok(Self { link, node, upper, lower })
    }

    /// A pod for the virtual node with one container `main` that runs a shell script ([`crate::real_node::pod`]).
    pub fn pod(&self, name: &str, script: &str) -> Value {
        let pod = with(self.link.pod(name), real_node::pod(name, script));
        with(pod, json!({ "spec": { "automountServiceAccountToken": false } }))
    }

    /// Runs `test` in a fresh namespace upstairs, with its pods above and below.
    pub async fn within<T>(
        &self,
        name: &str,
        test: impl AsyncFnOnce(&Pods, &Pods) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        within(name, &self.upper, &self.lower, test).await
    }
}

async fn lower(name: &str) -> anyhow::Result<Cluster> {
    let cluster = Cluster::builder(name).audit(true).start().await?;
    cluster.kwok_nodes(NodeShape { count: NODES, ..NodeShape::default() }).await?;
    Ok(cluster)
}

/// Runs `test` in a fresh namespace of `upper` ([`crate::namespace::within`]), with the pods of that namespace above and
/// below.
async fn within<T>(
    name: &str,
    upper: &Cluster,
    lower: &Cluster,
    test: impl AsyncFnOnce(&Pods, &Pods) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    crate::namespace::within(name, upper, &[lower], async |namespace| {
        test(&Pods::of(upper, namespace), &Pods::of(lower, namespace)).await
    })
    .await
}
