// SPDX-License-Identifier: Apache-2.0
//! Generated clusters and pods, put to a real scheduler one by one: it binds a pod if and only if the engine says that it
//! fits, and to a node that the engine's rules allow.

#![allow(clippy::print_stdout, reason = "how much was compared is worth knowing")]

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::binaries;
use e2e::cluster::Cluster;
use e2e::pods::{Pods, condition};
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use tensile_core::scheduling::{self, Answer, Change, Kind, Question, Unknown};
use tensile_testkit::fuzz::{Numbers, cases};
use tensile_testkit::lower_cluster;

/// Pods that are asked about unless told otherwise.
const CASES: u64 = 1_500;
/// Pods that are asked about on the same nodes.
const PER_WORLD: u64 = 100;
/// Nodes of a world.
const NODES: usize = 9;
/// So many disagreements are looked at together.
const ENOUGH: usize = 4;
/// Pods that stay where they were bound; then some go.
const CROWD: usize = 30;
/// The scheduler decides on some hundred pods a second, and backs off a second or two when it is not up to date.
const DEADLINE: Duration = Duration::from_secs(30);
/// A node that takes one pod: whoever comes to it was let in after the scheduler saw its predecessor go.
const GATE: &str = "gate";

/// A real cluster, and the engine that follows it.
struct World {
    cluster: Cluster,
    engine: scheduling::Cluster,
    nodes: Api<Node>,
    bound: Vec<Value>,
    /// The pods on nodes that take one, by node.
    at_gates: BTreeMap<String, Value>,
    passed: usize,
    disagreements: Vec<String>,
}

/// What the scheduler decided on a pod.
enum Decision {
    Bound(Value),
    Refused(String),
}

