// SPDX-License-Identifier: Apache-2.0
//! The harness itself: real nodes run containers, several on one machine, and nothing of them stays behind.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::pods::{Pods, with};
use e2e::real_node::{self, AGNHOST, RealNode};
use e2e::wait::eventually;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn two_real_nodes_of_one_cluster_run_containers_with_logs_and_exec() -> anyhow::Result<()> {
    if !real_node::can_run() {
        return Ok(());
    }
    e2e::run(async {
        let cluster = Cluster::builder("lower").start().await?;
        let nodes = tokio::try_join!(RealNode::start(&cluster, "real-1"), RealNode::start(&cluster, "real-2"))?;
        ensure!(nodes.0.address() != nodes.1.address());
        let pods = Pods::of(&cluster, "default");
        for node in [&nodes.0, &nodes.1] {
            let pod = real_node::pod(&format!("on-{}", node.name()), "echo \"$GREETING\"; exec sleep 1000000");
            let mut pod = with(pod, json!({ "spec": { "nodeName": node.name() } }));
            pod["spec"]["containers"][0]["env"] = json!([{ "name": "GREETING", "value": node.name() }]);
            pods.create(&pod).await?;
        }
        for node in [&nodes.0, &nodes.1] {
            let name = format!("on-{}", node.name());
            let pod = pods.until_ready(&name).await?;
            let address = pod["status"]["podIP"].as_str().context("it has no address")?;
            let network = node.address().to_string();
            ensure!(address.rsplit_once('.').map(|(head, _)| head) == network.rsplit_once('.').map(|(head, _)| head));

            let log = cluster.kubectl(&["logs", &name]).await?.stdout;
            ensure!(String::from_utf8(log)?.trim() == node.name());
            let exec = cluster.kubectl(&["exec", &name, "--", "sh", "-c", "echo out; exit 7"]).await;
            let failed = exec.err().context("exit code 7 is none of success")?;
            ensure!(failed.to_string().contains("exit status: 7"), "{failed}");
        }

        // A server in a container is reached from this machine.
        let mut server = with(real_node::pod("server", ""), json!({ "spec": { "nodeName": "real-1" } }));
        server["spec"]["containers"] = json!([{ "name": "main", "image": AGNHOST, "args": ["netexec"] }]);
        pods.create(&server).await?;
        let server = pods.until_ready("server").await?;
        let address = server["status"]["podIP"].as_str().context("it has no address")?;
        eventually(MINUTE, "the server takes connections", async || {
            Ok(tokio::net::TcpStream::connect((address, 8080)).await?)
        })
        .await?;
        Ok(())
    })
}

#[test]
fn nothing_is_left_behind_when_the_harness_of_a_real_node_is_killed() -> anyhow::Result<()> {
    if !real_node::can_run() {
        return Ok(());
    }
    let kubectl = e2e::run(e2e::binaries::kubectl("1.36"))?;
    let mut harness = Command::new(env!("CARGO_BIN_EXE_e2e"))
        .args(["clusters", "up", "doomed", "--real-nodes", "1"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(harness.stdout.take().context("no output")?).lines();
    let first = lines.next().context("it printed nothing")??;
    let kubeconfig = first.rsplit(' ').next().context("no path")?;
    let kubectl = |args: &[&str]| {
        let output = Command::new(&kubectl).arg("--kubeconfig").arg(kubeconfig).args(args).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        anyhow::Ok(String::from_utf8(output.stdout)?)
    };
    let script = "--command -- sh -c".split(' ').chain(["echo it ran; exec sleep 1000000"]);
    kubectl(&["run", "doomed", "--image", real_node::BUSYBOX].into_iter().chain(script).collect::<Vec<_>>())?;
    kubectl(&["wait", "pod/doomed", "--for=condition=Ready", "--timeout=60s"])?;
    ensure!(kubectl(&["logs", "doomed"])? == "it ran\n");
    let address = kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].status.addresses[0].address}"])?;
    let name = interface_of(&address)?;
    ensure!(remains(&name)?.len() >= 4, "processes, a bridge, control groups, a folder: {:?}", remains(&name)?);

    harness.kill()?;
    harness.wait()?;
    e2e::run(eventually(MINUTE, "everything is gone", async || {
        let left = remains(&name)?;
        ensure!(left.is_empty(), "still there: {left:?}");
        Ok(())
    }))
}

/// The network interface that has this address.
fn interface_of(address: &str) -> anyhow::Result<String> {
    let output = Command::new("ip").args(["-oneline", "address", "show", "to", address]).output()?;
    let output = String::from_utf8(output.stdout)?;
    Ok(output.split_whitespace().nth(1).with_context(|| format!("nothing has {address}"))?.to_owned())
}

/// What there is of a node: all of it is named like its bridge, or after it.
fn remains(name: &str) -> anyhow::Result<Vec<String>> {
    let folder = std::env::temp_dir().join(name.replace("tensile-", "tensile-node-"));
    let folder = folder.to_str().context("not UTF-8")?;
    let bridge = format!("/sys/class/net/{name}");
    let paths = [folder, &bridge].into_iter().filter(|path| Path::new(path).exists()).map(str::to_owned);
    let groups = Command::new("find").args(["/sys/fs/cgroup", "-type", "d", "-name", name]).output()?;
    let groups = String::from_utf8(groups.stdout)?;
    // Containers have an environment of their own, but control groups as well.
    let processes = fs::read_dir("/proc")?.filter_map(|entry| {
        let process = entry.ok()?.path();
        let environment = fs::read(process.join("environ")).ok()?;
        String::from_utf8_lossy(&environment).contains(folder).then(|| process.display().to_string())
    });
    Ok(paths.chain(groups.lines().map(str::to_owned)).chain(processes).collect())
}
