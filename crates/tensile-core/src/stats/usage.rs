// SPDX-License-Identifier: Apache-2.0
//! What pods use, where the source is no kubelet: written as a kubelet writes it.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CpuNanos, Families, Member, Millis, Reading};

/// What a pod uses.
#[derive(Clone, Debug)]
pub struct PodUsage<'a> {
    /// The pod.
    pub member: &'a Member,
    /// Its CPU time, which goes on when a container starts anew.
    pub cpu: Option<Reading>,
    /// Its containers, as far as they are known.
    pub containers: Vec<ContainerUsage>,
}

/// What a container uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerUsage {
    /// Its name.
    pub name: Arc<str>,
    /// Since when it runs.
    pub started: Option<Millis>,
    /// Its CPU time, and when that was read.
    pub cpu: Reading,
    /// How fast it uses CPU, where the source says so.
    pub nano_cores: Option<u64>,
    /// Memory it holds, in bytes.
    pub memory: u64,
}

/// What all pods of a virtual node use together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUsage<'a> {
    /// The virtual node.
    pub name: &'a str,
    /// Since when its counter counts.
    pub since: Millis,
    /// CPU time of its pods since then; `None` until there was a pod.
    pub cpu: Option<Reading>,
    /// How fast they use CPU.
    pub nano_cores: Option<u64>,
    /// Memory they hold, in bytes.
    pub memory: u64,
}

impl PodUsage<'_> {
    /// Memory of its containers.
    pub fn memory(&self) -> u64 {
        self.containers.iter().map(|container| container.memory).sum()
    }

    /// How fast its containers use CPU; `None` unless it is known of all.
    pub fn nano_cores(&self) -> Option<u64> {
        self.containers.iter().map(|container| container.nano_cores).sum()
    }
}

/// The metrics of a node itself, and whether everything is known that should be.
pub fn node_families(node: &NodeUsage<'_>, complete: bool) -> Families {
    let mut families = Families::default();
    if let Some(Reading { at, nanos }) = node.cpu {
        let mut add = |name: &str, help: &str, kind: &str, value: &str| {
            let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
            families.add(name, &head, &format!("{name} {value} {at}\n"));
        };
        let (cpu, memory) = ("node_cpu_usage_seconds_total", "node_memory_working_set_bytes");
        add(cpu, "CPU time of the node's pods in core-seconds, since its process began", "counter", &seconds(nanos));
        add(memory, "Working set of the node's pods in bytes", "gauge", &node.memory.to_string());
    }
    let name = "resource_scrape_error";
    let head = format!("# HELP {name} 1 if something could not be learned, 0 otherwise\n# TYPE {name} gauge\n");
    families.add(name, &head, &format!("{name} {}\n", u8::from(!complete)));
    families
}

