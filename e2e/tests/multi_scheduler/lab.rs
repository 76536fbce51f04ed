// SPDX-License-Identifier: Apache-2.0
//! One upper and two lower clusters: `east` is many small nodes, `west` a few large ones, and the sum of both is the same.

use e2e::cluster::Cluster;
use e2e::kwok::NodeShape;
use e2e::link::Link;
use e2e::multi_scheduler::{MultiScheduler, SCHEDULER, send};
use e2e::namespace;
use e2e::pods::{Pods, condition, with};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};

/// What all tests here share.
pub(crate) struct Lab {
    /// Where users create pods. Its own scheduler knows nothing of lower clusters.
    pub(crate) upper: Cluster,
    /// East has 80 nodes of 0.1 CPU, west two of 4 CPUs.
    pub(crate) lowers: [Cluster; 2],
    /// The multi-scheduler, and the scheduler that asks it.
    pub(crate) multi: MultiScheduler,
    /// Held by tests that count on all of both clusters.
    pub(crate) peace: Mutex<()>,
    _links: [Link; 2],
}

/// East's nodes, and the CPUs of each.
pub(crate) const FRAGMENTS: usize = 80;
const FRAGMENT: &str = "100m";

impl Lab {
    /// The one of this test binary.
    pub(crate) async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceCell<Lab> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    async fn start() -> anyhow::Result<Self> {
        let shape = |count, cpu: &str| NodeShape { count, cpu: cpu.to_owned(), ..NodeShape::default() };
        let (upper, east, west) = tokio::try_join!(
            Cluster::builder("upper").audit(true).start(),
            lower("east", shape(FRAGMENTS, FRAGMENT)),
            lower("west", shape(2, "4")),
        )?;
        let links = tokio::try_join!(Link::start(&upper, &east, "east"), Link::start(&upper, &west, "west"))?;
        let multi = MultiScheduler::builder(&upper)
            .args(&["--exclusions-namespace=default", "--stale-after=10s"])
            .start(&[&east, &west])
            .await?;
        Ok(Self { upper, lowers: [east, west], multi, peace: Mutex::default(), _links: links.into() })
    }

    /// Nothing is kept any more for the pod that was only shown.
    pub(crate) async fn forget_shown(&self) -> anyhow::Result<()> {
        filter(&self.multi, shown(pod("gone", json!({})), "default"), &[]).await.map(drop)
    }

    /// Runs `test` in a fresh namespace upstairs.
    pub(crate) async fn within<T>(
        &self,
        name: &str,
        test: impl AsyncFnOnce(&Pods) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        namespace::within(name, &self.upper, &self.lowers.each_ref(), async |namespace| {
            self.multi.process().ensure_running()?;
            test(&Pods::of(&self.upper, namespace)).await
        })
        .await
    }
}

pub(crate) async fn lower(name: &str, shape: NodeShape) -> anyhow::Result<Cluster> {
    let cluster = Cluster::builder(name).start().await?;
    cluster.kwok_nodes(shape).await?;
    Ok(cluster)
}

/// A pod for any virtual node, to be placed with the multi-scheduler, that asks for these resources.
#[allow(clippy::needless_pass_by_value, reason = "made for the call")]
pub(crate) fn pod(name: &str, requests: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{ "key": "virtual-kubelet.io/provider", "operator": "Exists" }],
            "containers": [{
                "name": "main",
                "image": "example.org/app:1",
                "resources": { "requests": requests.clone(), "limits": requests },
            }],
        },
    })
}

/// The pod with constraints that are decided below.
pub(crate) fn stashed(pod: Value, stash: &Value) -> Value {
    with(pod, json!({ "metadata": { "annotations": { "clusterSelector": stash.to_string() } } }))
}

/// Why the scheduler found no node for the pod, if it has looked.
pub(crate) fn refusal(pod: &Value) -> Option<&str> {
    let scheduled = condition(pod, "PodScheduled");
    (scheduled["reason"] == "Unschedulable").then(|| scheduled["message"].as_str()).flatten()
}

/// The virtual node that the pod is bound to.
pub(crate) fn node(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str()
}

/// The pod as a scheduler shows it to an extender. All of these are the same pod, so that room is kept for one of them.
pub(crate) fn shown(pod: Value, namespace: &str) -> Value {
    with(pod, json!({ "metadata": { "namespace": namespace, "uid": "705ab4f5-6393-11e8-b7cc-42010a800002" } }))
}

/// What the extender says to a scheduler that asks where the pod may go.
pub(crate) async fn filter(multi: &MultiScheduler, pod: Value, names: &[&str]) -> anyhow::Result<Value> {
    let question = json!({ "Pod": pod, "Nodes": null, "NodeNames": names }).to_string();
    let request = http::Request::post("/v1/filter").body(question.into_bytes().into())?;
    let (status, answer) = send(&multi.as_scheduler().await?, request).await?;
    anyhow::ensure!(status == 200, "{status} {answer}");
    Ok(serde_json::from_str(&answer)?)
}
