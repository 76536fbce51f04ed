// SPDX-License-Identifier: Apache-2.0
//! `kubectl tensile` on real clusters: what it shows is what the clusters say, and what it makes works.

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::fixture::Pair;
use e2e::link::Link;
use e2e::pods::with;
use e2e::service;
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::OnceCell;

async fn pair() -> anyhow::Result<&'static Pair> {
    static SHARED: OnceCell<Pair> = OnceCell::const_new();
    SHARED.get_or_try_init(|| Pair::start(Cluster::builder("upper"), Cluster::builder("lower"))).await
}

/// What the plugin said.
struct Said {
    well: bool,
    out: String,
    err: String,
}

impl Said {
    fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.out).with_context(|| format!("no JSON: {}\n{}", self.out, self.err))
    }
}

/// Runs the plugin against the upper cluster.
async fn plugin(upper: &Cluster, args: &[&str]) -> anyhow::Result<Said> {
    let mut command = Command::new(service::program("kubectl-tensile")?);
    command.env("KUBECONFIG", upper.kubeconfig()).args(args).kill_on_drop(true);
    let output = command.output().await.context("cannot start the plugin")?;
    Ok(Said {
        well: output.status.success(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

#[test]
fn status_shows_the_virtual_node_its_heartbeat_and_what_its_pods_leave_free() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("status", async |above, _| {
            let requests = json!({ "resources": { "requests": { "cpu": "3" } } });
            let mut pod = pair.link.pod("busy");
            pod["spec"]["containers"][0] = with(pod["spec"]["containers"][0].clone(), requests);
            above.create(&pod).await?;
            above.until_ready("busy").await?;
            let said = plugin(&pair.upper, &["status", "-o", "json"]).await?;
            let all = said.json()?;
            let link = all.as_array().into_iter().flatten().find(|node| node["name"] == "link");
            let link = link.with_context(|| format!("it is not there: {all}"))?;
            ensure!(link["ready"] == true && said.well, "{link}");
            ensure!(link["heartbeatSeconds"].as_i64().is_some_and(|age| (0..=60).contains(&age)), "{link}");
            ensure!(link["pods"]["running"].as_u64().is_some_and(|count| count > 0), "{link}");
            let cpu = |list: &str| link[list]["cpu"].as_str().and_then(|cpu| cpu.parse::<u64>().ok());
            let (Some(all), Some(free)) = (cpu("allocatable"), cpu("free")) else { anyhow::bail!("{link}") };
            ensure!(all >= free + 3, "{link}");
            let table = plugin(&pair.upper, &["status"]).await?.out;
            ensure!(table.starts_with("NAME") && table.contains("link") && !table.contains('\u{1b}'), "{table}");
            Ok(())
        })
        .await
    })
}

#[test]
fn why_names_the_stage_at_which_a_pod_waits() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("why", async |above, _| {
            let lower = pair.lower.kubeconfig();
            let lower = format!("--lower-kubeconfig={}", lower.display());
            // The stage that is not behind the pod, and whether the plugin says that all is well.
            let at = async |pod: &str| {
                let args = ["why", pod, "-n", above.namespace(), "-o", "json", &lower];
                let said = plugin(&pair.upper, &args).await?;
                let path = said.json()?;
                let stages = path["stages"].as_array().context("no stages")?.clone();
                let stage = stages.into_iter().find(|stage| stage["state"] != "Done");
                anyhow::Ok((stage.unwrap_or_default(), said.well))
            };
            above.create(&pair.link.pod("runs")).await?;
            above.until_ready("runs").await?;
            let (stage, well) = at("runs").await?;
            ensure!(well && stage.is_null(), "{stage}");

            let huge = json!([{ "name": "main", "image": "example.org/app:1",
                "resources": { "requests": { "cpu": "40" } } }]);
            let mut pod = pair.link.pod("huge");
            pod["spec"]["containers"] = huge;
            pod["spec"]["nodeName"] = json!("link");
            above.create(&pod).await?;
            let mut pod = pair.link.pod("lacks");
            pod["spec"]["containers"][0]["envFrom"] = json!([{ "configMapRef": { "name": "missing" } }]);
            above.create(&pod).await?;
            let mut pod = pair.link.pod("nowhere");
            pod["spec"]["nodeSelector"]["clusterID"] = json!("no-such-cluster");
            above.create(&pod).await?;
            for (pod, stage, words) in [
                ("huge", "lower scheduler", "Insufficient cpu"),
                ("lacks", "virtual node", "missing"),
                ("nowhere", "upper scheduler", "didn't match Pod's node affinity/selector"),
            ] {
                eventually(e2e::pods::PATIENCE, &format!("{pod} is explained"), async || {
                    let (found, well) = at(pod).await?;
                    ensure!(!well && found["stage"] == stage, "{found}");
                    ensure!(found["detail"].as_str().is_some_and(|detail| detail.contains(words)), "{found}");
                    Ok(())
                })
                .await?;
            }
            let said = plugin(&pair.upper, &["why", "none", "-n", above.namespace()]).await?;
            ensure!(!said.well && said.err.contains("cannot read pod") && said.err.contains("none"), "{}", said.err);
            Ok(())
        })
        .await
    })
}

