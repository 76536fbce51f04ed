// SPDX-License-Identifier: Apache-2.0
//! Clusters and pods, read off bytes: cheap to make by the hundred thousand, and shrunk by shrinking the bytes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::oracle::Machine;

/// The kept keys of the generated clusters; the second is one that only some virtual nodes carry.
pub const KEPT: [&str; 2] = ["clusterID", "region"];

const KEYS: [&str; 6] = ["clusterID", "region", "disk", "gpu", "cores", "kubernetes.io/hostname"];
const VALUES: [&str; 6] = ["1", "2", "3", "a", "b", ""];

/// A lower cluster: what its virtual node shows, and its nodes.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Its node upstairs.
    pub virtual_node: Machine,
    /// Its own nodes.
    pub lower: Vec<Machine>,
}

impl Cluster {
    /// A lower node as it would be in the flat cluster: with the kept keys, and under the name, of its virtual node.
    pub fn flat(&self, lower: &Machine) -> Machine {
        let mut flat = lower.clone();
        flat.name.clone_from(&self.virtual_node.name);
        flat.labels.retain(|key, _| !KEPT.contains(&key.as_str()));
        let kept = self.virtual_node.labels.iter().filter(|(key, _)| KEPT.contains(&key.as_str()));
        flat.labels.extend(kept.map(|(key, value)| (key.clone(), value.clone())));
        flat
    }
}

/// Where choices come from. Once used up, every choice is the first.
#[derive(Debug)]
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    fn below(&mut self, limit: u8) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first % limit
    }

    /// True once in `of` times.
    fn rarely(&mut self, of: u8) -> bool {
        self.below(of) == of - 1
    }

    fn of<'v>(&mut self, values: &[&'v str]) -> &'v str {
        values[usize::from(self.below(u8::MAX)) % values.len()]
    }

    fn list<T>(&mut self, limit: u8, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(limit + 1)).map(|_| item(self)).collect()
    }
}

/// Two or three clusters.
pub fn clusters(choices: &mut Choices<'_>) -> Vec<Cluster> {
    (0..2 + choices.below(2)).map(|index| cluster(choices, index)).collect()
}

fn cluster(choices: &mut Choices<'_>, index: u8) -> Cluster {
    let name = format!("virtual-{index}");
    let mut labels = BTreeMap::from([("clusterID".to_owned(), VALUES[usize::from(index)].to_owned())]);
    // What is not kept must not count, though the virtual node shows it.
    for key in ["region", "disk", "kubernetes.io/hostname"] {
        if choices.below(3) > 0 {
            labels.insert(key.to_owned(), choices.of(&VALUES).to_owned());
        }
    }
    let lower = (0..=choices.below(4)).map(|number| {
        let mut labels = BTreeMap::new();
        for key in KEYS {
            // A lower node's own value of a kept key must not count either.
            if choices.below(4) > 0 {
                labels.insert(key.to_owned(), choices.of(&VALUES).to_owned());
            }
        }
        let taints = choices.list(2, |choices| {
            let effect = choices.of(&["NoSchedule", "NoExecute", "PreferNoSchedule"]);
            (choices.of(&["team", "gpu"]).to_owned(), choices.of(&["", "a", "b"]).to_owned(), effect.to_owned())
        });
        Machine { name: format!("lower-{index}-{number}"), labels, taints }
    });
    let lower = lower.collect();
    Cluster { virtual_node: Machine { name, labels, taints: Vec::new() }, lower }
}

/// A pod with constraints; absent fields are absent.
pub fn pod(choices: &mut Choices<'_>) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let selector: BTreeMap<_, _> = choices.list(2, |c| (c.of(&KEYS), c.of(&VALUES))).into_iter().collect();
    if !selector.is_empty() && choices.below(2) == 1 {
        spec["nodeSelector"] = json!(selector);
    }
    if choices.below(5) > 0 {
        let terms = choices.list(4, term);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        spec["affinity"] = json!({"nodeAffinity": {required: {"nodeSelectorTerms": terms}}});
    }
    let tolerations = choices.list(3, toleration);
    if !tolerations.is_empty() {
        spec["tolerations"] = json!(tolerations);
    }
    json!({"metadata": {"name": "p", "annotations": {"mine": "kept"}}, "spec": spec})
}

