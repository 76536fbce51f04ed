// SPDX-License-Identifier: Apache-2.0
//! One upper cluster with the webhook, and two lower ones: `east` is fragmented, `west` has room.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cluster::Cluster;
use crate::kwok::NodeShape;
use crate::link::Link;
use crate::namespace;
use crate::pods::Pods;
use crate::port::Port;
use crate::process::{Launch, Process};
use crate::service;
use crate::webhook::Installation;
use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, RwLock};

/// Label by which a namespace keeps the webhook out.
pub const WITHOUT: &str = "tensile.io/leave-placement=true";
/// Namespace of webhook, exclusions and lease.
pub const OURS: &str = "tensile";
/// CPUs of each of east's nodes; it has so many that the sum seems to be enough.
const FRAGMENT: &str = "2";
const FRAGMENTS: usize = 12;
/// Pods are moved soon.
const POLICY: &str = r"
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: e2e
  pluginConfig:
  - name: DefaultEvictor
    args: {recreateBarePods: true}
  - name: RemovePodsUnschedulableBelow
    args: {minUnschedulableSeconds: 1}
  plugins: {deschedule: {enabled: [RemovePodsUnschedulableBelow]}}
";

/// What all tests here share.
pub struct Lab {
    /// Where users create pods.
    pub upper: Cluster,
    /// East and west.
    pub lowers: [Cluster; 2],
    /// Their virtual nodes.
    pub links: [Link; 2],
    /// The descheduler that most tests count on.
    pub descheduler: Mutex<Process>,
    /// Held by all tests that count on it; by those that have one of their own, alone.
    pub peace: RwLock<()>,
    webhook: Installation,
}

impl Lab {
    /// The one of this test binary.
    pub async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceCell<Lab> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    async fn start() -> anyhow::Result<Self> {
        let east = lower("east", NodeShape { count: FRAGMENTS, cpu: FRAGMENT.to_owned(), ..NodeShape::default() });
        let west = lower("west", NodeShape { count: 2, cpu: "128".to_owned(), ..NodeShape::default() });
        let (upper, east, west) = tokio::try_join!(Cluster::builder("upper").audit(true).start(), east, west)?;
        let links = tokio::try_join!(Link::start(&upper, &east, "east"), Link::start(&upper, &west, "west"))?;
        let webhook = Installation::start(&upper, OURS, 1, &json!({})).await?;
        let descheduler = launch(&upper, "descheduler", ANY_PORT, POLICY)?.start()?;
        Ok(Self {
            upper,
            lowers: [east, west],
            links: links.into(),
            descheduler: Mutex::new(descheduler),
            peace: RwLock::default(),
            webhook,
        })
    }

    /// Runs `test` in a fresh namespace upstairs.
    pub async fn within<T>(&self, name: &str, test: impl AsyncFnOnce(&Pods) -> anyhow::Result<T>) -> anyhow::Result<T> {
        namespace::within(name, &self.upper, &self.lowers.each_ref(), async |namespace| {
            for replica in &self.webhook.replicas {
                replica.process().ensure_running()?;
            }
            test(&Pods::of(&self.upper, namespace)).await
        })
        .await
    }

    /// The pods below, of both clusters, of the namespace of `above`.
    pub fn below(&self, above: &Pods) -> [Pods; 2] {
        self.lowers.each_ref().map(|lower| Pods::of(lower, above.namespace()))
    }

    /// A descheduler of a test's own.
    pub fn launch(&self, name: &str) -> anyhow::Result<Launch> {
        launch(&self.upper, name, ANY_PORT, POLICY)
    }

    /// The same, with its admin server at this port.
    pub fn launch_at(&self, name: &str, admin: &Port) -> anyhow::Result<Launch> {
        launch(&self.upper, name, admin.number(), POLICY)
    }

    /// The same, with this line more in its policy.
    pub fn launch_limited(&self, name: &str, admin: &Port, limit: &str) -> anyhow::Result<Launch> {
        launch(&self.upper, name, admin.number(), &format!("{POLICY}{limit}\n"))
    }

    /// A descheduler without an election, with a policy of these plugins and their arguments, at an extension point
    /// (`deschedule` or `balance`).
    pub fn launch_by(&self, name: &str, point: &str, plugins: &[(&str, Value)]) -> anyhow::Result<Launch> {
        let configured: Vec<Value> = plugins.iter().map(|(name, args)| json!({ "name": name, "args": args })).collect();
        let enabled: Vec<&str> = plugins.iter().map(|(name, _)| *name).collect();
        let policy = json!({
            "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy",
            "profiles": [{
                "name": "e2e", "pluginConfig": configured, "plugins": { point: { "enabled": enabled } },
            }],
        });
        Ok(launch(&self.upper, name, ANY_PORT, &policy.to_string())?.arg("--leader-elect=false"))
    }

    /// Runs `test` while the descheduler of all tests stands still.
    pub async fn alone<T>(&self, name: &str, test: impl AsyncFnOnce(&Pods) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let _alone = self.peace.write().await;
        self.shared_process().kill();
        let result = self.within(name, test).await;
        self.shared_process().restart()?;
        result
    }

    fn shared_process(&self) -> MutexGuard<'_, Process> {
        self.descheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whichever is free.
const ANY_PORT: u16 = 0;

/// Status and body of what an admin server says to `path`.
pub async fn admin(port: &Port, path: &str) -> anyhow::Result<(u16, String)> {
    // Not with kube's client: it would ask again and again while the answer is 503.
    let mut stream = TcpStream::connect(("127.0.0.1", port.number())).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}

/// A descheduler with this policy, which need not be elected.
fn launch(upper: &Cluster, name: &str, admin: u16, policy: &str) -> anyhow::Result<Launch> {
    let path = upper.folder().join(format!("{name}-policy.yaml"));
    std::fs::write(&path, policy)?;
    Ok(service::launch("descheduler", name, upper.folder())?
        .args([format!("--metrics-addr=127.0.0.1:{admin}"), "--log-level=info".to_owned()])
        .args([format!("--identity={name}"), format!("--namespace={OURS}")])
        .arg(format!("--policy-config-file={}", path.display()))
        .arg(format!("--kubeconfig={}", upper.kubeconfig().display())))
}

async fn lower(name: &str, shape: NodeShape) -> anyhow::Result<Cluster> {
    let cluster = Cluster::builder(name).start().await?;
    cluster.kwok_nodes(shape).await?;
    Ok(cluster)
}
