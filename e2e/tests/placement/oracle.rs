// SPDX-License-Identifier: Apache-2.0
//! A real scheduler confirms the oracle that a hundred thousand generated pods are held against: each pair of a pod and
//! a machine becomes a pod that is pinned to that machine, and the scheduler binds it or says that it fits nowhere.

#![allow(clippy::print_stdout, reason = "how much was compared is worth knowing")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::pods::{Pods, condition};
use e2e::wait::eventually;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tensile_testkit::flat_cluster::{self, Choices, Machine};
use tensile_testkit::fuzz::Numbers;

/// Layouts that are drawn, and pods against the machines of each.
const LAYOUTS: u64 = 14;
const PODS: u64 = 14;
/// The scheduler decides on some hundred pods a second.
const DEADLINE: Duration = Duration::from_secs(180);
const NAMESPACE: &str = "default";

/// One question to the scheduler, and what the oracle says.
struct Pair {
    name: String,
    pod: Value,
    allowed: bool,
}

/// The machines of one layout, each under a name that no other layout has, and without taints that an API server
/// refuses: two of the same key and effect.
fn machines(layout: u64, numbers: &mut Numbers) -> Vec<Machine> {
    let clusters = flat_cluster::clusters(&mut Choices(&numbers.bytes(120)));
    let all = clusters.into_iter().flat_map(|cluster| [cluster.lower, vec![cluster.virtual_node]].concat());
    all.map(|mut machine| {
        machine.name = format!("{}-{layout}", machine.name);
        let mut seen = BTreeSet::new();
        machine.taints.retain(|(key, _, effect)| seen.insert((key.clone(), effect.clone())));
        machine
    })
    .collect()
}

/// The pod with names of machines as they are in this layout.
fn pod(layout: u64, numbers: &mut Numbers) -> Value {
    let mut pod = flat_cluster::pod(&mut Choices(&numbers.bytes(90)));
    for term in terms(&mut pod["spec"]).into_iter().flatten() {
        for requirement in term.get_mut("matchFields").and_then(Value::as_array_mut).into_iter().flatten() {
            for value in requirement["values"].as_array_mut().into_iter().flatten() {
                *value = json!(format!("{}-{layout}", value.as_str().unwrap_or_default()));
            }
        }
    }
    pod
}

fn terms(spec: &mut Value) -> Option<&mut Vec<Value>> {
    let node_affinity = spec.get_mut("affinity")?.get_mut("nodeAffinity")?;
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].as_array_mut()
}

/// The pod with "and on this machine" in each of its terms. A term without conditions matches nothing, also so.
fn pinned(mut pod: Value, name: &str, machine: &str) -> Value {
    let here = json!({ "key": "metadata.name", "operator": "In", "values": [machine] });
    if let Some(terms) = terms(&mut pod["spec"]) {
        for term in terms.iter_mut().filter(|term| term.as_object().is_some_and(|term| !term.is_empty())) {
            match term.get_mut("matchFields").and_then(Value::as_array_mut) {
                Some(fields) => fields.push(here.clone()),
                None => term["matchFields"] = json!([here]),
            }
        }
    } else {
        let required = json!({ "nodeSelectorTerms": [{ "matchFields": [here] }] });
        pod["spec"]["affinity"] =
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
    }
    pod["metadata"]["name"] = json!(name);
    pod
}

fn pairs(layout: u64, machines: &[Machine], numbers: &mut Numbers) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for number in 0..PODS {
        let pod = pod(layout, numbers);
        for (index, machine) in machines.iter().enumerate() {
            let name = format!("p-{layout}-{number}-{index}");
            let allowed = flat_cluster::allows(&pod["spec"], machine);
            pairs.push(Pair { pod: pinned(pod.clone(), &name, &machine.name), name, allowed });
        }
    }
    pairs
}

fn node(machine: &Machine) -> Value {
    let taints =
        machine.taints.iter().map(|(key, value, effect)| json!({ "key": key, "value": value, "effect": effect }));
    json!({
        "metadata": { "name": machine.name, "labels": machine.labels },
        "spec": { "taints": taints.collect::<Vec<_>>() },
        "status": { "allocatable": { "cpu": "1k", "memory": "1Ti", "pods": "10k" },
            "capacity": { "cpu": "1k", "memory": "1Ti", "pods": "10k" } },
    })
}

/// What the scheduler decided on the pod, if it has.
fn decision(pod: &Value) -> Option<bool> {
    let scheduled = condition(pod, "PodScheduled");
    match (scheduled["status"].as_str()?, scheduled["reason"].as_str()) {
        ("True", _) => Some(true),
        ("False", Some("Unschedulable")) => Some(false),
        _ => None,
    }
}

#[test]
fn a_real_scheduler_decides_as_the_oracle_does() -> anyhow::Result<()> {
    e2e::run(async {
        // Nobody but the scheduler looks at nodes here: they have no kubelet, and keep the taints they are given.
        let cluster = Cluster::builder("flat")
            .apiserver_args(&["--disable-admission-plugins=TaintNodesByCondition"])
            .controller_manager_args(&["--controllers=serviceaccount-controller"])
            .start()
            .await?;
        let mut numbers = Numbers::new(6);
        let nodes: Api<Node> = Api::all(cluster.client());
        let mut questions = Vec::new();
        for layout in 0..LAYOUTS {
            let machines = machines(layout, &mut numbers);
            for machine in &machines {
                nodes.create(&PostParams::default(), &serde_json::from_value(node(machine))?).await?;
            }
            questions.extend(pairs(layout, &machines, &mut numbers));
        }

        let pods = Pods::of(&cluster, NAMESPACE);
        let asked = stream::iter(&questions).map(async |pair| match pods.create(&pair.pod).await {
            Ok(_) => Ok(Some(pair)),
            // Some of what is generated only an older API server takes.
            Err(error) if is_invalid(&error) => Ok(None),
            Err(error) => Err(error),
        });
        let asked: Vec<&Pair> = asked.buffer_unordered(16).try_filter_map(async |pair| Ok(pair)).try_collect().await?;

        let decided = eventually(DEADLINE, "the scheduler decides on all pods", async || {
            let all = pods.list().await?;
            let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let decided: BTreeMap<String, bool> =
                all.iter().filter_map(|pod| Some((name(pod), decision(pod)?))).collect();
            ensure!(decided.len() == asked.len(), "it decided on {} of {}", decided.len(), asked.len());
            Ok(decided)
        })
        .await?;
        let mut allowed = 0;
        for pair in &asked {
            let bound = *decided.get(&pair.name).context("a pod is missing")?;
            ensure!(bound == pair.allowed, "bound: {bound}, the oracle says {}: {}", pair.allowed, pair.pod);
            allowed += usize::from(bound);
        }
        let refused = asked.len() - allowed;
        println!("{} pairs asked, {} decided alike: {allowed} bound, {refused} not", questions.len(), asked.len());
        ensure!(asked.len() >= 300 && allowed >= 50 && refused >= 50, "{allowed} bound and {refused} not is too few");
        Ok(())
    })
}

fn is_invalid(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<kube::Error>()
        .is_some_and(|error| matches!(error, kube::Error::Api(status) if status.code == 422))
}
