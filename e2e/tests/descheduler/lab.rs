//! One upper cluster with the webhook, and two lower ones: `east` is fragmented, `west` has room.

use std::sync::Mutex;

use e2e::cluster::Cluster;
use e2e::kwok::NodeShape;
use e2e::link::Link;
use e2e::namespace;
use e2e::pods::Pods;
use e2e::process::{Launch, Process};
use e2e::service;
use e2e::webhook::Installation;
use serde_json::json;
use tokio::sync::{OnceCell, RwLock};

/// Label by which a namespace keeps the webhook out.
pub(crate) const WITHOUT: &str = "tensile.io/leave-placement=true";
/// Namespace of webhook, exclusions and lease.
pub(crate) const OURS: &str = "tensile";
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
  - name: RemovePodsUnschedulableBelow
    args: {minUnschedulableSeconds: 1}
  plugins: {deschedule: {enabled: [RemovePodsUnschedulableBelow]}}
";

/// What all tests here share.
pub(crate) struct Lab {
    /// Where users create pods.
    pub(crate) upper: Cluster,
    /// East and west.
    pub(crate) lowers: [Cluster; 2],
    /// The descheduler that most tests count on.
    pub(crate) descheduler: Mutex<Process>,
    /// Held by all tests that count on it; by those that have one of their own, alone.
    pub(crate) peace: RwLock<()>,
    _links: [Link; 2],
    webhook: Installation,
}

impl Lab {
    /// The one of this test binary.
    pub(crate) async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceCell<Lab> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    async fn start() -> anyhow::Result<Self> {
        let east = lower("east", NodeShape { count: FRAGMENTS, cpu: FRAGMENT.to_owned(), ..NodeShape::default() });
        let west = lower("west", NodeShape { count: 2, cpu: "128".to_owned(), ..NodeShape::default() });
        let (upper, east, west) = tokio::try_join!(Cluster::builder("upper").audit(true).start(), east, west)?;
        let links = tokio::try_join!(Link::start(&upper, &east, "east"), Link::start(&upper, &west, "west"))?;
        let webhook = Installation::start(&upper, OURS, 1, &json!({})).await?;
        std::fs::write(upper.folder().join("policy.yaml"), POLICY)?;
        let descheduler = launch(&upper, "descheduler")?.start()?;
        Ok(Self {
            upper,
            lowers: [east, west],
            descheduler: Mutex::new(descheduler),
            peace: RwLock::default(),
            _links: links.into(),
            webhook,
        })
    }

    /// Runs `test` in a fresh namespace upstairs.
    pub(crate) async fn within<T>(
        &self,
        name: &str,
        test: impl AsyncFnOnce(&Pods) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        namespace::within(name, &self.upper, &self.lowers.each_ref(), async |namespace| {
            for replica in &self.webhook.replicas {
                replica.process().ensure_running()?;
            }
            test(&Pods::of(&self.upper, namespace)).await
        })
        .await
    }

    /// The pods below, of both clusters, of the namespace of `above`.
    pub(crate) fn below(&self, above: &Pods) -> [Pods; 2] {
        self.lowers.each_ref().map(|lower| Pods::of(lower, above.namespace()))
    }

    /// A descheduler of a test's own.
    pub(crate) fn launch(&self, name: &str) -> anyhow::Result<Launch> {
        launch(&self.upper, name)
    }
}

/// A descheduler with the policy of all tests here, which need not be elected.
fn launch(upper: &Cluster, name: &str) -> anyhow::Result<Launch> {
    let file = |name: &str| upper.folder().join(name).to_string_lossy().into_owned();
    Ok(service::launch("descheduler", name, upper.folder())?
        .args(["--metrics-addr=127.0.0.1:0", "--log-level=info"])
        .args([format!("--identity={name}"), format!("--namespace={OURS}")])
        .arg(format!("--policy-config-file={}", file("policy.yaml")))
        .arg(format!("--kubeconfig={}", upper.kubeconfig().display())))
}

async fn lower(name: &str, shape: NodeShape) -> anyhow::Result<Cluster> {
    let cluster = Cluster::builder(name).start().await?;
    cluster.kwok_nodes(shape).await?;
    Ok(cluster)
}
