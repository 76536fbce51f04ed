// SPDX-License-Identifier: Apache-2.0
//! The charts on a real node: installed, used, upgraded under running pods, rolled back, and gone without a trace.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, ensure};
use e2e::binaries;
use e2e::cluster::Cluster;
use e2e::kubeconfig::{User, kubeconfig};
use e2e::pods::{PATIENCE, Pods};
use e2e::real_node;
use e2e::service;
use e2e::ship::lab::{Lab, NAMESPACE};
use e2e::ship::release::{PATIENCE as PATIENT, Release};
use e2e::wait::eventually;
use futures::future;
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::{monitoring, rights, start, uses};

/// The virtual node, and the release that makes it.
pub(crate) const NODE: &str = "east";
/// Where users are.
pub(crate) const TEAM: &str = "team";
/// Release and chart; the first are those that README installs.
const RELEASES: [(&str, &str); 4] =
    [(NODE, "virtual-node"), ("webhook", "webhook"), ("scheduler", "multi-scheduler"), ("descheduler", "descheduler")];

#[test]
fn charts_from_images_give_a_working_system_that_is_upgraded_rolled_back_and_gone() -> anyhow::Result<()> {
    if !real_node::can_run() {
        return Ok(());
    }
    e2e::run(async {
        let lab = Lab::start().await?;
        let desk = desk(&lab).await?;
        let typed = start::INSTALL.commands()?;
        let (join, installs) = typed.split_first().context("README installs nothing")?;
        let said = desk.types(join, &lab.upper.kubeconfig()).await?;
        ensure!(installs.contains(&said.trim().to_owned()), "not what README installs: {said}");
        prepare(&lab).await?;
        let before = everything(&lab.upper).await?;
        let releases = RELEASES.map(|(release, chart)| lab.release(release, chart));
        for (release, install) in releases.iter().zip(installs) {
            let notes = release.explained(desk.types(install, &lab.upper.kubeconfig()).await).await?;
            ensure!(notes.contains("NOTES:"), "{notes}");
        }
        for (release, (_, chart)) in releases.iter().zip(RELEASES).skip(installs.len()) {
            let notes = release.install(&values(&lab, chart)).await?;
            ensure!(notes.contains("NOTES:"), "{notes}");
        }
        let (above, below) = (Pods::of(&lab.upper, TEAM), Pods::of(&lab.lower, TEAM));
        approve(&lab).await?;
        let first = run_below(&lab, &above, &below).await?;
        talk(&lab, &first).await?;
        monitoring::shows_data(&lab).await?;
        uses::everything_once(&lab, &desk).await?;
        let given = rights::rights_of_all(&lab).await?;

        let upgrades = releases.iter().zip(RELEASES).map(async |(release, (_, chart))| {
            let debug = json!({ "log": { "level": "debug" }, "podAnnotations": { "example.org/upgraded": "yes" } });
            release.upgrade(&e2e::pods::with(values(&lab, chart), debug)).await
        });
        future::try_join_all(upgrades).await?;
        unchanged(&lab, &below, &first).await?;
        future::try_join_all(releases.iter().map(Release::roll_back)).await?;
        unchanged(&lab, &below, &first).await?;

        lab.upper.kubectl(&["-n", TEAM, "delete", "deployment", "web"]).await?;
        above.until_all(0, "are gone", |_| true).await?;
        below.until_all(0, "are gone", |_| true).await?;
        let first = rights::requests(&lab)?;
        for release in releases.iter().rev() {
            release.uninstall().await?;
        }
        leaves_nothing(&lab, &before).await?;
        // Now: watches are in the log when they have ended.
        rights::all_rights_were_used(&lab, &given, first)
    })
}

/// Values, chart by chart: those that every operator has to give, and what this machine needs.
fn values(lab: &Lab, chart: &str) -> Value {
    lab.values(match chart {
        "virtual-node" => json!({
            "lower": { "existingSecret": format!("lower-{NODE}") },
            "namespaces": [TEAM],
            "settings": { "upper-apiserver": lab.upper_address() },
        }),
        "multi-scheduler" => json!({ "scheduler": { "image": Lab::scheduler_image() } }),
        _ => json!({}),
    })
}

