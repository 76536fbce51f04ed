// SPDX-License-Identifier: Apache-2.0
//! What is measured, and the table of it.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::cast_precision_loss, reason = "figures are printed")]
#![allow(clippy::disallowed_methods, reason = "what measures the core reads clocks; the core does not")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tensile_core::pod::LinkView;
use tensile_core::scheduling::{Change, Cluster, Gain, Kind, Object, Question, Uid, Unknown};
use tensile_testkit::fuzz::Numbers;

use crate::fleet::{self, PODS_PER_NODE, Pod};
use crate::plot;

/// Lower clusters.
const CLUSTERS: usize = 100;
/// Nodes of each, in the sizes that are compared, unless others are given.
const SIZES: [usize; 4] = [125, 250, 500, 1000];
/// Objects that are generated before they are brought in: generating is not measured.
const BATCH: usize = 1_000;
/// Events that are measured.
const EVENTS: usize = 100_000;
/// Questions of each kind.
const QUESTIONS: usize = 200;

/// Builds each size, asks it, and prints the figures.
pub(crate) fn run() {
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build, its figures mean nothing");
    }
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    let picture = std::env::args().find_map(|arg| arg.strip_prefix("--plot=").map(PathBuf::from));
    let sizes = if given.is_empty() { SIZES.to_vec() } else { given };
    println!("{CLUSTERS} clusters, {PODS_PER_NODE} pods a node, one thread, its own CPU time.\n");
    println!(
        "| Nodes | Pods | Start s | MiB | Decode µs | Apply µs: comes and goes | reported on | Events/s: all | reports |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    // What the first would take alone, and what each keeps to the end: memory that one gave back would not count for the next.
    drop(build(1, &mut Numbers::new(1)));
    let (mut drawn, mut kept) = (Vec::new(), Vec::new());
    let mut answer = |nodes: usize| {
        let (clusters, answers) = size(nodes, &mut drawn);
        kept.push(clusters);
        answers
    };
    let answers: Vec<_> = sizes.iter().map(|nodes| (*nodes, answer(*nodes))).collect();
    if let Some(Err(error)) = picture.map(|path| plot::draw(&drawn, &path)) {
        eprintln!("nothing is drawn: {error}");
    }
    println!("\nA question is put to all clusters; an offer keeps room in each, as for a scheduler.\n");
    println!("| Nodes | Question | Fits in | Ask p50 µs | p99 µs | Offer p50 µs | p99 µs |");
    println!("|---|---|---|---|---|---|---|");
    for (nodes, answers) in answers {
        for Answers { question, fit, asked, offered } in answers {
            let nodes = nodes * CLUSTERS;
            println!("| {nodes} | {question} | {fit} | {} | {} | {} | {} |", asked.0, asked.1, offered.0, offered.1);
        }
    }
    println!("\nMaking the question for an upper pod takes {:.1} µs.", micros(translation(), 1));
}

/// What this thread has used of its processor: others on the machine do not count.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = cpu();
    let result = work();
    (result, cpu().saturating_sub(start))
}

fn micros(time: Duration, times: usize) -> f64 {
    time.as_secs_f64() * 1e6 / times.max(1) as f64
}

/// What it takes to make the question for one upper pod and one virtual node.
fn translation() -> Duration {
    let link = LinkView { virtual_node: "east".to_owned(), upper_cluster: "upper".to_owned(), ..LinkView::default() };
    let mut pods: Vec<Value> = questions().into_iter().map(|(_, pod)| pod).collect();
    for pod in &mut pods {
        pod["metadata"]["uid"] = json!("d9f0c1de-8f1c-4f4e-9c0a-0f8a2b6c7d8e");
    }
    let asked = (0..QUESTIONS).flat_map(|_| &pods).filter_map(|pod| Question::of(pod, &link, Unknown::Deny).ok());
    let (made, took) = timed(|| asked.count());
    took / u32::try_from(made.max(1)).unwrap_or(1)
}

/// What one question took, median and 99th percentile in microseconds.
struct Answers {
    question: &'static str,
    fit: usize,
    asked: (u128, u128),
    offered: (u128, u128),
}

fn size(nodes: usize, drawn: &mut Vec<plot::Size>) -> (Vec<Cluster>, Vec<Answers>) {
    let numbers = &mut Numbers::new(1);
    let before = resident();
    let (mut clusters, start) = build(nodes, numbers);
    let resident = (resident() - before) / 1024.0;
    let Events { decode, changes, reports } = events(&mut clusters, nodes, numbers);
    let (mut all_nodes, mut pods) = (0, 0);
    for count in clusters.iter().map(Cluster::counts) {
        (all_nodes, pods) = (all_nodes + count.nodes, pods + count.pods);
    }
    let all = 1e6 / (decode + f64::midpoint(changes, reports));
    let reported = 1e6 / (decode + reports);
    println!(
        "| {all_nodes} | {pods} | {:.1} | {resident:.0} | {decode:.2} | {changes:.2} | {reports:.2} | {all:.0} | {reported:.0} |",
        start.as_secs_f64()
    );
    drawn.push(plot::Size { nodes: all_nodes as f64, memory: resident, start: start.as_secs_f64() });
    let asked = questions().into_iter().filter_map(|(name, pod)| {
        Some(ask(&mut clusters, name, &Arc::new(Question::of_lower(&pod, Unknown::Deny).ok()?)))
    });
    let answers = asked.collect();
    (clusters, answers)
}

