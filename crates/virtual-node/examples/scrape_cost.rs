// SPDX-License-Identifier: Apache-2.0
//! What one scrape of many pods costs this process in CPU time: `cargo run --release -p virtual-node --example
//! scrape_cost`.
//!
//! Ten lower kubelets with a hundred pods of ours and twenty of others each, behind an API server that is a process of
//! its own, speaks TLS and answers with text in the shape of a kubelet's. Everything between the request and the answer's
//! bytes is the virtual node's own; only the encryption of the answer to the reader is not in it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example shows, it does not recover")]

use std::{collections::HashMap, fmt::Write as _, sync::Arc, time::Instant};

use bytes::Bytes;
use prometheus::Registry;
use tensile_core::stats::{Member, Roster, Source, Wanted};
use tensile_runtime::clients::{ClientSource, connect};
use tensile_testkit::api_server::{ApiServer, cpu_seconds};
use tokio_util::sync::CancellationToken;
use virtual_kubelet::server::StatsProvider;
use virtual_node::{
    config::StatsSettings,
    stats::{Below, LowerStats},
};

const NODES: usize = 10;
const OURS: usize = 100;
const FOREIGN: usize = 20;
/// Metrics that cAdvisor has of each container, and of each pod's sandbox.
const CADVISOR: usize = 60;

#[tokio::main]
async fn main() {
    let server = ApiServer::start(answers).await;
    let source = ClientSource::new("virtual-node", Some(server.kubeconfig()));
    let client = connect(&source).await.unwrap();

    // An answer is kept for a moment, so each scrape has statistics of its own, and connections that are there.
    let stats = async || {
        let roster = || (0..NODES).flat_map(|node| (0..OURS).map(move |pod| member(node, pod))).collect::<Roster>();
        let below = Below { client: client.clone(), selector: String::new(), roster: Box::new(roster) };
        let settings = StatsSettings { source: Wanted::Only(Source::Kubelet), store: None };
        let stats = Arc::new(LowerStats::new(below, "virtual", &settings, &Registry::new()).unwrap());
        let stop = CancellationToken::new();
        tokio::spawn({
            let (stats, stop) = (stats.clone(), stop.clone());
            async move { stats.run(stop).await }
        });
        (stats, stop.drop_guard())
    };
    for (name, rounds) in [("resource", 50), ("summary", 20), ("cadvisor", 5)] {
        let (mut size, mut before, mut begun) = (0, 0.0, Instant::now());
        // The first round opens the connections.
        for round in 0..=rounds {
            if round == 1 {
                (before, begun) = (cpu_seconds(), Instant::now());
            }
            let (stats, _running) = stats().await;
            let answer = match name {
                "resource" => stats.resource().await,
                "summary" => stats.summary(false).await,
                _ => stats.cadvisor().await,
            };
            size = answer.unwrap().len();
        }
        let (cpu, took) = (cpu_seconds() - before, begun.elapsed().as_secs_f64());
        let each = 1e3 / f64::from(rounds);
        let pods = NODES * OURS;
        println!(
            "{name}: {pods} pods, {size} bytes: {:.1} ms of CPU, {:.0} ms until there (mean of {rounds})",
            cpu * each,
            took * each
        );
    }
}

fn member(node: usize, pod: usize) -> Member {
    let name = format!("web-{node}-{pod}");
    Member {
        namespace: "default".into(),
        below: ("default".into(), name.as_str().into()),
        uid: format!("6e8b3f0a-0000-4000-8000-{node:04}{pod:08}").into(),
        lower_uid: uid(&name).into(),
        name: name.into(),
        lower_node: format!("node-{node}").into(),
        since: Some(0),
        running: [("main".into(), 0), ("side".into(), 0)].into(),
    }
}

fn uid(name: &str) -> String {
    format!("below-{name}")
}

/// The names of the pods on a node.
fn pods(node: usize) -> impl Iterator<Item = String> {
    let ours = (0..OURS).map(move |pod| format!("web-{node}-{pod}"));
    ours.chain((0..FOREIGN).map(move |pod| format!("foreign-{node}-{pod}")))
}

