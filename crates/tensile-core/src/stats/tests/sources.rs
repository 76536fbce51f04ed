// SPDX-License-Identifier: Apache-2.0
//! The metrics API and metric stores, as they answer, and what is written of it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{super::*, *};

#[test]
fn the_metrics_api_is_read_as_it_answers() {
    // In the shape that metrics-server 0.8 answers with.
    let answer = r#"{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[
        {"metadata":{"name":"web","namespace":"ns","creationTimestamp":"2026-01-02T03:05:00Z","labels":{"a":"b"}},
         "timestamp":"2026-01-02T03:04:50Z","window":"14.537s",
         "containers":[{"name":"main","usage":{"cpu":"1539n","memory":"5516Ki"}},{"name":"side","usage":{"cpu":"0","memory":"1"}}]},
        {"metadata":{"name":"odd","namespace":"ns"},"timestamp":"then","window":"1s","containers":[]}]}"#;
    let rate = |nano_cores| Rate { nano_cores, at: 1_767_323_090_000, window: 14_537 };
    assert_eq!(
        pod_metrics(answer.as_bytes()).unwrap(),
        [PodMetrics {
            namespace: "ns".to_owned(),
            name: "web".to_owned(),
            containers: vec![("main".to_owned(), rate(1_539), 5_516 * 1_024), ("side".to_owned(), rate(0), 1)],
        }]
    );
    assert!(pod_metrics(b"{}").is_err());
}

fn vector(series: &[(Value, f64, &str)]) -> Vec<u8> {
    let result: Vec<Value> =
        series.iter().map(|(metric, time, value)| json!({"metric": metric, "value": [time, value]})).collect();
    json!({"status": "success", "data": {"resultType": "vector", "result": result}}).to_string().into_bytes()
}

/// Series with their values and the times they were scraped at.
fn values(series: &[(Value, &str, &str)]) -> BTreeMap<(String, String), (f64, Millis)> {
    let evaluated = 1_767_323_100.0;
    let (said, times): (Vec<_>, Vec<_>) = series
        .iter()
        .map(|(metric, value, time)| ((metric.clone(), evaluated, *value), (metric.clone(), evaluated, *time)))
        .unzip();
    let found = container_values(&vector(&said), &vector(&times), &roster(&["a", "b"])).unwrap();
    found.into_iter().map(|((pod, container), value)| ((pod.to_string(), container.into()), value)).collect()
}

fn labels(pod: &str, more: &[(&str, &str)]) -> Value {
    let mut labels = json!({"namespace": "ns", "pod": pod, "container": "main"});
    for (key, value) in more {
        labels[*key] = json!(value);
    }
    labels
}

#[test]
fn a_store_tells_value_and_time_of_each_container_of_ours() {
    let found = values(&[
        (labels("a", &[]), "12.5", "1767323090.25"),
        (labels("theirs", &[]), "99", "1767323090.25"),
        (labels("b", &[("container", "")]), "99", "1767323090.25"),
        (labels("b", &[]), "NaN", "1767323090.25"),
    ]);
    assert_eq!(found, [(("above-a".to_owned(), "main".to_owned()), (12.5, 1_767_323_090_250))].into());
}

#[test]
fn of_several_series_the_one_scraped_last_counts_whichever_comes_first() {
    let (earlier, later) = (
        (labels("a", &[("id", "/pod/below-a/1")]), "500", "100"),
        (labels("a", &[("id", "/pod/below-a/2")]), "3", "115"),
    );
    for series in [[earlier.clone(), later.clone()], [later, earlier]] {
        assert_eq!(values(&series).into_values().collect::<Vec<_>>(), [(3.0, 115_000)]);
    }
}

#[test]
fn a_series_of_an_earlier_pod_of_the_name_is_not_taken() {
    for (more, taken) in [
        (("id", "/kubepods/burstable/podbelow-a/4f1c"), true),
        (("id", "/kubepods.slice/kubepods-podbelow_a.slice/cri-4f1c.scope"), true),
        (("id", "/kubepods/burstable/podearlier/4f1c"), false),
        (("node", "lower-1"), true),
        (("node", "lower-2"), false),
    ] {
        assert_eq!(values(&[(labels("a", &[more]), "1", "100")]).len(), usize::from(taken), "{more:?}");
    }
}