/// A desk with what README's commands need: the programs, the lower cluster's kubeconfig, and what is special here as values.
async fn desk(lab: &Lab) -> anyhow::Result<Desk> {
    let desk = Desk::new()?;
    desk.program("kubectl", lab.upper.kubectl_path())?;
    desk.program("kubectl-tensile", &service::program("kubectl-tensile")?)?;
    for (release, chart) in RELEASES {
        fs::write(desk.file(&format!("{release}.yaml")), values(lab, chart).to_string())?;
    }
    let (helm, values) = (binaries::helm().await?, desk.file("$2.yaml"));
    desk.script("helm", &format!("exec {} \"$@\" --values \"{}\" --wait {PATIENT}", helm.display(), values.display()))?;
    let admin =
        lab.lower.kubeconfig_for("outside", Some(&lab.lower_address()), &User::Certificate(lab.lower.admin()))?;
    fs::copy(admin, desk.file("lower.admin.kubeconfig"))?;
    Ok(desk)
}

/// The multi-scheduler's identity in the lower cluster, and the users' namespace in both: what an operator does before the charts.
async fn prepare(lab: &Lab) -> anyhow::Result<()> {
    let manifest = e2e::helm::chart("multi-scheduler").join("files/lower-rbac.yaml").display().to_string();
    lab.lower.kubectl(&["apply", "-f", &manifest]).await?;
    let token = eventually(PATIENCE, "the multi-scheduler has a token", async || {
        let token =
            ["-n", NAMESPACE, "get", "secret", "multi-scheduler", "-o", "go-template={{.data.token | base64decode}}"];
        let token = String::from_utf8(lab.lower.kubectl(&token).await?.stdout)?;
        ensure!(token.starts_with("ey"), "{token}");
        Ok(token)
    })
    .await?;
    let ca = lab.lower.authority().identity().certificate;
    let config = kubeconfig(NODE, &lab.lower_address(), Some(&ca), &User::Token(&token));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": NODE, "namespace": NAMESPACE, "labels": { "tensile.io/kubeconfig": "true" } },
        "stringData": { "kubeconfig": config.to_string() },
    });
    lab.upper.apply([&secret], &[]).await?;

    // The kubelet's own, which comes a while after its node: it is none of what is left behind.
    let lease = format!("lease/{}", lab.worker.name());
    eventually(PATIENCE, "the worker has its lease", async || {
        lab.upper.kubectl(&["-n", "kube-node-lease", "get", &lease]).await.map(drop)
    })
    .await?;
    lab.upper.kubectl(&["create", "namespace", TEAM]).await?;
    // The multi-scheduler keeps pods off nodes without this label: it is what the webhook moves out of the way.
    let node = lab.node.name();
    lab.lower.kubectl(&["label", "node", node, "example.org/disk=ssd"]).await?;
    lab.lower.kubectl(&["create", "namespace", TEAM]).await?;
    let role = "--clusterrole=tensile-virtual-node-secrets";
    let account = "--serviceaccount=tensile:virtual-node";
    lab.lower.kubectl(&["-n", TEAM, "create", "rolebinding", "tensile-virtual-node-secrets", role, account]).await?;
    Ok(())
}

/// What a human does for logs and exec.
async fn approve(lab: &Lab) -> anyhow::Result<()> {
    eventually(PATIENCE, "the kubelet API has a certificate", async || {
        let undecided = "{{range .items}}{{if not (and .status .status.conditions)}}{{.metadata.name}} {{end}}{{end}}";
        let names = ["get", "csr", "-o", &format!("go-template={undecided}")];
        let names = String::from_utf8(lab.upper.kubectl(&names).await?.stdout)?;
        for name in names.split_whitespace() {
            lab.upper.kubectl(&["certificate", "approve", name]).await?;
        }
        let proxied = format!("/api/v1/nodes/{NODE}/proxy/healthz");
        lab.upper.kubectl(&["get", "--raw", &proxied]).await.map(drop)
    })
    .await
}