fn resource(node: usize) -> String {
    let mut text = String::new();
    for name in
        ["container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_start_time_seconds"]
    {
        writeln!(text, "# HELP {name} [STABLE] What it is.\n# TYPE {name} counter").unwrap();
        for (pod, container) in pods(node).flat_map(|pod| ["main", "side"].map(|container| (pod.clone(), container))) {
            writeln!(
                text,
                "{name}{{container=\"{container}\",namespace=\"default\",pod=\"{pod}\"}} 12345.678901 1700000000123"
            )
            .unwrap();
        }
    }
    for name in ["pod_cpu_usage_seconds_total", "pod_memory_working_set_bytes"] {
        writeln!(text, "# HELP {name} [STABLE] What it is.\n# TYPE {name} counter").unwrap();
        for pod in pods(node) {
            writeln!(text, "{name}{{namespace=\"default\",pod=\"{pod}\"}} 12345.678901 1700000000123").unwrap();
        }
    }
    text + "resource_scrape_error 0\n"
}

fn cadvisor(node: usize) -> String {
    let mut text = String::new();
    for metric in 0..CADVISOR {
        let name = format!("container_metric_number_{metric}");
        writeln!(text, "# HELP {name} What it is.\n# TYPE {name} counter").unwrap();
        for (pod, container) in
            pods(node).flat_map(|pod| ["", "main", "side"].map(|container| (pod.clone(), container)))
        {
            let id = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6e8b3f0a_0000_4000_8000_000000000000.slice/cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope";
            writeln!(text, "{name}{{container=\"{container}\",id=\"{id}\",image=\"registry.example.org/team/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",name=\"0123456789abcdef\",namespace=\"default\",pod=\"{pod}\"}} 12345 1700000000123").unwrap();
        }
    }
    text
}

fn summary(node: usize) -> String {
    let cpu = serde_json::json!({"time": "2026-01-02T03:04:05Z", "usageNanoCores": 123_456, "usageCoreNanoSeconds": 123_456_789_012_u64});
    let memory = serde_json::json!({"time": "2026-01-02T03:04:05Z", "usageBytes": 123_456_789, "workingSetBytes": 123_456_789, "rssBytes": 1_234_567, "pageFaults": 12_345, "majorPageFaults": 12});
    let fs = serde_json::json!({"time": "2026-01-02T03:04:05Z", "availableBytes": 123_456_789_012_u64, "capacityBytes": 123_456_789_012_u64, "usedBytes": 123_456, "inodesFree": 1_234_567, "inodes": 1_234_567, "inodesUsed": 12});
    let container = |name: &str| serde_json::json!({"name": name, "startTime": "2026-01-02T03:04:05Z", "cpu": cpu, "memory": memory, "rootfs": fs, "logs": fs, "swap": {"time": "2026-01-02T03:04:05Z", "swapUsageBytes": 0}});
    let pod = |name: String| {
        serde_json::json!({
            "podRef": {"name": name, "namespace": "default", "uid": uid(&name)}, "startTime": "2026-01-02T03:04:05Z",
            "containers": [container("main"), container("side")], "cpu": cpu, "memory": memory,
            "network": {"time": "2026-01-02T03:04:05Z", "name": "eth0", "rxBytes": 1, "rxErrors": 0, "txBytes": 1, "txErrors": 0, "interfaces": [{"name": "eth0", "rxBytes": 1}]},
            "volume": [fs, fs], "ephemeral-storage": fs, "process_stats": {"process_count": 2},
        })
    };
    serde_json::json!({"node": {}, "pods": pods(node).map(pod).collect::<Vec<_>>()}).to_string()
}

/// What the lower API server answers, by path.
fn answers() -> impl Fn(&str) -> Bytes {
    let nodes = (0..NODES).flat_map(|node| {
        let at = |path: &str| format!("/api/v1/nodes/node-{node}/proxy/{path}");
        [
            (at("metrics/resource"), Bytes::from(resource(node))),
            (at("metrics/cadvisor"), Bytes::from(cadvisor(node))),
            (at("stats/summary"), Bytes::from(summary(node))),
        ]
    });
    let answers: HashMap<String, Bytes> = nodes.collect();
    move |path| answers[path].clone()
}
