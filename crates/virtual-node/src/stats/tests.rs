// SPDX-License-Identifier: Apache-2.0
//! Who is asked, how often, and what becomes of it when some or all do not answer: against a lower API server that is a
//! function.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures::future::join_all;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tensile_core::stats::{Member, Wanted};

use super::*;

/// A lower cluster, as far as metrics go.
#[derive(Default)]
struct Lower {
    /// We may use the node proxy.
    proxy: AtomicBool,
    /// There is a metrics API, and we may list pods there.
    metrics_api: AtomicBool,
    /// Kubelet `two` says nothing.
    two_is_dead: AtomicBool,
    asked: Mutex<Vec<String>>,
}

impl Lower {
    fn asked(&self, about: &str) -> Vec<String> {
        self.asked.lock().unwrap().iter().filter(|path| path.contains(about)).cloned().collect()
    }

    async fn answer(&self, path: &str, body: &Value) -> (u16, String) {
        self.asked.lock().unwrap().push(path.to_owned());
        let proxy = self.proxy.load(Ordering::Relaxed);
        if path.contains("/selfsubjectaccessreviews") {
            let asked = &body["spec"]["resourceAttributes"];
            let allowed = match (asked["resource"].as_str(), asked["subresource"].as_str()) {
                (Some("nodes"), Some("proxy")) => proxy,
                (Some("pods"), None) => asked["group"] == "metrics.k8s.io",
                _ => false,
            };
            return (201, json!({"spec": {}, "status": {"allowed": allowed}}).to_string());
        }
        if let Some(node) = path.strip_prefix("/api/v1/nodes/") {
            let (node, document) = node.split_once("/proxy/").unwrap();
            return match (proxy, node) {
                (false, _) => (403, "nodes/proxy is forbidden".to_owned()),
                (true, "two") if self.two_is_dead.load(Ordering::Relaxed) => std::future::pending().await,
                (true, node) => (200, kubelet(node, document)),
            };
        }
        if self.metrics_api.load(Ordering::Relaxed) && path.starts_with("/apis/metrics.k8s.io/v1beta1") {
            return (200, METRICS.to_owned());
        }
        (404, "not found".to_owned())
    }
}

/// What the kubelet of a node with one pod of ours says, and of one of others.
fn kubelet(node: &str, document: &str) -> String {
    if document.starts_with("stats/summary") {
        let pod = |name: &str| {
            json!({
                "podRef": {"name": name, "namespace": "ns", "uid": format!("below-{name}")},
                "cpu": {"time": "2100-01-01T00:00:00Z", "usageNanoCores": 5, "usageCoreNanoSeconds": 2_000_000_000},
                "memory": {"time": "2100-01-01T00:00:00Z", "workingSetBytes": 100},
                "asked": document,
            })
        };
        return json!({"node": {"nodeName": node}, "pods": [pod(node), pod("foreign")]}).to_string();
    }
    let metric = |name: &str, value: u32| {
        let sample = |pod: &str| format!("{name}{{namespace=\"ns\",pod=\"{pod}\"}} {value} 4102444800000\n");
        format!("# TYPE {name} gauge\n{}{}", sample(node), sample("foreign"))
    };
    metric("pod_cpu_usage_seconds_total", 2)
        + &metric("pod_memory_working_set_bytes", 100)
        + "node_memory_working_set_bytes 9\n"
}

const METRICS: &str = r#"{"items":[{"metadata":{"name":"one","namespace":"ns"},"timestamp":"2100-01-01T00:00:00Z","window":"10s",
    "containers":[{"name":"main","usage":{"cpu":"500m","memory":"1Ki"}}]}]}"#;

/// A client of a server that answers so.
fn client<F>(answer: impl Fn(String, Value) -> F + Clone + Send + 'static) -> Client
where
    F: Future<Output = (u16, String)> + Send + 'static,
{
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::from(String::from_utf8(bytes.to_vec()).unwrap()));
            let (code, text) = answer(parts.uri.to_string(), body).await;
            Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(text.into_bytes())).unwrap())
        }
    });
    Client::new(service, "default")
}

/// Pod `ns/NAME` runs on lower node NAME.
fn member(name: &str) -> Member {
    Member {
        namespace: "ns".into(),
        name: name.into(),
        below: ("ns".into(), name.into()),
        uid: format!("above-{name}").into(),
        lower_uid: format!("below-{name}").into(),
        lower_node: name.into(),
        // After any time at which these tests run: what they used counts whole.
        since: Some(4_000_000_000_000),
        running: [("main".into(), 4_000_000_000_000)].into(),
    }
}

