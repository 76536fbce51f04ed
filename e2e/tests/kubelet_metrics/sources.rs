// SPDX-License-Identifier: Apache-2.0
//! Other sources than the lower kubelets: the metrics API, for a virtual node with no more rights below than it is given,
//! and a metric store.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use e2e::cluster::{Cluster, client_of};
use e2e::kubeconfig::User;
use e2e::link::Link;
use e2e::pods::{PATIENCE, Pods, with};
use e2e::prometheus::Prometheus;
use e2e::real_node;
use e2e::wait::eventually;
use http::Request;
use kube::client::Body;
use serde_json::json;

use super::{BUSY, World, ask, sample, test};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/virtual-node/files");

/// A kubeconfig with a token of a service account.
async fn kubeconfig(cluster: &Cluster, namespace: &str, account: &str) -> anyhow::Result<PathBuf> {
    let token = cluster.kubectl(&["create", "token", account, "--namespace", namespace]).await?;
    cluster.kubeconfig_for(account, None, &User::Token(String::from_utf8(token.stdout)?.trim()))
}

/// A pod on a further virtual node, and what that node's `/metrics/resource` says of it: a counter that goes on, from
/// this source.
async fn until_counted(world: &World, above: &Pods, link: &Link, source: &str) -> anyhow::Result<()> {
    let (upper, node, namespace) = (&world.pair.upper, link.name(), above.namespace());
    let pod = with(link.pod("busy"), real_node::pod("busy", BUSY));
    let mut pod = with(pod, json!({ "spec": { "automountServiceAccountToken": false } }));
    pod["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": "50m", "memory": "64Mi" } });
    above.create(&pod).await?;
    above.until_ready("busy").await?;

    let chosen = format!("tensile_stats_source{{node=\"{node}\",source=\"{source}\"}}");
    eventually(PATIENCE, "the choice is told", async || {
        let (_, metrics) = ask(upper, node, "metrics").await?;
        ensure!(sample(&metrics, &chosen)?.0 > 0.0, "{metrics}");
        Ok(())
    })
    .await?;
    let of_pod = format!("{{container=\"main\",namespace=\"{namespace}\",pod=\"busy\"}}");
    let cpu = format!("container_cpu_usage_seconds_total{of_pod}");
    let read = async || sample(&ask(upper, node, "metrics/resource").await?.1, &cpu);
    let (used, at) = eventually(PATIENCE, "there is a counter", read).await?;
    ensure!(used > 0.0 && at.is_some(), "{used} at {at:?}");
    eventually(PATIENCE, "it goes on", async || {
        let (more, later) = read().await?;
        ensure!(more > used && later > at, "{used} at {at:?}, then {more} at {later:?}");
        Ok(())
    })
    .await?;
    let (_, resource) = ask(upper, node, "metrics/resource").await?;
    ensure!(sample(&resource, &format!("container_memory_working_set_bytes{of_pod}"))?.0 > 0.0, "{resource}");
    ensure!(sample(&resource, &format!("container_start_time_seconds{of_pod}"))?.0 > 1.7e9, "{resource}");
    let lacking = ask(upper, node, "metrics/cadvisor").await.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(lacking.contains("501") && lacking.contains(&format!("{source} has no such metrics")), "{lacking}");
    Ok(())
}

#[test]
fn without_the_right_to_ask_kubelets_the_metrics_api_is_asked_and_its_rates_become_counters() -> anyhow::Result<()> {
    test("rates", async |world, above, _| {
        let (upper, lower) = (&world.pair.upper, &world.pair.lower);
        world.below.until_told(lower, &["node", world.pair.node.name()]).await?;
        lower.kubectl(&["apply", "-f", &format!("{CHART}/lower-rbac.yaml")]).await?;
        let limited = kubeconfig(lower, "tensile", "virtual-node").await?;
        let address = world.pair.node.address().to_string();
        let link = Link::builder(upper, lower, "by-rates").lower_kubeconfig(&limited).node_ip(&address).certified()?;
        until_counted(world, above, &link.start().await?, "metrics-api").await
    })
}

#[test]
fn a_real_prometheus_is_a_source_for_kubectl_top() -> anyhow::Result<()> {
    test("store", async |world, above, _| {
        let pair = &world.pair;
        let store = Prometheus::start(&pair.lower, &pair.node).await?;
        let address = pair.node.address().to_string();
        let link = Link::builder(&pair.upper, &pair.lower, "by-store").node_ip(&address).certified()?;
        let link = link.args(&["--metrics-source=prometheus", "--prometheus-url", &store.url()]).start().await?;
        until_counted(world, above, &link, "prometheus").await?;
        let top = ["pod", "busy", "--namespace", above.namespace(), "--no-headers"];
        let top = world.above.until_told(&pair.upper, &top).await?;
        let cores = top.split_whitespace().nth(1).and_then(|cpu| cpu.strip_suffix('m')).context("no CPU")?;
        ensure!((1..=1_100).contains(&cores.parse::<u32>()?), "{top}");
        Ok(())
    })
}

#[test]
fn the_finer_rights_of_kubelets_do_not_open_them_through_an_api_server() -> anyhow::Result<()> {
    test("rights", async |world, above, _| {
        let (lower, node) = (&world.pair.lower, world.pair.node.name());
        e2e::namespace::make(above.namespace(), lower).await?;
        let namespace = above.namespace();
        let (fine, account) = ("--resource=nodes/metrics,nodes/stats", format!("--serviceaccount={namespace}:fine"));
        for args in [
            ["create", "serviceaccount", "fine", "--namespace", namespace].as_slice(),
            &["create", "clusterrole", "fine", "--verb=get", fine],
            &["create", "clusterrolebinding", "fine", "--clusterrole=fine", &account],
        ] {
            lower.kubectl(args).await?;
        }
        let user = format!("--as=system:serviceaccount:{namespace}:fine");
        let may = ["auth", "can-i", "get", &format!("nodes/{node}"), "--subresource=metrics", &user];
        eventually(PATIENCE, "the rights count", async || lower.kubectl(&may).await).await?;
        let client = client_of(&kubeconfig(lower, namespace, "fine").await?).await?;
        let request = Request::get(format!("/api/v1/nodes/{node}/proxy/metrics/resource")).body(Body::empty())?;
        let status = client.send(request).await?.status();
        ensure!(status == 403, "{status}");
        Ok(())
    })
}