#[test]
fn a_store_that_refuses_is_an_error_in_its_own_words() {
    let refusal = br#"{"status":"error","errorType":"bad_data","error":"unknown function \"timestam\""}"#;
    let error = container_values(refusal, refusal, &roster(&[])).unwrap_err();
    assert_eq!(error.to_string(), "unknown function \"timestam\"");
    assert!(matches!(container_values(b"<html>", b"<html>", &roster(&[])), Err(StoreError::Unreadable(_))));
}

fn usage(member: &Member) -> PodUsage<'_> {
    let container = |name: &str, started, nanos, nano_cores, memory| ContainerUsage {
        name: name.into(),
        started,
        cpu: Reading { at: 1_767_323_090_250, nanos },
        nano_cores,
        memory,
    };
    PodUsage {
        member,
        cpu: Some(Reading { at: 1_767_323_090_250, nanos: 1_234_567_890 }),
        containers: vec![
            container("main", Some(1_767_323_000_000), 1_200_000_000, Some(7), 100),
            container("side", None, 1_000, Some(3), 1),
        ],
    }
}

fn node(cpu: Option<Reading>) -> NodeUsage<'static> {
    NodeUsage { name: "virtual", since: 1_767_323_000_000, cpu, nano_cores: Some(10), memory: 101 }
}

#[test]
fn usage_is_written_as_a_kubelet_writes_it() {
    let member = member("a");
    let text =
        exposition(&node(Some(Reading { at: 1_767_323_090_250, nanos: 2_000_000_001 })), &[usage(&member)], true);
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        samples,
        [
            r#"container_cpu_usage_seconds_total{container="main",namespace="ns",pod="a"} 1.2 1767323090250"#,
            r#"container_cpu_usage_seconds_total{container="side",namespace="ns",pod="a"} 0.000001 1767323090250"#,
            r#"container_memory_working_set_bytes{container="main",namespace="ns",pod="a"} 100 1767323090250"#,
            r#"container_memory_working_set_bytes{container="side",namespace="ns",pod="a"} 1 1767323090250"#,
            r#"container_start_time_seconds{container="main",namespace="ns",pod="a"} 1767323000.000"#,
            "node_cpu_usage_seconds_total 2.000000001 1767323090250",
            "node_memory_working_set_bytes 101 1767323090250",
            r#"pod_cpu_usage_seconds_total{namespace="ns",pod="a"} 1.23456789 1767323090250"#,
            r#"pod_memory_working_set_bytes{namespace="ns",pod="a"} 101 1767323090250"#,
            "resource_scrape_error 0",
        ]
    );
    for kind in ["container_cpu_usage_seconds_total counter", "node_memory_working_set_bytes gauge"] {
        assert!(text.contains(&format!("# TYPE {kind}\n")), "{text}");
    }
}

#[test]
fn without_pods_there_is_no_sample_of_any_and_what_is_missing_is_told() {
    let text = exposition(&node(None), &[], false);
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(samples, ["resource_scrape_error 1"]);
}

#[test]
fn the_summary_of_usage_has_the_members_of_a_kubelets() {
    let member = member("a");
    let shown = summary::of_usage(&node(None), &[usage(&member)]);
    assert_eq!(shown["node"], json!({"nodeName": "virtual", "startTime": "2026-01-02T03:03:20Z"}));
    assert_eq!(shown["pods"][0]["podRef"], json!({"name": "a", "namespace": "ns", "uid": "above-a"}));
    assert_eq!(shown["pods"][0]["startTime"], "1970-01-01T00:00:05Z");
    assert_eq!(
        shown["pods"][0]["cpu"],
        json!({"time": "2026-01-02T03:04:50Z", "usageNanoCores": 10, "usageCoreNanoSeconds": 1_234_567_890})
    );
    assert_eq!(
        shown["pods"][0]["containers"][0],
        json!({
            "name": "main",
            "startTime": "2026-01-02T03:03:20Z",
            "cpu": {"time": "2026-01-02T03:04:50Z", "usageNanoCores": 7, "usageCoreNanoSeconds": 1_200_000_000},
            "memory": {"time": "2026-01-02T03:04:50Z", "workingSetBytes": 100},
        })
    );
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let roster = roster(&["a"]);
        drop(pod_metrics(&bytes));
        drop(container_values(&bytes, &bytes, &roster));
        let mut broken = vector(&[(labels("a", &[]), 1.0, "2")]);
        let at = cut.index(broken.len());
        broken[at] = byte;
        drop(container_values(&broken, &broken, &roster));
    }
}