fn decision(pod: Value) -> Option<Decision> {
    let scheduled = condition(&pod, "PodScheduled").clone();
    match (scheduled["status"].as_str(), scheduled["reason"].as_str()) {
        (Some("True"), _) => Some(Decision::Bound(pod)),
        (Some("False"), Some("Unschedulable")) => {
            Some(Decision::Refused(scheduled["message"].as_str().unwrap_or_default().to_owned()))
        }
        _ => None,
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// A node that takes one pod, and only one that tolerates it.
fn gate(name: &str) -> Value {
    let allocatable = json!({"cpu": "1", "memory": "1Gi", "pods": "1"});
    json!({"metadata": {"name": name}, "spec": {"taints": [{"key": GATE, "effect": "NoSchedule"}]},
        "status": {"allocatable": allocatable, "capacity": allocatable}})
}

impl World {
    async fn start(version: &str) -> anyhow::Result<Self> {
        // Nobody but the scheduler looks at nodes here: they have no kubelet, and keep the taints they are given.
        let cluster = Cluster::builder("lower")
            .version(version)
            .apiserver_args(&["--disable-admission-plugins=TaintNodesByCondition"])
            .controller_manager_args(&["--controllers=serviceaccount-controller"])
            .start()
            .await?;
        let nodes = Api::all(cluster.client());
        let mut world = Self {
            cluster,
            engine: scheduling::Cluster::default(),
            nodes,
            bound: Vec::new(),
            at_gates: BTreeMap::new(),
            passed: 0,
            disagreements: Vec::new(),
        };
        let namespaces: Api<Namespace> = Api::all(world.cluster.client());
        for namespace in lower_cluster::namespaces() {
            let created = namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
            world.follow(Kind::Namespace, &serde_json::to_value(created)?, true)?;
        }
        for namespace in lower_cluster::NAMESPACES {
            let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
                Api::namespaced(world.cluster.client(), namespace);
            eventually(DEADLINE, "the namespace has its account", async || Ok(accounts.get("default").await?)).await?;
        }
        world.create_node(gate(GATE)).await?;
        Ok(world)
    }

    fn pods(&self, namespace: &str) -> Pods {
        Pods::of(&self.cluster, namespace)
    }

    /// Tells the engine.
    fn follow(&mut self, kind: Kind, object: &Value, there: bool) -> anyhow::Result<()> {
        let object = kind.decode(&object.to_string())?;
        self.engine.apply(if there { Change::Seen(object) } else { Change::Gone(object) });
        Ok(())
    }

    async fn create_node(&mut self, node: Value) -> anyhow::Result<()> {
        let created = self.nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        self.follow(Kind::Node, &serde_json::to_value(created)?, true)
    }

    /// Removes pods that were bound, until so many are left, and waits until the scheduler knows.
    async fn thin_out(&mut self, left: usize, numbers: &mut Numbers) -> anyhow::Result<()> {
        while self.bound.len() > left {
            let pod = self.bound.swap_remove(numbers.below(self.bound.len()));
            self.remove(&pod).await?;
        }
        self.pass_gate(GATE).await
    }

    async fn remove(&mut self, pod: &Value) -> anyhow::Result<()> {
        let namespace = pod["metadata"]["namespace"].as_str().context("it has no namespace")?;
        self.pods(namespace).force_delete(pod).await?;
        self.follow(Kind::Pod, pod, false)
    }

    /// A pod that only fits on this node is let in: the scheduler has seen all that happened to pods before its
    /// predecessor went, or to nodes before this one came.
    async fn pass_gate(&mut self, node: &str) -> anyhow::Result<()> {
        if let Some(last) = self.at_gates.remove(node) {
            self.remove(&last).await?;
        }
        self.passed += 1;
        let name = format!("gate-{}", self.passed);
        let here = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": here}});
        let pod = json!({"metadata": {"name": name}, "spec": {"affinity": {"nodeAffinity": required},
            "tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": "example.org/app:1"}]}});
        let pods = self.pods("default");
        pods.create(&pod).await?;
        let bound = eventually(DEADLINE, "the scheduler is up to date", async || {
            let pod = pods.get(&name).await?;
            ensure!(pod["spec"]["nodeName"] == node, "{}", pod["status"]);
            Ok(pod)
        })
        .await?;
        self.follow(Kind::Pod, &bound, true)?;
        self.at_gates.insert(node.to_owned(), bound);
        Ok(())
    }

    /// New nodes instead of the last ones.
    async fn renew(&mut self, world: u64, numbers: &mut Numbers) -> anyhow::Result<Vec<Value>> {
        self.thin_out(0, numbers).await?;
        let gates: Vec<String> = self.at_gates.keys().filter(|gate| *gate != GATE).cloned().collect();
        for pod in gates.iter().filter_map(|gate| self.at_gates.remove(gate)).collect::<Vec<_>>() {
            self.remove(&pod).await?;
        }
        for node in self.nodes.list(&ListParams::default()).await? {
            let node = serde_json::to_value(node)?;
            if name(&node) != GATE {
                self.nodes.delete(name(&node), &DeleteParams::default()).await?;
                self.follow(Kind::Node, &node, false)?;
            }
        }
        let nodes = lower_cluster::nodes(numbers, &format!("n{world}"), NODES);
        for node in &nodes {
            self.create_node(node.clone()).await?;
        }
        let last = format!("gate-{world}");
        self.create_node(gate(&last)).await?;
        self.pass_gate(&last).await?;
        Ok(nodes)
    }

    /// Asks both. `None`: the API server does not take the pod.
    async fn ask(&mut self, pod: &Value) -> anyhow::Result<Option<bool>> {
        let pods = self.pods(pod["metadata"]["namespace"].as_str().unwrap_or_default());
        let created = match pods.create(pod).await {
            Ok(created) => created,
            Err(error) if is_invalid(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let answer = self.engine.ask(&Question::of_lower(&created, Unknown::Deny)?);
        let decided = eventually(DEADLINE, "the scheduler decides", async || {
            decision(pods.get(name(pod)).await?).context("it has not decided")
        })
        .await?;
        let refused = |why: &dyn Display| format!("the engine says {why}");
        match (&decided, &answer) {
            (Decision::Bound(bound), Answer::Refused { why, .. }) => {
                let node = &bound["spec"]["nodeName"];
                self.disagreements.push(format!("{} was bound to {node}, {}: {pod}", name(pod), refused(why)));
            }
            (Decision::Refused(why), Answer::Fits { node }) => {
                let fits = refused(&format!("it fits on {node}"));
                self.disagreements.push(format!("{} was refused: {why}; {fits}: {pod}", name(pod)));
            }
            (Decision::Bound(bound), Answer::Fits { .. }) => {
                let mut there = pod.clone();
                there["spec"]["nodeName"] = bound["spec"]["nodeName"].clone();
                if let Answer::Refused { why, .. } = self.engine.ask(&Question::of_lower(&there, Unknown::Deny)?) {
                    let node = &bound["spec"]["nodeName"];
                    self.disagreements.push(format!("{} was bound to {node}, {}: {pod}", name(pod), refused(&why)));
                }
            }
            (Decision::Refused(_), Answer::Refused { .. }) => {}
        }
        match decided {
            Decision::Bound(bound) => {
                self.follow(Kind::Pod, &bound, true)?;
                self.bound.push(bound);
                Ok(Some(true))
            }
            Decision::Refused(_) => {
                pods.force_delete(&created).await?;
                Ok(Some(false))
            }
        }
    }
}

async fn compare(version: &str, cases: u64, seed: u64) -> anyhow::Result<()> {
    let mut world = World::start(version).await?;
    let numbers = &mut Numbers::new(seed);
    let (mut fit, mut refused, mut invalid) = (0, 0, 0);
    let mut nodes = Vec::new();
    for case in 0..cases {
        if case % PER_WORLD == 0 {
            nodes = world.renew(case / PER_WORLD, numbers).await?;
        }
        if world.bound.len() >= CROWD {
            world.thin_out(CROWD / 3, numbers).await?;
        }
        let pod = lower_cluster::pod(numbers, &format!("p-{case}"), &nodes);
        match world.ask(&pod).await? {
            Some(true) => fit += 1,
            Some(false) => refused += 1,
            None => invalid += 1,
        }
        if world.disagreements.len() >= ENOUGH {
            break;
        }
    }
    ensure!(world.disagreements.is_empty(), "{version}: {}", world.disagreements.join("\n"));
    println!("{version}: {fit} pods fit for both, {refused} for neither, {invalid} were not pods");
    let least = cases / 10;
    ensure!(fit >= least && refused >= least, "{fit} fit and {refused} do not: one is too rare");
    Ok(())
}

fn is_invalid(error: &anyhow::Error) -> bool {
    let code = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 422);
    error.downcast_ref::<kube::Error>().is_some_and(code)
}

#[test]
fn the_newest_scheduler_decides_as_the_engine_does() -> anyhow::Result<()> {
    e2e::run(compare(binaries::SUPPORTED[0], cases(CASES), 1))
}

#[test]
fn the_oldest_scheduler_decides_as_the_engine_does() -> anyhow::Result<()> {
    e2e::run(compare(binaries::SUPPORTED[binaries::SUPPORTED.len() - 1], cases(CASES) / 3, 2))
}