/// Adds pod affinity, anti-affinity and topology spread over clusters, regions and hosts to a pod. The oracle does not
/// see them: where they allow a pod depends on where others are.
pub fn add_topologies(pod: &mut Value, choices: &mut Choices<'_>) {
    let spread = choices.list(2, |choices| {
        let when = choices.of(&["DoNotSchedule", "ScheduleAnyway"]);
        let mut constraint = near(choices);
        constraint["maxSkew"] = json!(1 + choices.below(3));
        constraint["whenUnsatisfiable"] = json!(when);
        constraint
    });
    if !spread.is_empty() {
        pod["spec"]["topologySpreadConstraints"] = json!(spread);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let required = choices.list(2, near);
        let preferred = choices.list(2, |choices| {
            let weight = 1 + choices.below(100);
            json!({"weight": weight, "podAffinityTerm": near(choices)})
        });
        for (list, terms) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", required),
            ("preferredDuringSchedulingIgnoredDuringExecution", preferred),
        ] {
            if !terms.is_empty() {
                pod["spec"]["affinity"][kind][list] = json!(terms);
            }
        }
    }
}

fn near(choices: &mut Choices<'_>) -> Value {
    let selector = choices.of(&["web", "cache", "db"]);
    let mut term = json!({
        "topologyKey": choices.of(&["clusterID", "region", "kubernetes.io/hostname", "zone"]),
        "labelSelector": {"matchLabels": {"app": selector}},
    });
    if choices.rarely(3) {
        term["matchLabelKeys"] = json!(["pod-template-hash"]);
    }
    term
}

/// One node selector term, at times an empty one.
pub fn term(choices: &mut Choices<'_>) -> Value {
    let mut term = json!({});
    let expressions = choices.list(4, requirement);
    if !expressions.is_empty() {
        term["matchExpressions"] = json!(expressions);
    }
    if choices.rarely(6) {
        let name = choices.of(&["virtual-0", "virtual-1", "lower-0-0"]);
        let key = if choices.rarely(8) { "metadata.uid" } else { "metadata.name" };
        let values = if choices.rarely(8) { vec![name, name] } else { vec![name] };
        let operator = choices.of(&["In", "NotIn", "NotIn", "Exists"]);
        term["matchFields"] = json!([{"key": key, "operator": operator, "values": values}]);
    }
    term
}

/// One requirement on a label.
pub fn requirement(choices: &mut Choices<'_>) -> Value {
    if choices.rarely(40) {
        return broken_requirement(choices);
    }
    let key = choices.of(&KEYS);
    match choices.of(&["In", "NotIn", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]) {
        operator @ ("Exists" | "DoesNotExist") => json!({"key": key, "operator": operator}),
        operator @ ("Gt" | "Lt") => {
            json!({"key": key, "operator": operator, "values": [choices.of(&["1", "2", "0"])]})
        }
        operator => {
            let mut values = choices.list(2, |choices| choices.of(&VALUES));
            values.push(choices.of(&VALUES));
            json!({"key": key, "operator": operator, "values": values})
        }
    }
}

/// What a scheduler cannot parse. The API server refuses most of it, but older ones did not.
fn broken_requirement(choices: &mut Choices<'_>) -> Value {
    let key = choices.of(&KEYS);
    match choices.below(8) {
        0 => json!({"key": key, "operator": "In", "values": []}),
        1 => json!({"key": key, "operator": "Exists", "values": ["a"]}),
        2 => json!({"key": key, "operator": "Gt", "values": ["a"]}),
        3 => json!({"key": key, "operator": "Lt", "values": ["1", "2"]}),
        4 => json!({"key": key, "operator": "Near", "values": ["a"]}),
        5 => json!({"key": key, "operator": "NotIn", "values": ["not a label"]}),
        6 => json!({"key": key, "operator": "NotIn"}),
        _ => json!({"key": "-", "operator": "DoesNotExist"}),
    }
}

fn toleration(choices: &mut Choices<'_>) -> Value {
    let mut toleration = json!({});
    for (field, values) in [
        ("key", ["", "team", "gpu", "team"]),
        ("operator", ["", "Exists", "Equal", "Lt"]),
        ("value", ["", "a", "b", "a"]),
        ("effect", ["", "NoSchedule", "NoExecute", ""]),
    ] {
        let value = choices.of(&values);
        if !value.is_empty() {
            toleration[field] = json!(value);
        }
    }
    toleration
}
