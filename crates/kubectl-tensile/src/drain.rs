// SPDX-License-Identifier: Apache-2.0
//! `drain`: a virtual node is cordoned, and its pods are evicted within their disruption budgets.

#![allow(clippy::print_stderr, reason = "progress is told beside the result")]

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{EvictParams, Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::args::Wait;
use crate::cluster::Upper;
use crate::output::{Output, Table};

/// How often it is looked what is left, and tried again what a disruption budget held back.
const LOOK: Duration = Duration::from_secs(1);
/// An eviction that a disruption budget does not allow now.
const TOO_MANY_REQUESTS: u16 = 429;
const NOT_FOUND: u16 = 404;

/// A pod, and what is done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Drained {
    namespace: String,
    pod: String,
    what: String,
}

/// Drains the node and prints what was done. Says whether nothing is left on it.
pub async fn run(upper: &Upper, node: &str, wait: &Wait, output: Output) -> anyhow::Result<bool> {
    upper.nodes(Some(node)).await?;
    if wait.dry_run {
        let pods = upper.pods_on(node).await?;
        let would: Vec<Drained> =
            pods.iter().filter(|pod| !finished(pod)).map(|pod| of(pod, "would be evicted")).collect();
        output.print(&would, |would| table(would))?;
        return Ok(true);
    }
    let nodes: Api<Node> = Api::all(upper.client.clone());
    let cordon = Patch::Strategic(json!({ "spec": { "unschedulable": true } }));
    nodes.patch(node, &PatchParams::default(), &cordon).await.with_context(|| format!("cannot cordon {node}"))?;
    eprintln!("{node} is cordoned");
    let done = evict_all(upper, node, wait).await?;
    output.print(&done, |done| table(done))?;
    Ok(true)
}

async fn evict_all(upper: &Upper, node: &str, wait: &Wait) -> anyhow::Result<Vec<Drained>> {
    let deadline = (wait.timeout > 0).then(|| Instant::now() + Duration::from_secs(wait.timeout));
    let mut done: BTreeMap<(String, String), Drained> = BTreeMap::new();
    let mut told = String::new();
    loop {
        let left: Vec<Value> = upper.pods_on(node).await?.into_iter().filter(|pod| !finished(pod)).collect();
        if left.is_empty() {
            return Ok(done.into_values().collect());
        }
        let mut held = 0;
        for pod in &left {
            let mut drained = of(pod, "evicted");
            if pod["metadata"]["deletionTimestamp"].is_null()
                && let Some(budget) = evict(upper, &drained).await?
            {
                held += 1;
                drained.what = budget;
            }
            done.insert((drained.namespace.clone(), drained.pod.clone()), drained);
        }
        let news = format!("{} pods left on {node}, {held} held back by disruption budgets", left.len());
        if news != told {
            eprintln!("{news}");
            told = news;
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let names: Vec<String> =
                left.iter().map(|pod| of(pod, "")).map(|d| format!("{}/{}", d.namespace, d.pod)).collect();
            bail!("{} pods are still on {node} after {} s: {}", left.len(), wait.timeout, names.join(", "));
        }
        sleep(LOOK).await;
    }
}

/// Evicts a pod. What a disruption budget says, if it does not allow it now.
async fn evict(upper: &Upper, pod: &Drained) -> anyhow::Result<Option<String>> {
    let pods: Api<Pod> = Api::namespaced(upper.client.clone(), &pod.namespace);
    match pods.evict(&pod.pod, &EvictParams::default()).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(None),
        Err(kube::Error::Api(status)) if status.code == TOO_MANY_REQUESTS => Ok(Some(status.message.clone())),
        Err(error) => Err(error).with_context(|| format!("cannot evict {}/{}", pod.namespace, pod.pod)),
    }
}

fn finished(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn of(pod: &Value, what: &str) -> Drained {
    let text = |member: &str| pod["metadata"][member].as_str().unwrap_or_default().to_owned();
    Drained { namespace: text("namespace"), pod: text("name"), what: what.to_owned() }
}

fn table(pods: &[Drained]) -> Table {
    let row = |pod: &Drained| vec![pod.namespace.clone().into(), pod.pod.clone().into(), pod.what.clone().into()];
    Table { head: &["NAMESPACE", "POD", "WHAT"], rows: pods.iter().map(row).collect() }
}
