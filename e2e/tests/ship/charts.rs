// SPDX-License-Identifier: Apache-2.0
//! The charts by themselves: helm finds nothing wrong, what they render is known, and an API server takes all of it.

use std::fs;

use anyhow::{Context as _, ensure};
use e2e::binaries::SUPPORTED;
use e2e::cluster::Cluster;
use e2e::helm::{chart, helm, of_kind, template};
use e2e::pods::with;
use e2e::ship::CHARTS;
use serde_json::{Value, json};
use tensile_testkit::shipped::repository;

/// Kinds of operators that are not installed here.
const FOREIGN: [&str; 2] = ["PodMonitor", "PrometheusRule"];

/// What a chart cannot do without.
fn least(chart: &str) -> Value {
    match chart {
        "virtual-node" => json!({ "lower": { "existingSecret": "lower" } }),
        // A generated certificate would be another each time.
        "multi-scheduler" => json!({
            "scheduler": { "image": { "repository": "kube-scheduler", "tag": "v1.36.3" } },
            "certificate": { "source": "secret", "secretName": "certificate" },
        }),
        // A dry run makes no namespace for what is in it.
        "descheduler" => json!({ "canary": { "namespace": "default", "create": false } }),
        _ => json!({}),
    }
}

/// All that can be switched on.
fn everything(chart: &str) -> Value {
    let on = json!({
        "podMonitor": { "enabled": true, "labels": { "release": "prometheus" } },
        "prometheusRule": { "enabled": true }, "dashboard": { "enabled": true },
        "networkPolicy": { "enabled": true, "metricsFrom": [{ "namespaceSelector": {} }] },
        "env": [{ "name": "HTTPS_PROXY", "value": "http://proxy:3128" }],
        "settings": {}, "podAnnotations": { "a": "b" }, "nodeSelector": { "role": "infra" },
        "tolerations": [{ "operator": "Exists" }], "priorityClassName": "system-cluster-critical",
        "imagePullSecrets": [{ "name": "registry" }], "serviceAccount": { "name": "", "annotations": { "a": "b" } },
    });
    with(least(chart), on)
}

/// The identity in a lower cluster, with all that its rights can be for.
fn below() -> Value {
    json!({ "cluster": "lower", "settings": { "tenant-isolation": true, "legacy-endpoints": true } })
}

/// Values that render all there is of a chart, each by a name.
fn variants(chart: &str) -> Vec<(&'static str, Value)> {
    let mut all = vec![("least", least(chart)), ("everything", everything(chart))];
    if chart == "virtual-node" {
        all.push(("lower", with(everything(chart), below())));
    }
    all
}

#[test]
fn helm_finds_nothing_wrong_with_any_chart() -> anyhow::Result<()> {
    e2e::run(async {
        for name in CHARTS {
            for (_, values) in variants(name) {
                let file = tempfile::NamedTempFile::new()?;
                fs::write(file.path(), values.to_string())?;
                let (chart, values) = (chart(name), file.path().to_string_lossy().into_owned());
                let told = helm(&["lint", "--strict", "--values", &values, &chart.to_string_lossy()]).await?;
                ensure!(told.contains("1 chart(s) linted, 0 chart(s) failed"), "{told}");
            }
        }
        Ok(())
    })
}

#[test]
fn charts_render_what_they_are_known_to_render() -> anyhow::Result<()> {
    e2e::run(async {
        let folder = repository("e2e/tests/ship/snapshots");
        for name in CHARTS {
            // Half of what everything renders is dashboards.
            for (variant, values) in variants(name).into_iter().filter(|(variant, _)| *variant != "everything") {
                let mut rendered = String::new();
                for object in template(name, "r", "default", &values).await? {
                    rendered += "---\n";
                    rendered += &serde_saphyr::to_string(&object)?;
                }
                let path = folder.join(format!("{name}-{variant}.yaml"));
                if std::env::var_os("TENSILE_BLESS").is_some() {
                    fs::write(&path, &rendered)?;
                }
                let known = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                ensure!(rendered == known, "{name} renders something else: TENSILE_BLESS=1 writes it anew\n{rendered}");
            }
        }
        Ok(())
    })
}

#[test]
fn an_api_server_takes_all_that_any_chart_renders() -> anyhow::Result<()> {
    e2e::run(async {
        let oldest = SUPPORTED.last().context("no version")?;
        let cluster = Cluster::builder("charts").version(oldest).start().await?;
        for name in CHARTS {
            for (variant, values) in variants(name) {
                let objects = template(name, "other", "default", &values).await?;
                let ours = objects.iter().filter(|object| !FOREIGN.iter().any(|kind| object["kind"] == *kind));
                let dry = cluster.apply(ours, &["--dry-run=server"]).await;
                dry.with_context(|| format!("{name}: {variant}"))?;
            }
        }
        Ok(())
    })
}