#[test]
fn join_makes_an_identity_that_a_virtual_node_works_with() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let lower = pair.lower.kubeconfig();
        let lower = format!("--lower-kubeconfig={}", lower.display());
        for round in ["first", "again"] {
            let said = plugin(&pair.upper, &["join", "joined", &lower]).await?;
            ensure!(said.well, "{round}: {}", said.err);
            let install = "helm install joined charts/virtual-node --namespace tensile";
            ensure!(said.out.starts_with(install), "{}", said.out);
        }
        let secrets: Api<Secret> = Api::namespaced(pair.upper.client(), "tensile");
        let data = secrets.get("lower-joined").await?.data.unwrap_or_default();
        let path = pair.upper.folder().join("joined.kubeconfig");
        std::fs::write(&path, &data.get("kubeconfig").context("no kubeconfig")?.0)?;
        let joined = Link::builder(&pair.upper, &pair.lower, "joined").lower_kubeconfig(&path).start().await?;
        pair.within("joined", async |above, _| {
            let no_token = json!({ "spec": { "automountServiceAccountToken": false } });
            above.create(&with(joined.pod("hello"), no_token)).await?;
            above.until_ready("hello").await?;
            Ok(())
        })
        .await?;

        let args = ["doctor", "joined", "-o", "json", &format!("--lower-kubeconfig={}", path.display())];
        let said = plugin(&pair.upper, &args).await?;
        let checks = said.json()?;
        let check = |name: &str| checks.as_array().into_iter().flatten().find(|check| check["check"] == name);
        for good in ["ready", "lower cluster", "rights below"] {
            ensure!(check(good).is_some_and(|check| check["ok"] == true), "{good}: {checks}");
        }
        ensure!(!said.well && check("webhook").is_some_and(|check| check["ok"] == false), "no webhook: {checks}");
        Ok(())
    })
}

#[test]
fn drain_cordons_and_evicts_within_disruption_budgets() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let link = Link::start(&pair.upper, &pair.lower, "drained").await?;
        pair.within("drain", async |above, below| {
            for (name, label) in [("free", "free"), ("kept", "kept")] {
                let labels = json!({ "metadata": { "labels": { "app": label } } });
                above.create(&with(link.pod(name), labels)).await?;
                above.until_ready(name).await?;
            }
            let budgets: Api<PodDisruptionBudget> = Api::namespaced(pair.upper.client(), above.namespace());
            let budget = json!({
                "metadata": { "name": "kept" },
                "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "kept" } } },
            });
            budgets.create(&PostParams::default(), &serde_json::from_value(budget)?).await?;
            eventually(e2e::pods::PATIENCE, "the budget counts", async || {
                let seen = budgets.get("kept").await?.status.context("no status")?;
                ensure!(seen.current_healthy == Some(1), "{seen:?}");
                Ok(())
            })
            .await?;
            let dry = plugin(&pair.upper, &["drain", "drained", "--dry-run", "-o", "json"]).await?;
            ensure!(dry.well && dry.json()?.as_array().is_some_and(|pods| pods.len() == 2), "{}", dry.out);
            let said = plugin(&pair.upper, &["drain", "drained", "--timeout=3"]).await?;
            ensure!(!said.well && said.err.contains("/kept"), "{}", said.err);
            above.until_gone("free").await?;
            ensure!(above.find("kept").await?.is_some() && below.find("kept").await?.is_some(), "it was evicted");
            let node = pair.upper.kubectl(&["get", "node", "drained", "-o", "jsonpath={.spec.unschedulable}"]).await?;
            ensure!(node.stdout == b"true", "it is not cordoned");
            budgets.delete("kept", &kube::api::DeleteParams::default()).await?;
            let said = plugin(&pair.upper, &["drain", "drained", "--timeout=60"]).await?;
            ensure!(said.well, "{}", said.err);
            above.until_gone("kept").await?;
            Ok(())
        })
        .await
    })
}
