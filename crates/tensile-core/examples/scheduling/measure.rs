//! What is measured, and the table of it.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::cast_precision_loss, reason = "figures are printed")]
#![allow(clippy::disallowed_methods, reason = "what measures the core reads clocks; the core does not")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tensile_core::pod::LinkView;
use tensile_core::scheduling::{Change, Cluster, Kind, Question, Unknown};
use tensile_testkit::fuzz::Numbers;

use crate::fleet::{self, PODS_PER_NODE, Pod};

/// Lower clusters.
const CLUSTERS: usize = 100;
/// Nodes of each, in the sizes that are compared.
const SIZES: [usize; 4] = [125, 250, 500, 1000];
/// Objects that are generated before they are brought in: generating is not measured.
const BATCH: usize = 1_000;
/// Events that are measured.
const EVENTS: usize = 200_000;
/// Questions of each kind.
const QUESTIONS: usize = 200;

/// Builds each size, asks it, and prints the figures.
pub(crate) fn run() {
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build, its figures mean nothing");
    }
    println!("{CLUSTERS} clusters, {PODS_PER_NODE} pods a node, one thread. A question is put to all clusters.\n");
    println!(
        "| Nodes | Pods | Start s | MiB | Events/s | of which unchanged/s | Question | Fit in | p50 µs | p99 µs |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for nodes in SIZES {
        size(nodes);
    }
    println!("\nMaking the question for an upper pod takes {:.1} µs.", translation().as_secs_f64() * 1e6);
}

/// What it takes to make the question for one upper pod and one virtual node.
fn translation() -> Duration {
    let link = LinkView { virtual_node: "east".to_owned(), upper_cluster: "upper".to_owned(), ..LinkView::default() };
    let mut pods: Vec<Value> = questions().into_iter().map(|(_, pod)| pod).collect();
    for pod in &mut pods {
        pod["metadata"]["uid"] = json!("d9f0c1de-8f1c-4f4e-9c0a-0f8a2b6c7d8e");
    }
    let start = Instant::now();
    let asked = (0..QUESTIONS).flat_map(|_| &pods).filter_map(|pod| Question::of(pod, &link, Unknown::Deny).ok());
    let made = asked.count();
    start.elapsed() / u32::try_from(made.max(1)).unwrap_or(1)
}

fn size(nodes: usize) {
    let numbers = &mut Numbers::new(1);
    let before = resident();
    let (mut clusters, start) = build(nodes, numbers);
    let resident = (resident() - before) / 1024.0;
    let events = events(&mut clusters, nodes, true, numbers);
    let unchanged = self::events(&mut clusters, nodes, false, numbers);
    let counts = clusters.iter().map(Cluster::counts);
    let (mut all_nodes, mut pods) = (0, 0);
    counts.for_each(|count| (all_nodes, pods) = (all_nodes + count.nodes, pods + count.pods));
    for (at, (name, pod)) in questions().iter().enumerate() {
        let Ok(question) = Question::of_lower(pod, Unknown::Deny) else { continue };
        let (fit, p50, p99) = ask(&clusters, &question);
        let size =
            format!("{all_nodes} | {pods} | {:.1} | {resident:.0} | {events:.0} | {unchanged:.0}", start.as_secs_f64());
        let size = if at == 0 { size } else { " | | | | |".to_owned() };
        println!("| {size} | {name} | {fit} | {p50} | {p99} |");
    }
}

/// MiB times 1024 that the process has in memory.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0.0)
}

/// Brings these in, and says how long that took.
fn bring(cluster: &mut Cluster, kind: Kind, texts: &[String]) -> Duration {
    let start = Instant::now();
    for text in texts {
        if let Ok(object) = kind.decode(text) {
            cluster.apply(Change::Seen(object));
        }
    }
    start.elapsed()
}

fn build(nodes: usize, numbers: &mut Numbers) -> (Vec<Cluster>, Duration) {
    let mut took = Duration::ZERO;
    let clusters = (0..CLUSTERS).map(|number| {
        let mut cluster = Cluster::default();
        let texts: Vec<String> = (0..nodes).map(|node| fleet::node(number, node, numbers)).collect();
        took += bring(&mut cluster, Kind::Node, &texts);
        let pods: Vec<usize> = (0..nodes * PODS_PER_NODE).collect();
        for batch in pods.chunks(BATCH) {
            let texts: Vec<String> = batch.iter().map(|pod| Pod::new(number, nodes, *pod, numbers).json(0)).collect();
            took += bring(&mut cluster, Kind::Pod, &texts);
        }
        cluster
    });
    (clusters.collect(), took)
}

/// Events a second: of a pod that comes, is reported on twice and goes; or of the reports alone.
fn events(clusters: &mut [Cluster], nodes: usize, changing: bool, numbers: &mut Numbers) -> f64 {
    let (mut took, mut count) = (Duration::ZERO, 0);
    while count < EVENTS {
        let number = numbers.below(clusters.len());
        let Some(cluster) = clusters.get_mut(number) else { continue };
        let pods: Vec<Pod> = (0..BATCH / 4).map(|_| Pod::new(number, nodes, numbers.below(nodes), numbers)).collect();
        let texts = |version| pods.iter().map(|pod| pod.json(version)).collect::<Vec<_>>();
        let [first, second, third] = [texts(1), texts(2), texts(3)];
        let came = bring(cluster, Kind::Pod, &first);
        let reported = bring(cluster, Kind::Pod, &second) + bring(cluster, Kind::Pod, &third);
        let start = Instant::now();
        for text in &third {
            if let Ok(object) = Kind::Pod.decode(text) {
                cluster.apply(Change::Gone(object));
            }
        }
        took += if changing { came + reported + start.elapsed() } else { reported };
        count += if changing { pods.len() * 4 } else { pods.len() * 2 };
    }
    count as f64 / took.as_secs_f64()
}

/// In how many clusters it fits, and the median and 99th percentile of asking all of them, in microseconds.
fn ask(clusters: &[Cluster], question: &Question) -> (usize, u128, u128) {
    let mut fit = 0;
    let mut times: Vec<u128> = (0..QUESTIONS)
        .map(|_| {
            let start = Instant::now();
            fit = clusters.iter().filter(|cluster| cluster.ask(question).fits()).count();
            start.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len() - 1)).copied().unwrap_or(0);
    (fit, at(50), at(99))
}

fn questions() -> Vec<(&'static str, Value)> {
    let labels = json!({"app": "app-7", "tier": "tier-2", "pod-template-hash": "7f9c6bd8c5"});
    let pod = |cpu: &str, more: Value| {
        let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]});
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        json!({"metadata": {"name": "new", "namespace": "team-7", "labels": labels}, "spec": spec})
    };
    let own = json!({"matchLabels": {"app": "app-7"}});
    let spread = |key: &str| json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own}]});
    let near = |kind: &str, key: &str| json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": own}]}}});
    let zone = "topology.kubernetes.io/zone";
    let host = "kubernetes.io/hostname";
    vec![
        ("1 CPU", pod("1", json!({}))),
        ("15 CPUs, nowhere", pod("15", json!({}))),
        ("one pool of 20", pod("1", json!({"nodeSelector": {"pool": "pool-7"}}))),
        ("no such pool", pod("1", json!({"nodeSelector": {"pool": "none"}}))),
        ("spread over zones", pod("1", spread(zone))),
        ("spread over nodes", pod("1", spread(host))),
        ("apart from its own", pod("1", near("podAntiAffinity", host))),
        ("near its own", pod("1", near("podAffinity", zone))),
    ]
}
