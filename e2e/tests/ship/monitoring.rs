// SPDX-License-Identifier: Apache-2.0
//! What there is to look at: a real Prometheus scrapes the services, and every panel and every alert finds what it asks for.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::helm::chart;
use e2e::objects::Objects;
use e2e::prometheus::Prometheus;
use e2e::ship::CHARTS;
use e2e::ship::lab::{Lab, NAMESPACE};
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// Everything has been scraped and evaluated several times after this.
const SCRAPED: Duration = Duration::from_secs(90);

/// Starts a Prometheus that scrapes all pods of the releases and has all rules, and asks what the dashboards ask.
pub(crate) async fn shows_data(lab: &Lab) -> anyhow::Result<()> {
    let pods = Objects::within::<Pod>(&lab.upper, NAMESPACE).list("", "app.kubernetes.io/part-of=tensile").await?;
    let targets: Vec<String> = pods.iter().flat_map(endpoints).collect();
    ensure!(targets.len() >= CHARTS.len(), "only {targets:?}");
    let rules: Vec<_> = CHARTS.iter().map(|name| chart(name).join("files/alerts.yaml")).collect();
    let config = json!({
        "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
        "rule_files": rules,
        "scrape_configs": [{ "job_name": "tensile", "static_configs": [{ "targets": targets }] }],
    });
    let prometheus = Prometheus::configured(&lab.upper, &config).await?;
    for chart in CHARTS {
        for (panel, query) in queries(chart)? {
            eventually(SCRAPED, &format!("panel {panel:?} of {chart} has data: {query}"), async || {
                ensure!(!prometheus.query(&query).await?.is_empty(), "none");
                Ok(())
            })
            .await?;
        }
    }
    eventually(SCRAPED, "every rule has been evaluated", async || {
        let rules = prometheus.rules().await?;
        let wrong: Vec<&Value> = rules.iter().filter(|rule| rule["health"] != "ok").collect();
        ensure!(rules.len() > 10 && wrong.is_empty(), "{} rules, of them not: {wrong:?}", rules.len());
        Ok(())
    })
    .await
}

/// Where the containers of a pod show their metrics, by the name of the port.
fn endpoints(pod: &Value) -> Vec<String> {
    let ports = pod["spec"]["containers"].as_array().into_iter().flatten();
    let ports = ports.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let metrics = ports.filter(|port| port["name"] == "metrics");
    metrics
        .map(|port| format!("{}:{}", pod["status"]["podIP"].as_str().unwrap_or_default(), port["containerPort"]))
        .collect()
}

/// The title of each panel with its queries, with what Grafana puts in place of variables.
fn queries(name: &str) -> anyhow::Result<Vec<(String, String)>> {
    let dashboard: Value = serde_json::from_slice(&std::fs::read(chart(name).join("files/dashboard.json"))?)?;
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().context("no panels")? {
        for target in panel["targets"].as_array().context("no targets")? {
            let query = target["expr"].as_str().context("no query")?.replace("$__rate_interval", "30s");
            let query = query.replace("$node", ".*").replace("$cluster", ".*");
            queries.push((panel["title"].as_str().context("no title")?.to_owned(), query));
        }
    }
    Ok(queries)
}