/// `/metrics/resource` of these pods.
pub fn exposition(node: &NodeUsage<'_>, pods: &[PodUsage<'_>], complete: bool) -> String {
    let mut families = node_families(node, complete);
    let mut add = |name: &str, help: &str, kind: &str, samples: String| {
        if !samples.is_empty() {
            families.add(name, &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"), &samples);
        }
    };
    let name = "container_cpu_usage_seconds_total";
    let cpu = of_containers(name, pods, |container| Some((seconds(container.cpu.nanos), Some(container.cpu.at))));
    add(name, "CPU time of the container in core-seconds", "counter", cpu);
    let name = "container_memory_working_set_bytes";
    let memory = of_containers(name, pods, |container| Some((container.memory.to_string(), Some(container.cpu.at))));
    add(name, "Working set of the container in bytes", "gauge", memory);
    let name = "container_start_time_seconds";
    let started = of_containers(name, pods, |container| Some((thousandths(container.started?), None)));
    add(name, "When the container started, in seconds since the epoch", "gauge", started);
    let name = "pod_cpu_usage_seconds_total";
    add(name, "CPU time of the pod in core-seconds", "counter", of_pods(name, pods, |_, cpu| seconds(cpu.nanos)));
    let name = "pod_memory_working_set_bytes";
    add(name, "Working set of the pod in bytes", "gauge", of_pods(name, pods, |pod, _| pod.memory().to_string()));
    families.text()
}

fn of_containers(
    name: &str,
    pods: &[PodUsage<'_>],
    value: impl Fn(&ContainerUsage) -> Option<(String, Option<Millis>)>,
) -> String {
    let mut samples = String::new();
    for (pod, container) in pods.iter().flat_map(|pod| pod.containers.iter().map(move |container| (pod, container))) {
        let Some((value, at)) = value(container) else { continue };
        let Member { namespace, name: pod, .. } = pod.member;
        let at = at.map_or_else(String::new, |at| format!(" {at}"));
        let container = &container.name;
        let sample =
            format!("{name}{{container=\"{container}\",namespace=\"{namespace}\",pod=\"{pod}\"}} {value}{at}\n");
        samples.push_str(&sample);
    }
    samples
}

fn of_pods(name: &str, pods: &[PodUsage<'_>], value: impl Fn(&PodUsage<'_>, Reading) -> String) -> String {
    let mut samples = String::new();
    for (pod, cpu) in pods.iter().filter_map(|pod| Some((pod, pod.cpu?))) {
        let Member { namespace, name: of, .. } = pod.member;
        let (value, at) = (value(pod, cpu), cpu.at);
        let sample = format!("{name}{{namespace=\"{namespace}\",pod=\"{of}\"}} {value} {at}\n");
        samples.push_str(&sample);
    }
    samples
}

/// The part of `/stats/summary` about a node.
pub(super) fn node_summary(node: &NodeUsage<'_>) -> Value {
    let mut summary = json!({"nodeName": node.name, "startTime": time(node.since)});
    if let Some(cpu) = node.cpu {
        summary["cpu"] = cpu_summary(cpu, node.nano_cores);
        summary["memory"] = memory_summary(cpu.at, node.memory);
    }
    summary
}

/// `/stats/summary` of these pods.
pub fn summary(node: &NodeUsage<'_>, pods: &[PodUsage<'_>]) -> Value {
    json!({"node": node_summary(node), "pods": pods.iter().map(pod_summary).collect::<Vec<_>>()})
}

fn pod_summary(pod: &PodUsage<'_>) -> Value {
    let Member { namespace, name, uid, since, .. } = pod.member;
    let containers: Vec<Value> = pod.containers.iter().map(container_summary).collect();
    let mut summary = json!({
        "podRef": {"name": **name, "namespace": **namespace, "uid": **uid},
        "startTime": since.map(time),
        "containers": containers,
    });
    if let Some(cpu) = pod.cpu {
        summary["cpu"] = cpu_summary(cpu, pod.nano_cores());
        summary["memory"] = memory_summary(cpu.at, pod.memory());
    }
    summary
}

fn container_summary(container: &ContainerUsage) -> Value {
    json!({
        "name": *container.name,
        "startTime": container.started.map(time),
        "cpu": cpu_summary(container.cpu, container.nano_cores),
        "memory": memory_summary(container.cpu.at, container.memory),
    })
}

fn cpu_summary(cpu: Reading, nano_cores: Option<u64>) -> Value {
    let mut summary = json!({"time": time(cpu.at), "usageCoreNanoSeconds": cpu.nanos});
    if let Some(nano_cores) = nano_cores {
        summary["usageNanoCores"] = nano_cores.into();
    }
    summary
}

fn memory_summary(at: Millis, memory: u64) -> Value {
    json!({"time": time(at), "workingSetBytes": memory})
}

/// RFC 3339, in whole seconds as the API has it.
fn time(at: Millis) -> String {
    Timestamp::from_second(at.div_euclid(1_000)).unwrap_or_default().to_string()
}

/// Nanoseconds as seconds, exactly.
fn seconds(nanos: CpuNanos) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Milliseconds as seconds.
fn thousandths(millis: Millis) -> String {
    format!("{}.{:03}", millis.div_euclid(1_000), millis.rem_euclid(1_000))
}
