// SPDX-License-Identifier: Apache-2.0
//! The four documents, through the upper API server's node proxy, as the lower kubelet has them but by the names above.

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::pods::{PATIENCE, Pods, with};
use e2e::real_node;
use e2e::wait::eventually;
use serde_json::{Value, json};

use super::{BUSY, World, ask, sample, test};

/// A pod that somebody else made on the same lower node.
async fn foreign(world: &World, below: &Pods) -> anyhow::Result<()> {
    e2e::namespace::make(below.namespace(), &world.pair.lower).await.ok();
    let placed = json!({ "spec": { "nodeName": world.pair.node.name(), "automountServiceAccountToken": false } });
    below.create(&with(real_node::pod("foreign", "exec sleep 1000000"), placed)).await?;
    below.until_ready("foreign").await?;
    Ok(())
}

/// Waits until `cluster`'s node says something of the pod at `path`.
async fn until_told(cluster: &Cluster, node: &str, path: &str, about: &str) -> anyhow::Result<(String, String)> {
    eventually(PATIENCE, &format!("{path} of {node} tells {about}"), async || {
        let (kind, text) = ask(cluster, node, path).await?;
        ensure!(text.contains(about), "it says\n{text}");
        Ok((kind, text))
    })
    .await
}

#[test]
fn resource_metrics_are_those_of_our_pods_and_their_counters_go_on() -> anyhow::Result<()> {
    test("resource", async |world, above, below| {
        let (upper, lower, path) = (&world.pair.upper, &world.pair.lower, "metrics/resource");
        above.create(&world.busy("busy")).await?;
        above.until_ready("busy").await?;
        foreign(world, below).await?;
        let namespace = above.namespace();
        let series = |metric: &str| format!("{metric}{{container=\"main\",namespace=\"{namespace}\",pod=\"busy\"}}");
        let cpu = series("container_cpu_usage_seconds_total");
        until_told(lower, "real", path, &format!("namespace=\"{namespace}\",pod=\"foreign\"")).await?;
        let (kind, first) = until_told(upper, "link", path, &cpu).await?;
        ensure!(kind == "text/plain; version=0.0.4; charset=utf-8", "{kind}");
        ensure!(!first.contains("foreign"), "a foreign pod shows:\n{first}");
        ensure!(sample(&first, &series("container_memory_working_set_bytes"))?.0 > 0.0);
        ensure!(sample(&first, &series("container_start_time_seconds"))?.0 > 1.7e9);
        ensure!(sample(&first, "resource_scrape_error")?.0 == 0.0, "{first}");

        let (used, at) = sample(&first, &cpu)?;
        let (node_used, _) = sample(&first, "node_cpu_usage_seconds_total")?;
        eventually(PATIENCE, "the counters go on", async || {
            let (_, next) = ask(upper, "link", path).await?;
            let ((more, later), (node_more, node_at)) =
                (sample(&next, &cpu)?, sample(&next, "node_cpu_usage_seconds_total")?);
            ensure!(more > used && later > at && at.is_some(), "{used} at {at:?}, then {more} at {later:?}");
            ensure!(
                node_more > node_used && node_at >= later,
                "of the node {node_used}, then {node_more} at {node_at:?}"
            );
            Ok(())
        })
        .await
    })
}

#[test]
fn the_summary_names_our_pods_as_above() -> anyhow::Result<()> {
    test("summary", async |world, above, below| {
        let (upper, lower) = (&world.pair.upper, &world.pair.lower);
        above.create(&world.busy("busy")).await?;
        let (pod, namespace) = (above.until_ready("busy").await?, above.namespace());
        foreign(world, below).await?;
        until_told(lower, "real", "stats/summary", "\"foreign\"").await?;
        for path in ["stats/summary", "stats/summary?only_cpu_and_memory=true"] {
            let about = format!("{path} tells of the pod");
            let summary = eventually(PATIENCE, &about, async || {
                let (kind, text) = ask(upper, "link", path).await?;
                ensure!(kind == "application/json", "{kind}");
                let summary: Value = serde_json::from_str(&text)?;
                let pods = summary["pods"].as_array().context("no pods")?;
                let found = pods.iter().find(|pod| pod["podRef"]["namespace"] == namespace).cloned();
                let found = found.with_context(|| format!("not in {text}"))?;
                ensure!(found["cpu"]["usageCoreNanoSeconds"].as_u64() > Some(0), "{found}");
                Ok((summary, found))
            });
            let (summary, found) = summary.await?;
            ensure!(!summary.to_string().contains("foreign"), "a foreign pod shows: {summary}");
            let uid = &pod["metadata"]["uid"];
            ensure!(found["podRef"] == json!({ "name": "busy", "namespace": namespace, "uid": uid }), "{found}");
            ensure!(found["containers"][0]["name"] == "main", "{found}");
            ensure!(found["containers"][0]["memory"]["workingSetBytes"].as_u64() > Some(0), "{found}");
            ensure!(summary["node"]["nodeName"] == "link", "{summary}");
            ensure!(summary["node"]["memory"]["workingSetBytes"].as_u64() > Some(0), "{summary}");
            let whole = !path.contains('?');
            ensure!(found["ephemeral-storage"].is_object() == whole, "{path} has the rest too, or not: {found}");
        }
        Ok(())
    })
}

#[test]
fn metrics_of_cadvisor_and_of_probes_are_those_of_our_pods() -> anyhow::Result<()> {
    test("probes", async |world, above, below| {
        let (upper, lower, namespace) = (&world.pair.upper, &world.pair.lower, above.namespace());
        let mut pod = world.pair.pod("probed", BUSY);
        pod["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": "50m" } });
        pod["spec"]["containers"][0]["readinessProbe"] = json!({ "exec": { "command": ["true"] }, "periodSeconds": 1 });
        above.create(&pod).await?;
        let pod = above.until_ready("probed").await?;
        foreign(world, below).await?;
        until_told(lower, "real", "metrics/cadvisor", &format!("namespace=\"{namespace}\",pod=\"foreign\"")).await?;

        let ours = format!("namespace=\"{namespace}\",pod=\"probed\"");
        let (_, cadvisor) = until_told(upper, "link", "metrics/cadvisor", &ours).await?;
        ensure!(cadvisor.contains("container_memory_working_set_bytes{container=\"main\""), "{cadvisor}");
        let (_, probes) = until_told(upper, "link", "metrics/probes", &ours).await?;
        let uid = pod["metadata"]["uid"].as_str().context("no UID")?;
        let counted = format!(
            "prober_probe_total{{container=\"main\",{ours},pod_uid=\"{uid}\",probe_type=\"Readiness\",result=\"successful\"}}"
        );
        ensure!(sample(&probes, &counted)?.0 >= 1.0, "{probes}");
        for text in [cadvisor, probes] {
            let stray = text.lines().find(|line| !line.starts_with('#') && !line.contains("pod=\""));
            ensure!(stray.is_none() && !text.contains("foreign"), "not ours: {stray:?}");
        }
        Ok(())
    })
}
