// SPDX-License-Identifier: Apache-2.0
//! Logs, exec, attach, cp, port-forward and debug with real kubectl, through a virtual node, on real containers.
//!
//! What the lower cluster answers when it is asked directly is the measure: the pods have the same names below.

mod attach;
mod away;
mod copy;
mod exec;
mod forward;
mod kubectl;
mod logs;
mod refusals;
mod run;
mod straight;
mod terminal;
mod versions;
mod websocket;

use e2e::cluster::Cluster;
use e2e::fixture::RealPair;
use e2e::pods::Pods;
use e2e::real_node;
use serde_json::Value;
use tokio::sync::{OnceCell, RwLock};

use kubectl::{Client, Kubectl};

/// What all tests here share.
struct World {
    pair: RealPair,
    clients: Vec<Client>,
    /// Held by all tests; by those that take an API server away, alone.
    peace: RwLock<()>,
}

/// The one that most tests here share.
async fn world() -> anyhow::Result<&'static World> {
    static SHARED: OnceCell<World> = OnceCell::const_new();
    SHARED.get_or_try_init(|| World::start("1.36", &[("1.36", true), ("1.36", false), ("1.33", true)])).await
}

/// One test's own: a namespace in both clusters, and ways into it.
struct Scene<'a> {
    world: &'a World,
    above: &'a Pods,
}

/// One output of a container alone can be asked for where this is on.
const GATES: &str = "--feature-gates=PodLogsQuerySplitStreams=true";

impl World {
    /// Clusters of this version, and kubectls.
    async fn start(version: &str, clients: &[(&str, bool)]) -> anyhow::Result<Self> {
        let cluster = |name| Cluster::builder(name).version(version).audit(true).apiserver_args(&[GATES]);
        let pair = RealPair::start(cluster("upper"), cluster("lower"), &[]).await?;
        let mut known = Vec::new();
        for (version, websockets) in clients {
            known.push(Client::new(version, *websockets).await?);
        }
        Ok(Self { pair, clients: known, peace: RwLock::default() })
    }
}

impl<'a> Scene<'a> {
    /// Each kubectl, in this test's namespace of the upper cluster.
    fn clients(&self) -> impl Iterator<Item = Kubectl<'a>> {
        let (world, namespace) = (self.world, self.above.namespace());
        world.clients.iter().map(move |client| Kubectl::new(client, &world.pair.upper, namespace))
    }

    /// The first of them, where one is as good as another.
    fn kubectl(&self) -> Kubectl<'a> {
        Kubectl::new(&self.world.clients[0], &self.world.pair.upper, self.above.namespace())
    }

    /// The same kubectl in the lower cluster.
    fn directly(&self) -> Kubectl<'a> {
        Kubectl::new(&self.world.clients[0], &self.world.pair.lower, self.above.namespace())
    }

    /// Runs a pod until it is ready.
    async fn run(&self, pod: &Value) -> anyhow::Result<Value> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        self.above.create(pod).await?;
        self.above.until_ready(name).await
    }

    /// Runs a pod with a shell script until it is ready.
    async fn run_script(&self, name: &str, script: &str) -> anyhow::Result<Value> {
        self.run(&self.world.pair.pod(name, script)).await
    }
}

/// Runs a test in a namespace of its own, beside others.
fn test(name: &str, test: impl AsyncFnOnce(&Scene<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    if !real_node::can_run() {
        return Ok(());
    }
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        within(world, name, test).await
    })
}

/// The same, with no other test beside it.
fn test_alone(name: &str, test: impl AsyncFnOnce(&Scene<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    if !real_node::can_run() {
        return Ok(());
    }
    e2e::run(async {
        let world = world().await?;
        let _alone = world.peace.write().await;
        within(world, name, test).await
    })
}

async fn within(
    world: &World,
    name: &str,
    test: impl AsyncFnOnce(&Scene<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    world.pair.within(name, async |above, _| test(&Scene { world, above }).await).await
}
