// SPDX-License-Identifier: Apache-2.0
//! The harness itself: clusters start, serve, are measured, and nothing of them stays behind.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::cluster::{Cluster, Component};
use e2e::kwok::{self, NodeShape};
use e2e::process::Signal;
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

fn pod(name: &str) -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "example.org/app:1" }] },
    }))?)
}

async fn is_in_phase(pods: &Api<Pod>, name: &str, phase: &str) -> anyhow::Result<()> {
    eventually(MINUTE, &format!("pod {name} is {phase}"), async || {
        let seen = pods.get(name).await?.status.and_then(|status| status.phase).context("no phase")?;
        ensure!(seen == phase, "it is {seen}");
        Ok(())
    })
    .await
}

#[test]
fn a_cluster_starts_and_serves_kubectl() -> anyhow::Result<()> {
    e2e::run(async {
        let cluster = Cluster::builder("alone").version("1.36").audit(true).start().await?;
        let version = String::from_utf8(cluster.kubectl(&["version"]).await?.stdout)?;
        ensure!(version.contains("Server Version: v1.36.3"), "{version}");

        let by_kubectl = cluster.audit()?.by("kubectl/").counts();
        ensure!(by_kubectl.get("get /version") == Some(&1), "{by_kubectl:?}");

        let wrong = cluster.kubectl(&["get", "pod", "nobody"]).await.err().context("kubectl must fail")?;
        ensure!(wrong.to_string().contains(r#"pods "nobody" not found"#), "{wrong}");

        let usage = cluster.usage(Component::ApiServer)?;
        ensure!(usage.cpu > Duration::from_millis(100) && usage.peak_rss > 50_000_000, "{usage:?}");
        Ok(())
    })
}

#[test]
fn the_newest_and_the_oldest_supported_version_run_side_by_side() -> anyhow::Result<()> {
    e2e::run(async {
        let start = async |version: &str, server: &str| {
            let cluster = Cluster::builder("versioned").version(version).start().await?;
            let told = String::from_utf8(cluster.kubectl(&["version"]).await?.stdout)?;
            ensure!(told.contains(&format!("Server Version: {server}")), "{told}");
            cluster.kwok_nodes(NodeShape::default()).await?;
            let pods: Api<Pod> = Api::default_namespaced(cluster.client());
            pods.create(&PostParams::default(), &pod("runs")?).await?;
            is_in_phase(&pods, "runs", "Running").await?;
            // Kept until the other one is there too.
            anyhow::Ok(cluster)
        };
        tokio::try_join!(start("1.36", "v1.36.3"), start("1.33", "v1.33.13"))?;
        Ok(())
    })
}

#[test]
fn kwok_runs_finishes_holds_and_deletes_pods() -> anyhow::Result<()> {
    e2e::run(async {
        let cluster = Cluster::builder("simulated").start().await?;
        cluster.kwok_nodes(NodeShape { count: 2, ..NodeShape::default() }).await?;
        let pods: Api<Pod> = Api::default_namespaced(cluster.client());
        for name in ["ends-well", "ends-badly", "held"] {
            pods.create(&PostParams::default(), &pod(name)?).await?;
            is_in_phase(&pods, name, "Running").await?;
        }
        let annotate = async |name: &str, key: &str, value: Option<&str>| {
            let patch = json!({ "metadata": { "annotations": { key: value } } });
            pods.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
        };

        for (name, phase, code) in [("ends-well", "Succeeded", 0), ("ends-badly", "Failed", 1)] {
            annotate(name, kwok::FINISH, Some(phase)).await?;
            is_in_phase(&pods, name, phase).await?;
            let finished = serde_json::to_value(pods.get(name).await?)?;
            let state = &finished["status"]["containerStatuses"][0]["state"]["terminated"];
            ensure!(state["exitCode"] == code, "{state}");
            pods.delete(name, &DeleteParams::default()).await?;
        }

        annotate("held", kwok::HOLD, Some("")).await?;
        pods.delete("held", &DeleteParams::default()).await?;
        eventually(MINUTE, "only the held pod is left", async || {
            let left = pods.list(&kube::api::ListParams::default()).await?.items.len();
            ensure!(left == 1, "{left} are left");
            Ok(())
        })
        .await?;
        annotate("held", kwok::HOLD, None).await?;
        eventually(MINUTE, "the held pod goes", async || {
            ensure!(pods.get_opt("held").await?.is_none(), "it is still there");
            Ok(())
        })
        .await
    })
}

#[test]
fn an_api_server_that_was_killed_comes_back_with_its_data() -> anyhow::Result<()> {
    e2e::run(async {
        let cluster = Cluster::builder("restarted").scheduler(false).start().await?;
        let pods: Api<Pod> = Api::default_namespaced(cluster.client());
        pods.create(&PostParams::default(), &pod("kept")?).await?;
        cluster.kill(Component::ApiServer)?;
        ensure!(pods.get("kept").await.is_err(), "a dead API server answered");
        cluster.restart(Component::ApiServer).await?;
        pods.get("kept").await?;

        cluster.signal(Component::ApiServer, Signal::STOP)?;
        let frozen = tokio::time::timeout(Duration::from_millis(300), pods.get("kept")).await;
        ensure!(frozen.is_err(), "a frozen API server answered");
        cluster.signal(Component::ApiServer, Signal::CONT)?;
        pods.get("kept").await?;
        Ok(())
    })
}

#[test]
fn nothing_is_left_behind_when_the_harness_is_killed() -> anyhow::Result<()> {
    let mut harness = Command::new(env!("CARGO_BIN_EXE_e2e"))
        .args(["clusters", "up", "doomed", "--nodes", "1"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(harness.stdout.take().context("no output")?).lines();
    let first = lines.next().context("it printed nothing")??;
    let kubeconfig = Path::new(first.rsplit(' ').next().context("no path")?);
    let folder = kubeconfig.parent().context("no folder")?;
    let running = processes_of(folder)?;
    ensure!(running.len() == 5, "etcd, API server, controller manager, scheduler and kwok run: {running:?}");

    harness.kill()?;
    harness.wait()?;
    e2e::run(eventually(MINUTE, "everything is gone", async || {
        let left = processes_of(folder)?;
        ensure!(left.is_empty(), "still running: {left:?}");
        ensure!(!folder.exists(), "{} still exists", folder.display());
        Ok(())
    }))
}

/// The command lines of the living processes that name this folder.
fn processes_of(folder: &Path) -> anyhow::Result<Vec<String>> {
    let folder = folder.to_str().context("not UTF-8")?;
    let lines = fs::read_dir("/proc")?.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    // The reaper knows the folder only from its pipe.
    Ok(lines.filter(|line| line.contains(folder)).map(|line| line.chars().take(60).collect()).collect())
}