/// Statistics of one pod on node `one` and one on node `two`, with the source chosen.
async fn stats(lower: &Arc<Lower>, wanted: Wanted) -> LowerStats {
    let server = lower.clone();
    let below = Below {
        client: client(move |path, body| {
            let server = server.clone();
            async move { server.answer(&path, &body).await }
        }),
        selector: "a=b".to_owned(),
        roster: Box::new(|| ["one", "two"].map(member).into_iter().collect()),
    };
    let settings = StatsSettings { source: wanted, store: None };
    let stats = LowerStats::new(below, "virtual", &settings, &Registry::new()).unwrap();
    stats.sources.decide("virtual").await;
    stats
}

fn lower(proxy: bool, metrics_api: bool) -> Arc<Lower> {
    Arc::new(Lower { proxy: proxy.into(), metrics_api: metrics_api.into(), ..Lower::default() })
}

fn samples(text: &Bytes) -> Vec<String> {
    let text = String::from_utf8(text.to_vec()).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[tokio::test]
async fn kubelets_that_run_our_pods_are_asked_once_however_many_read() {
    let lower = lower(true, true);
    let stats = stats(&lower, Wanted::Auto).await;
    let answers = join_all((0..50).map(|_| stats.resource())).await;
    let expected = [
        "node_cpu_usage_seconds_total 4.000001 4102444800000",
        "node_memory_working_set_bytes 200 4102444800000",
        r#"pod_cpu_usage_seconds_total{namespace="ns",pod="one"} 2 4102444800000"#,
        r#"pod_cpu_usage_seconds_total{namespace="ns",pod="two"} 2 4102444800000"#,
        r#"pod_memory_working_set_bytes{namespace="ns",pod="one"} 100 4102444800000"#,
        r#"pod_memory_working_set_bytes{namespace="ns",pod="two"} 100 4102444800000"#,
        "resource_scrape_error 0",
    ];
    for answer in answers {
        let mut samples = samples(&answer.unwrap());
        samples.sort();
        assert_eq!(samples, expected);
    }
    let mut asked = lower.asked("/proxy/");
    asked.sort();
    assert_eq!(asked, ["/api/v1/nodes/one/proxy/metrics/resource", "/api/v1/nodes/two/proxy/metrics/resource"]);
}

#[tokio::test]
async fn every_document_of_kubelets_has_its_path() {
    let lower = lower(true, false);
    let stats = stats(&lower, Wanted::Auto).await;
    assert!(samples(&stats.cadvisor().await.unwrap())[0].contains("pod=\"one\""));
    assert_eq!(lower.asked("/proxy/metrics/cadvisor").len(), 2);
    assert_eq!(samples(&stats.probes().await.unwrap()).len(), 4, "no metrics of the node itself");
    assert_eq!(lower.asked("/proxy/metrics/probes").len(), 2);
    for (brief, path) in [(false, "stats/summary"), (true, "stats/summary?only_cpu_and_memory=true")] {
        let summary: Value = serde_json::from_slice(&stats.summary(brief).await.unwrap()).unwrap();
        assert_eq!(summary["node"]["memory"]["workingSetBytes"], 200);
        assert_eq!(summary["node"]["cpu"]["usageCoreNanoSeconds"], 4_000_001_000_u64);
        let uids: BTreeSet<&str> =
            summary["pods"].as_array().unwrap().iter().map(|pod| pod["podRef"]["uid"].as_str().unwrap()).collect();
        assert_eq!(uids, ["above-one", "above-two"].into());
        assert_eq!(summary["pods"][0]["asked"], path);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_kubelet_holds_nobody_up_for_long_and_its_silence_is_told() {
    let lower = lower(true, false);
    lower.two_is_dead.store(true, Ordering::Relaxed);
    let stats = stats(&lower, Wanted::Auto).await;
    let answer = tokio::time::timeout(Duration::from_secs(6), stats.resource()).await.unwrap();
    let samples = samples(&answer.unwrap());
    assert!(samples.contains(&"resource_scrape_error 1".to_owned()), "{samples:?}");
    assert!(samples.contains(&"node_cpu_usage_seconds_total 2.000001 4102444800000".to_owned()), "{samples:?}");
    assert!(!samples.iter().any(|sample| sample.contains("\"two\"")), "{samples:?}");
}

#[tokio::test(start_paused = true)]
async fn when_the_right_is_taken_away_the_metrics_api_is_asked_and_when_it_is_given_back_the_kubelets() {
    let lower = lower(true, true);
    let stats = Arc::new(stats(&lower, Wanted::Auto).await);
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (stats, stop) = (stats.clone(), stop.clone());
        async move { stats.run(stop).await }
    });
    assert_eq!(samples(&stats.resource().await.unwrap()).len(), 7);
    lower.proxy.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(stats.resource().await.unwrap_err().status(), StatusCode::BAD_GATEWAY);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let by_rate = samples(&stats.resource().await.unwrap());
    let container =
        r#"container_cpu_usage_seconds_total{container="main",namespace="ns",pod="one"} 5.000001 4102444800000"#;
    assert!(by_rate.contains(&container.to_owned()), "{by_rate:?}");
    assert_eq!(lower.asked("metrics.k8s.io/v1beta1/pods"), ["/apis/metrics.k8s.io/v1beta1/pods?labelSelector=a%3Db"]);
    lower.proxy.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(70)).await;
    let by_kubelets = samples(&stats.resource().await.unwrap());
    assert!(by_kubelets.iter().any(|sample| sample.contains("\"two\"")), "{by_kubelets:?}");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn what_a_source_lacks_and_the_lack_of_all_sources_is_not_implemented() {
    let stats_of = async |metrics_api| stats(&lower(false, metrics_api), Wanted::Auto).await;
    let by_rate = stats_of(true).await;
    assert_eq!(by_rate.cadvisor().await.unwrap_err().status(), StatusCode::NOT_IMPLEMENTED);
    assert_eq!(by_rate.probes().await.unwrap_err().status(), StatusCode::NOT_IMPLEMENTED);
    let summary: Value = serde_json::from_slice(&by_rate.summary(true).await.unwrap()).unwrap();
    assert_eq!(summary["pods"][0]["containers"][0]["cpu"]["usageNanoCores"], 500_000_000);
    let nothing = stats_of(false).await.resource().await.unwrap_err();
    assert_eq!(nothing.status(), StatusCode::NOT_IMPLEMENTED);
    assert!(nothing.to_string().contains("may not get nodes/proxy"), "{nothing}");
}

#[tokio::test]
async fn a_store_is_asked_four_times_for_all_pods() {
    // In the format of Prometheus' documented HTTP API; not recorded from a server.
    let vector = |value: &str| {
        let metric = r#"{"container":"main","namespace":"ns","pod":"one"}"#;
        format!(
            r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{metric},"value":[4102444801.5,"{value}"]}}]}}}}"#
        )
    };
    let queries = Arc::new(Mutex::new(Vec::new()));
    let seen = queries.clone();
    let store = client(move |path, form| {
        let form = form.as_str().unwrap_or_default().to_owned();
        assert_eq!(path, "/api/v1/query");
        let answer = match form.as_str() {
            form if form.starts_with("query=timestamp") => vector("4102444800.25"),
            form if form.contains("cpu") => vector("2.5"),
            _ => vector("4096"),
        };
        seen.lock().unwrap().push(form);
        async move { (200, answer) }
    });
    let mut stats = stats(&lower(false, false), Wanted::Only(Source::Prometheus)).await;
    stats.store = Some(Store::with(store, "cluster=\"east\""));
    let samples = samples(&stats.resource().await.unwrap());
    for expected in [
        r#"container_cpu_usage_seconds_total{container="main",namespace="ns",pod="one"} 2.5 4102444800250"#,
        r#"container_memory_working_set_bytes{container="main",namespace="ns",pod="one"} 4096 4102444800250"#,
        "node_cpu_usage_seconds_total 2.500002 4102444800250",
    ] {
        assert!(samples.contains(&expected.to_owned()), "{samples:?}");
    }
    let queries = queries.lock().unwrap();
    assert_eq!(queries.len(), 4);
    assert!(queries.iter().all(|query| query.contains("cluster%3D%22east%22")), "{queries:?}");
}

#[tokio::test(start_paused = true)]
async fn who_asks_before_it_is_known_what_there_is_waits_for_it() {
    let lower = lower(true, false);
    let stats = stats(&lower, Wanted::Auto).await;
    let fresh = Sources::new(stats.below.client.clone(), Wanted::Auto, false);
    let (choice, _) = tokio::join!(fresh.chosen(), async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        fresh.decide("virtual").await
    });
    assert_eq!(choice.unwrap().source, Source::Kubelet);
    let never = Sources::new(stats.below.client.clone(), Wanted::Auto, false);
    assert_eq!(never.chosen().await.unwrap_err().status, StatusCode::BAD_GATEWAY);
}