/// MiB times 1024 that the process has in memory.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0.0)
}

fn decode(kind: Kind, texts: &[String]) -> (Vec<Object>, Duration) {
    timed(|| texts.iter().filter_map(|text| kind.decode(text).ok()).collect())
}

fn apply(cluster: &mut Cluster, objects: Vec<Object>, change: fn(Object) -> Change) -> Duration {
    timed(|| objects.into_iter().for_each(|object| drop_gain(cluster.apply(change(object))))).1
}

fn drop_gain(_: Gain) {}

fn build(nodes: usize, numbers: &mut Numbers) -> (Vec<Cluster>, Duration) {
    let mut took = Duration::ZERO;
    let mut bring = |cluster: &mut Cluster, kind, texts: &[String]| {
        let (objects, decoded) = decode(kind, texts);
        took += decoded + apply(cluster, objects, Change::Seen);
    };
    let clusters = (0..CLUSTERS).map(|number| {
        let mut cluster = Cluster::default();
        let texts: Vec<String> = (0..nodes).map(|node| fleet::node(number, node, numbers)).collect();
        bring(&mut cluster, Kind::Node, &texts);
        let pods: Vec<usize> = (0..nodes * PODS_PER_NODE).collect();
        for batch in pods.chunks(BATCH) {
            let texts: Vec<String> = batch.iter().map(|pod| Pod::new(number, nodes, *pod, numbers).json(0)).collect();
            bring(&mut cluster, Kind::Pod, &texts);
        }
        cluster
    });
    let clusters = clusters.collect();
    (clusters, took)
}

/// Microseconds of CPU for an event.
struct Events {
    /// To decode it.
    decode: f64,
    /// To take in one of a pod that comes or goes.
    changes: f64,
    /// To take in one of a pod that is reported on and has not changed.
    reports: f64,
}

/// Pods come, are reported on twice and go.
fn events(clusters: &mut [Cluster], nodes: usize, numbers: &mut Numbers) -> Events {
    let (mut decoding, mut changes, mut reports, mut count) = (Duration::ZERO, Duration::ZERO, Duration::ZERO, 0);
    while count < EVENTS {
        let number = numbers.below(clusters.len());
        let Some(cluster) = clusters.get_mut(number) else { continue };
        let pods: Vec<Pod> = (0..BATCH / 4).map(|_| Pod::new(number, nodes, numbers.below(nodes), numbers)).collect();
        for version in 1..=4 {
            let texts: Vec<String> = pods.iter().map(|pod| pod.json(version)).collect();
            let (objects, took) = decode(Kind::Pod, &texts);
            decoding += took;
            match version {
                1 => changes += apply(cluster, objects, Change::Seen),
                4 => changes += apply(cluster, objects, Change::Gone),
                _ => reports += apply(cluster, objects, Change::Seen),
            }
        }
        count += pods.len() * 4;
    }
    Events { decode: micros(decoding, count), changes: micros(changes, count / 2), reports: micros(reports, count / 2) }
}

/// Asks all clusters, and offers them the pod.
fn ask(clusters: &mut [Cluster], name: &'static str, question: &Arc<Question>) -> Answers {
    let mut fit = 0;
    let asked = (0..QUESTIONS).map(|_| {
        let (fits, took) = timed(|| clusters.iter().filter(|cluster| cluster.ask(question).fits()).count());
        fit = fits;
        took.as_micros()
    });
    let asked = quantiles(asked.collect());
    let offered = (0..QUESTIONS).map(|number| {
        let uid = Uid::of(&number.to_string());
        let (_, took) = timed(|| {
            clusters.iter_mut().map(|cluster| usize::from(cluster.offer(uid, question).fits())).sum::<usize>()
        });
        took.as_micros()
    });
    let offered = quantiles(offered.collect());
    for number in 0..QUESTIONS {
        let uid = Uid::of(&number.to_string());
        for cluster in clusters.iter_mut() {
            drop_gain(cluster.forget(uid));
        }
    }
    Answers { question: name, fit, asked, offered }
}

/// Median and 99th percentile.
fn quantiles(mut times: Vec<u128>) -> (u128, u128) {
    times.sort_unstable();
    let at = |percent: usize| {
        times.get((times.len() * percent / 100).min(times.len().saturating_sub(1))).copied().unwrap_or(0)
    };
    (at(50), at(99))
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
