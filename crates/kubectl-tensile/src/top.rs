// SPDX-License-Identifier: Apache-2.0
//! `top`: what pods use on virtual nodes, as their kubelet APIs say; no metrics server is needed for it.

#![allow(clippy::print_stderr, reason = "what could not be read is told beside the result")]

use anyhow::Context as _;
use futures::future::join_all;
use http::Request;
use k8s_openapi::api::core::v1::Node;
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use serde_json::{Value, json};
use tensile_core::resources::{Format, Quantity, ResourceName, ResourceVector};

use crate::cluster::Upper;
use crate::output::{Cell, Mood, Output, Table};

/// A share of a node from which it is shown as nearly full, in percent.
const HIGH: u64 = 90;

/// What is used on one virtual node, or by one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The virtual node.
    pub node: String,
    /// The pod, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Name>,
    /// CPU in use, in thousandths of a core.
    pub cpu_milli: u64,
    /// Memory in use, in bytes.
    pub memory_bytes: u64,
    /// Of what the node offers, in percent; nothing about a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u64>,
    /// The same of its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_percent: Option<u64>,
}

/// A pod's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Name {
    /// Its namespace.
    pub namespace: String,
    /// Its own.
    pub name: String,
}

/// Prints it for all virtual nodes or the one of this name; with `pods`, for each pod there. Says whether all could be read.
pub async fn run(upper: &Upper, node: Option<&str>, pods: bool, output: Output) -> anyhow::Result<bool> {
    let nodes = upper.nodes(node).await?;
    let summaries = join_all(nodes.iter().map(|node| summary(&upper.client, node))).await;
    let (mut all, mut well) = (Vec::new(), true);
    for (node, summary) in nodes.iter().zip(summaries) {
        match summary {
            Ok(summary) if pods => all.extend(of_pods(node, &summary)),
            Ok(summary) => all.push(of_node(node, &summary)),
            Err(error) => {
                well = false;
                eprintln!("{}: {error:#}", node.name_any());
            }
        }
    }
    if pods {
        all.sort_by_key(|usage| std::cmp::Reverse((usage.cpu_milli, usage.memory_bytes)));
    }
    output.print(&all, |all| table(all, pods))?;
    Ok(well)
}

/// What the kubelet API of a node says, through the API server.
async fn summary(client: &Client, node: &Node) -> anyhow::Result<Value> {
    let path = format!("/api/v1/nodes/{}/proxy/stats/summary", node.name_any());
    let summary = client.request(Request::get(path).body(Vec::new())?).await;
    summary.context("cannot read its usage: see `kubectl tensile doctor`")
}

fn of_node(node: &Node, summary: &Value) -> Usage {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let allocatable = ResourceVector::from_json(&json!(allocatable)).unwrap_or_default();
    let offered = |name| allocatable.get(&name).and_then(|milli| u64::try_from(milli).ok());
    let usage = used(node, None, &summary["node"]);
    Usage {
        cpu_percent: percent(usage.cpu_milli, offered(ResourceName::CPU)),
        memory_percent: percent(usage.memory_bytes.saturating_mul(1000), offered(ResourceName::MEMORY)),
        ..usage
    }
}

fn of_pods(node: &Node, summary: &Value) -> Vec<Usage> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |pod: &Value| {
        let name = Name { namespace: text(&pod["podRef"]["namespace"]), name: text(&pod["podRef"]["name"]) };
        used(node, Some(name), pod)
    };
    summary["pods"].as_array().into_iter().flatten().map(one).collect()
}

/// CPU and memory of a node or a pod of a summary.
fn used(node: &Node, pod: Option<Name>, stats: &Value) -> Usage {
    Usage {
        node: node.name_any(),
        pod,
        cpu_milli: stats["cpu"]["usageNanoCores"].as_u64().unwrap_or_default() / 1_000_000,
        memory_bytes: stats["memory"]["workingSetBytes"].as_u64().unwrap_or_default(),
        cpu_percent: None,
        memory_percent: None,
    }
}

fn percent(used: u64, offered: Option<u64>) -> Option<u64> {
    used.saturating_mul(100).checked_div(offered?)
}

fn table(all: &[Usage], pods: bool) -> Table {
    let share = |percent: Option<u64>| match percent {
        Some(percent) if percent >= HIGH => Cell::new(format!("{percent}%"), Mood::Bad),
        Some(percent) => format!("{percent}%").into(),
        None => "-".into(),
    };
    let row = |usage: &Usage| {
        let memory = Quantity::from_milli(i128::from(usage.memory_bytes >> 20 << 20) * 1000, Format::BinarySi);
        let (cpu, memory) = (format!("{}m", usage.cpu_milli).into(), memory.to_string().into());
        match &usage.pod {
            Some(pod) => {
                vec![usage.node.clone().into(), pod.namespace.clone().into(), pod.name.clone().into(), cpu, memory]
            }
            None => {
                vec![usage.node.clone().into(), cpu, share(usage.cpu_percent), memory, share(usage.memory_percent)]
            }
        }
    };
    let head: &[&str] = if pods {
        &["NODE", "NAMESPACE", "POD", "CPU", "MEMORY"]
    } else {
        &["NODE", "CPU", "CPU%", "MEMORY", "MEMORY%"]
    };
    Table { head, rows: all.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        let status = json!({ "allocatable": { "cpu": "4", "memory": "1Gi", "pods": "110" } });
        serde_json::from_value(json!({ "metadata": { "name": "east" }, "status": status })).unwrap()
    }

    fn summary() -> Value {
        let stats = |nano: u64, bytes: u64| json!({ "usageNanoCores": nano, "workingSetBytes": bytes });
        let both = |nano, bytes| json!({ "cpu": stats(nano, 0), "memory": stats(0, bytes) });
        let mut pod = both(250_000_000, 64 << 20);
        pod["podRef"] = json!({ "namespace": "team", "name": "web-0" });
        json!({ "node": both(1_000_000_000, 1 << 29), "pods": [pod, { "podRef": { "namespace": "team", "name": "new" } }] })
    }

    #[test]
    fn a_node_is_shown_with_what_is_used_of_what_it_offers() {
        let usage = of_node(&node(), &summary());
        assert_eq!((usage.cpu_milli, usage.cpu_percent), (1000, Some(25)));
        assert_eq!((usage.memory_bytes, usage.memory_percent), (1 << 29, Some(50)));
        assert_eq!(json!(usage).as_object().unwrap().len(), 5, "nothing about a pod: {usage:?}");
    }

    #[test]
    fn a_pod_that_nobody_measured_yet_uses_nothing() {
        let pods = of_pods(&node(), &summary());
        let seen: Vec<(&str, u64, u64)> = pods
            .iter()
            .map(|usage| (usage.pod.as_ref().unwrap().name.as_str(), usage.cpu_milli, usage.memory_bytes >> 20))
            .collect();
        assert_eq!(seen, [("web-0", 250, 64), ("new", 0, 0)]);
    }
}