#[test]
fn what_is_watched_is_there_only_when_it_is_wanted() -> anyhow::Result<()> {
    e2e::run(async {
        for name in CHARTS {
            let kinds = ["PodMonitor", "PrometheusRule", "NetworkPolicy"];
            let few = template(name, "r", "ns", &least(name)).await?;
            let all = template(name, "r", "ns", &everything(name)).await?;
            for kind in kinds {
                let (none, one) = (of_kind(&few, kind).count(), of_kind(&all, kind).count());
                ensure!((none, one) == (0, 1), "{name} has {none} and {one} {kind}");
            }
            let rules = of_kind(&all, "PrometheusRule").next().context("no rules")?;
            ensure!(rules["spec"]["groups"][0]["rules"][0]["alert"].is_string(), "{rules}");
            let mut boards =
                of_kind(&all, "ConfigMap").filter_map(|map| map["data"][format!("tensile-{name}.json")].as_str());
            let board: Value =
                serde_json::from_str(boards.next().with_context(|| format!("{name} has no dashboard"))?)?;
            ensure!(board["panels"].is_array(), "{board}");
        }
        let lower = template("virtual-node", "r", "ns", &with(everything("virtual-node"), below())).await?;
        let process = ["Deployment", "ConfigMap", "PodMonitor", "PrometheusRule", "NetworkPolicy"];
        ensure!(process.iter().all(|kind| of_kind(&lower, kind).count() == 0), "of a process elsewhere: {lower:?}");
        Ok(())
    })
}

#[test]
fn one_release_can_have_several_virtual_nodes_with_values_of_their_own() -> anyhow::Result<()> {
    e2e::run(async {
        let values = json!({ "log": { "level": "debug" }, "nodes": {
            "east": { "lower": { "existingSecret": "lower-east" } },
            "west": { "lower": { "existingSecret": "lower-west" }, "namespaces": ["team"], "log": { "level": "warn" } },
        } });
        let objects = template("virtual-node", "nodes", "ns", &values).await?;
        let named = |kind: &'static str| -> Vec<&str> {
            of_kind(&objects, kind).filter_map(|object| object["metadata"]["name"].as_str()).collect()
        };
        for kind in ["Deployment", "ServiceAccount", "ConfigMap"] {
            ensure!(named(kind) == ["nodes-virtual-node-east", "nodes-virtual-node-west"], "{kind}: {:?}", named(kind));
        }
        let deployments: Vec<&Value> = of_kind(&objects, "Deployment").collect();
        for (deployment, node, level) in [(deployments[0], "east", "debug"), (deployments[1], "west", "warn")] {
            let pod = &deployment["spec"]["template"]["spec"];
            let args = pod["containers"][0]["args"].to_string();
            ensure!(args.contains(&format!("--nodename={node}\"")), "{args}");
            ensure!(args.contains(&format!("--log-level={level}\"")), "{args}");
            ensure!(pod.to_string().contains(&format!("\"secretName\":\"lower-{node}\"")), "{pod}");
            let selector = &deployment["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"];
            ensure!(selector == node, "their pods are mixed up: {selector}");
        }
        let inside: Vec<&Value> =
            of_kind(&objects, "RoleBinding").filter(|binding| binding["metadata"]["namespace"] == "team").collect();
        ensure!(inside.len() == 1 && inside[0]["subjects"][0]["name"] == "nodes-virtual-node-west", "{inside:?}");
        Ok(())
    })
}

#[test]
fn values_of_the_virtual_node_that_mean_nothing_are_refused() -> anyhow::Result<()> {
    e2e::run(async {
        for (values, word) in [
            (json!({}), "existingSecret"),
            (json!({ "lower": { "existingSecret": "a" }, "replicas": 2 }), "replicas"),
            (json!({ "nodes": { "East": { "lower": { "existingSecret": "a" } } } }), "East"),
            (json!({ "nodes": { "east": { "lower": { "existingSecret": "a" }, "image": {} } } }), "image"),
            (json!({ "lower": { "existingSecret": "a" }, "settings": { "nodename": "a" } }), "nodename"),
        ] {
            let refused = template("virtual-node", "r", "ns", &values).await.err().context("it was rendered")?;
            let refused = format!("{refused:#}");
            ensure!(refused.contains(word), "{values}: {refused}");
        }
        Ok(())
    })
}
