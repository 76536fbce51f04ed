// SPDX-License-Identifier: Apache-2.0
//! The same question, put to a real kube-scheduler that has one of the lower clusters alone.

use anyhow::{Context as _, ensure};
use tokio::process::Command;

use super::super::lab::{DEADLINE, ensure_namespace};
use super::super::table::Row;
use super::{ASKED_CPU, create};
use crate::cluster::Cluster;
use crate::port::Port;
use crate::timeline::Timeline;

/// Its name, and that of the namespace of its pods.
const NAME: &str = "reference";
/// What it measures itself: from a pod taken from its queue until a node is chosen.
const METRIC: &str = "scheduler_scheduling_algorithm_duration_seconds";
const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: SCHEDULER_KUBECONFIG, qps: 5000, burst: 10000}
profiles: [{schedulerName: reference}]
";

/// Has it place so many pods on the `nodes` nodes of `cluster`.
pub(super) async fn measure(cluster: &Cluster, nodes: usize, pods: usize) -> anyhow::Result<Row> {
    let port = Port::reserve()?;
    let _scheduler = cluster.scheduler(NAME, CONFIG, &port)?.start()?;
    ensure_namespace(cluster, NAME).await?;
    let timeline = Timeline::begin(cluster, NAME).await?;
    create(cluster, NAME, NAME, pods, &serde_json::json!({ "cpu": ASKED_CPU })).await?;
    timeline.reached(|life| life.bound, pods, "bound", DEADLINE).await?;
    let metrics = metrics(cluster, &port).await?;
    let value = |suffix: &str| {
        let line = metrics.lines().find(|line| line.starts_with(&format!("{METRIC}{suffix}")));
        let value = line.and_then(|line| line.rsplit(' ').next()).with_context(|| format!("no {METRIC}{suffix}"))?;
        anyhow::Ok(value.parse::<f64>()?)
    };
    let mean = value("_sum")? / value("_count")? * 1e3;
    Ok(Row::new(
        format!(
            "{pods} such pods to a kube-scheduler over one of the clusters, {nodes} nodes: mean of one, by its own metric"
        ),
        format!("{mean:.2} ms"),
    ))
}

/// What the scheduler tells the administrator of the cluster.
async fn metrics(cluster: &Cluster, port: &Port) -> anyhow::Result<String> {
    cluster.admin().write(cluster.folder(), NAME)?;
    let file = |end: &str| cluster.folder().join(format!("{NAME}.{end}"));
    let mut kubectl = Command::new(cluster.kubectl_path());
    kubectl.args(["--kubeconfig=/dev/null", "--insecure-skip-tls-verify"]).kill_on_drop(true);
    kubectl.arg(format!("--server=https://127.0.0.1:{}", port.number()));
    kubectl.arg(format!("--client-certificate={}", file("crt").display()));
    kubectl.arg(format!("--client-key={}", file("key").display()));
    let output = kubectl.args(["get", "--raw", "/metrics"]).output().await?;
    ensure!(output.status.success(), "metrics of the scheduler: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
