// SPDX-License-Identifier: Apache-2.0
//! Keeps dashboards and alert rules honest: what they ask for is what the services count, and each alert has its page.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked #[test] as tests")]

use std::collections::BTreeSet;

use serde_json::Value;
use tensile_testkit::shipped::{repository, yaml};

const CHARTS: [&str; 4] = ["virtual-node", "webhook", "descheduler", "multi-scheduler"];
/// The page of the alerts.
const PAGE: &str = "docs/src/alerts.md";

fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn rules(chart: &str) -> Vec<Value> {
    let file = yaml(&format!("charts/{chart}/files/alerts.yaml"));
    let groups = file[0]["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn panels(chart: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(&read(&format!("charts/{chart}/files/dashboard.json"))).unwrap();
    file["panels"].as_array().unwrap().clone()
}

/// Names of our metrics in a query, without what a histogram adds to its own.
fn metrics(query: &str) -> BTreeSet<String> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("tensile_"));
    let plain = |word: &str| {
        let ends = ["_bucket", "_count", "_sum"];
        ends.iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word).to_owned()
    };
    ours.map(plain).collect()
}

/// Whether a line of the services' code has this name: whole, or without what all metrics of the multi-scheduler begin with.
fn is_counted(name: &str, code: &str) -> bool {
    let cluster = name.strip_prefix("tensile_multi_scheduler_cluster_");
    let short = cluster.or_else(|| name.strip_prefix("tensile_multi_scheduler_"));
    [Some(name), short].into_iter().flatten().any(|name| code.contains(&format!("\"{name}\"")))
}

fn code() -> String {
    let files = [
        "virtual-kubelet/src/pod/metrics.rs",
        "virtual-kubelet/src/server/certificate/metrics.rs",
        "virtual-node/src/identity/metrics.rs",
        "virtual-node/src/stats/gauges.rs",
        "webhook/src/metrics.rs",
        "descheduler/src/metrics.rs",
        "multi-scheduler/src/metrics.rs",
    ];
    files.iter().map(|file| read(&format!("crates/{file}"))).collect()
}

#[test]
fn every_query_is_about_metrics_that_the_services_have() {
    let code = code();
    let mut named = BTreeSet::new();
    for chart in CHARTS {
        let targets = panels(chart).into_iter().flat_map(|panel| panel["targets"].as_array().unwrap().clone());
        for query in targets.chain(rules(chart)).map(|asks| text(&asks["expr"])) {
            let found = metrics(&query);
            assert!(!found.is_empty(), "{chart} asks for nothing of ours: {query}");
            named.extend(found);
        }
    }
    let unknown: Vec<&String> = named.iter().filter(|name| !is_counted(name, &code)).collect();
    assert!(unknown.is_empty(), "nobody counts {unknown:?}");
    assert!(named.len() > 15, "{named:?}");
}

#[test]
fn every_alert_has_its_section_and_leads_to_it() {
    let page = read(PAGE);
    let sections: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let mut alerts = BTreeSet::new();
    for rule in CHARTS.iter().flat_map(|chart| rules(chart)) {
        let name = text(&rule["alert"]);
        assert_eq!(rule["annotations"]["runbook"], format!("{PAGE}#{}", name.to_lowercase()));
        assert!(rule["annotations"]["summary"].is_string() && rule["labels"]["severity"].is_string(), "{rule}");
        alerts.insert(name);
    }
    assert_eq!(alerts.iter().map(String::as_str).collect::<BTreeSet<_>>(), sections);
}

#[test]
fn panels_have_names_and_numbers_of_their_own() {
    for chart in CHARTS {
        let panels = panels(chart);
        for member in ["id", "title", "description"] {
            let distinct: BTreeSet<String> = panels.iter().map(|panel| panel[member].to_string()).collect();
            assert_eq!(distinct.len(), panels.len(), "{chart}: {member}");
        }
    }
}

#[test]
fn names_of_metrics_are_read_out_of_queries() {
    let query = r#"histogram_quantile(0.99, sum by (le) (rate(tensile_a_seconds_bucket{x="y"}[5m]))) > tensile_b"#;
    assert_eq!(metrics(query), ["tensile_a_seconds", "tensile_b"].map(str::to_owned).into());
    assert!(is_counted("tensile_multi_scheduler_cluster_known", "each(\"known\", ..)"));
    assert!(!is_counted("tensile_pods", "\"tensile_pods_total\""));
}