/// A Deployment with what the webhook has to move; returns its pods below.
async fn run_below(lab: &Lab, above: &Pods, below: &Pods) -> anyhow::Result<Vec<Value>> {
    let container = real_node::pod("web", "echo hello; exec sleep 1000000")["spec"]["containers"][0].clone();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": TEAM },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web", "virtual-pod": "true" } },
                "spec": {
                    "schedulerName": "multi-scheduler",
                    "nodeSelector": { "clusterID": NODE, "example.org/disk": "ssd" },
                    "tolerations": [{ "key": "virtual-kubelet.io/provider", "operator": "Exists" }],
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container],
                },
            },
        },
    });
    lab.upper.apply([&deployment], &[]).await?;
    let running = |pod: &Value| pod["status"]["phase"] == "Running";
    let shown = above.until_all(2, "run", running).await?;
    ensure!(shown.iter().all(|pod| pod["spec"]["nodeName"] == NODE), "{shown:?}");
    ensure!(shown.iter().all(|pod| pod["spec"]["nodeSelector"]["example.org/disk"].is_null()), "not moved: {shown:?}");
    let there = below.until_all(2, "run", running).await?;
    ensure!(there.iter().all(|pod| pod["spec"]["nodeSelector"]["example.org/disk"] == "ssd"), "lost: {there:?}");
    Ok(there)
}

/// Logs and exec, through the upper API server.
async fn talk(lab: &Lab, pods: &[Value]) -> anyhow::Result<()> {
    for pod in pods {
        let name = pod["metadata"]["name"].as_str().context("no name")?;
        let logs = lab.upper.kubectl(&["-n", TEAM, "logs", name]).await?.stdout;
        ensure!(logs == b"hello\n", "{}", String::from_utf8_lossy(&logs));
        let said = lab.upper.kubectl(&["-n", TEAM, "exec", name, "--", "hostname"]).await?.stdout;
        ensure!(said == format!("{name}\n").as_bytes(), "{}", String::from_utf8_lossy(&said));
    }
    Ok(())
}

/// The same containers run, and are reached through the new process.
async fn unchanged(lab: &Lab, below: &Pods, first: &[Value]) -> anyhow::Result<()> {
    approve(lab).await?;
    talk(lab, first).await?;
    let containers = |pods: &[Value]| -> BTreeSet<String> {
        let main = |pod: &Value| {
            let status = &pod["status"]["containerStatuses"][0];
            format!("{} {} {}", pod["metadata"]["uid"], status["containerID"], status["restartCount"])
        };
        pods.iter().map(main).collect()
    };
    let now = below.list().await?;
    ensure!(containers(&now) == containers(first), "{now:?}\nwas {first:?}");
    Ok(())
}

/// Names of all objects, but of those that come and go by themselves.
async fn everything(cluster: &Cluster) -> anyhow::Result<BTreeSet<String>> {
    let kinds = cluster.kubectl(&["api-resources", "--verbs=list,delete", "--output=name"]).await?.stdout;
    let kinds = String::from_utf8(kinds)?;
    let passing = ["events", "events.events.k8s.io", "certificatesigningrequests.certificates.k8s.io"];
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !passing.contains(kind)).collect();
    let name = "{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
    let output = format!("--output=jsonpath={name}");
    let all = cluster.kubectl(&["get", &kinds.join(","), "--all-namespaces", &output]).await?.stdout;
    Ok(String::from_utf8(all)?.lines().map(str::to_owned).collect())
}

/// `helm uninstall` takes all of it away but the Node, which `kubectl delete node` does.
async fn leaves_nothing(lab: &Lab, before: &BTreeSet<String>) -> anyhow::Result<()> {
    let rest = eventually(PATIENCE, "what was made is gone", async || {
        let now = everything(&lab.upper).await?;
        let left: Vec<&String> = now.difference(before).collect();
        ensure!(left == ["Lease kube-node-lease/east", "Node /east"], "{left:?}");
        Ok(())
    });
    rest.await?;
    lab.upper.kubectl(&["delete", "node", NODE]).await?;
    eventually(PATIENCE, "the lease goes with its node", async || {
        let now = everything(&lab.upper).await?;
        let left: Vec<&String> = now.difference(before).collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await
}
