// SPDX-License-Identifier: Apache-2.0
//! The rules of kube-scheduler, written apart from the code under test, from the API's documentation: slow, plain, and
//! over JSON alone.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::flat_cluster::{Machine, allows, selects, tolerates_all};

/// A lower cluster as its API server shows it.
#[derive(Debug, Clone, Default)]
pub struct Scene {
    /// Its nodes.
    pub nodes: Vec<Value>,
    /// Its pods.
    pub pods: Vec<Value>,
    /// Its namespaces.
    pub namespaces: Vec<Value>,
}

/// The names of the nodes that the pod fits on.
pub fn fits(scene: &Scene, pod: &Value) -> BTreeSet<String> {
    let place = Place { scene, pod, there: there(scene) };
    let fit = scene.nodes.iter().filter(|node| {
        allows(&pod["spec"], &machine(node))
            && place.has_ports(node)
            && place.has_room(node)
            && place.stays_spread(node)
            && place.has_company(node)
    });
    fit.map(name).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn name(object: &Value) -> String {
    text(&object["metadata"]["name"]).to_owned()
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels.map(|(key, value)| (key.clone(), text(value).to_owned())).collect()
}

/// The node as tolerations and selectors see it. A cordoned node counts as tainted.
fn machine(node: &Value) -> Machine {
    let cordon = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    let cordon = (node["spec"]["unschedulable"] == true).then_some(&cordon);
    let taints = items(&node["spec"]["taints"]).chain(cordon);
    let field = |taint: &Value, name: &str| text(&taint[name]).to_owned();
    let taints = taints.map(|taint| (field(taint, "key"), field(taint, "value"), field(taint, "effect")));
    Machine { name: name(node), labels: labels(node), taints: taints.collect() }
}

/// The pods that take part, each with its node.
fn there(scene: &Scene) -> Vec<(&Value, &Value)> {
    let runs = |pod: &&Value| !["Succeeded", "Failed"].contains(&text(&pod["status"]["phase"]));
    let node = |pod: &Value| scene.nodes.iter().find(|node| node["metadata"]["name"] == pod["spec"]["nodeName"]);
    scene.pods.iter().filter(runs).filter_map(|pod| Some((pod, node(pod)?))).collect()
}

/// Thousandths.
fn quantity(value: &Value) -> i128 {
    let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let digits = written.trim_end_matches(|c: char| c.is_alphabetic());
    let number: i128 = digits.parse().unwrap_or(0);
    match written.trim_start_matches(digits) {
        "m" => number,
        "Ki" => (number * 1000) << 10,
        "Mi" => (number * 1000) << 20,
        "Gi" => (number * 1000) << 30,
        _ => number * 1000,
    }
}

type Amounts = BTreeMap<String, i128>;

fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *to.entry(name.clone()).or_default() += amount;
    }
}

fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let known = to.entry(name.clone()).or_default();
        *known = (*known).max(*amount);
    }
}

/// "The sum of all containers and sidecars, or what an init container takes with the sidecars before it, if that is more."
fn request(pod: &Value) -> Amounts {
    let of = |container: &Value| -> Amounts {
        let requests = container["resources"]["requests"].as_object().into_iter().flatten();
        requests.map(|(name, value)| (name.clone(), quantity(value))).collect()
    };
    let (mut running, mut sidecars, mut most) = (Amounts::new(), Amounts::new(), Amounts::new());
    items(&pod["spec"]["containers"]).for_each(|container| add(&mut running, &of(container)));
    for container in items(&pod["spec"]["initContainers"]) {
        let own = of(container);
        if container["restartPolicy"] == "Always" {
            add(&mut sidecars, &own);
        } else {
            let mut now = sidecars.clone();
            add(&mut now, &own);
            raise(&mut most, &now);
        }
    }
    add(&mut running, &sidecars);
    raise(&mut running, &most);
    running
}

fn host_ports(pod: &Value) -> Vec<(String, i64, String)> {
    let sidecars = items(&pod["spec"]["initContainers"]).filter(|container| container["restartPolicy"] == "Always");
    let or =
        |value: &Value, default: &str| value.as_str().filter(|text| !text.is_empty()).unwrap_or(default).to_owned();
    items(&pod["spec"]["containers"])
        .chain(sidecars)
        .flat_map(|container| items(&container["ports"]))
        .filter_map(|port| {
            Some((or(&port["protocol"], "TCP"), port["hostPort"].as_i64()?, or(&port["hostIP"], "0.0.0.0")))
        })
        .collect()
}

/// Whether a label selector matches; `null` matches nothing.
fn matches(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    if selector.is_null() {
        return false;
    }
    let by_label = selector["matchLabels"].as_object().into_iter().flatten();
    let mut all =
        by_label.map(|(key, value)| labels.get(key).map(String::as_str) == value.as_str()).collect::<Vec<_>>();
    for expression in items(&selector["matchExpressions"]) {
        let value = labels.get(text(&expression["key"]));
        let listed = items(&expression["values"]).any(|listed| Some(text(listed)) == value.map(String::as_str));
        all.push(match text(&expression["operator"]) {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            _ => value.is_none(),
        });
    }
    all.into_iter().all(|holds| holds)
}

/// The selector with what `matchLabelKeys` and `mismatchLabelKeys` add from the pod's own labels.
fn merged(term: &Value, pod: &Value) -> Value {
    let mut selector = term["labelSelector"].clone();
    let labels = labels(pod);
    for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in items(&term[keys]).map(text) {
            if let Some(value) = labels.get(key) {
                let mut expressions: Vec<Value> = items(&selector["matchExpressions"]).cloned().collect();
                expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
                selector["matchExpressions"] = json!(expressions);
            }
        }
    }
    selector
}

struct Place<'s> {
    scene: &'s Scene,
    pod: &'s Value,
    there: Vec<(&'s Value, &'s Value)>,
}

impl<'s> Place<'s> {
    fn on(&self, node: &Value) -> impl Iterator<Item = &'s Value> {
        self.there.iter().filter(move |(_, on)| name(on) == name(node)).map(|(pod, _)| *pod)
    }

    fn has_ports(&self, node: &Value) -> bool {
        let wanted = host_ports(self.pod);
        !self.on(node).flat_map(host_ports).any(|(protocol, port, ip)| {
            wanted.iter().any(|(other, number, address)| {
                let same_ip = *address == ip || address == "0.0.0.0" || ip == "0.0.0.0";
                *other == protocol && *number == port && same_ip
            })
        })
    }

    fn has_room(&self, node: &Value) -> bool {
        let allocatable = |name: &str| quantity(&node["status"]["allocatable"][name]);
        let mut used = Amounts::new();
        self.on(node).for_each(|pod| add(&mut used, &request(pod)));
        let places = allocatable("pods") / 1000 > i128::try_from(self.on(node).count()).unwrap_or(i128::MAX);
        places
            && request(self.pod)
                .iter()
                .all(|(name, amount)| *amount == 0 || used.get(name).unwrap_or(&0) + amount <= allocatable(name))
    }

    fn stays_spread(&self, node: &Value) -> bool {
        let constraints = items(&self.pod["spec"]["topologySpreadConstraints"]);
        let hard: Vec<&Value> = constraints.filter(|each| each["whenUnsatisfiable"] == "DoNotSchedule").collect();
        let has_all = |node: &Value| hard.iter().all(|each| labels(node).contains_key(text(&each["topologyKey"])));
        hard.iter().all(|constraint| {
            let key = text(&constraint["topologyKey"]);
            let mut domains: BTreeMap<String, i64> = BTreeMap::new();
            let selector = merged(constraint, self.pod);
            let empty = items(&selector["matchExpressions"]).count() == 0
                && selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty);
            for other in self.scene.nodes.iter().filter(|node| has_all(node)) {
                let machine = machine(other);
                let affine = constraint["nodeAffinityPolicy"] == "Ignore" || selects(&self.pod["spec"], &machine);
                // A cordon counts here only as the taint that comes with it, which is not there.
                let mut bare = machine.clone();
                bare.taints.retain(|(key, ..)| key != "node.kubernetes.io/unschedulable");
                let clean = constraint["nodeTaintsPolicy"] != "Honor" || tolerates_all(&self.pod["spec"], &bare);
                if affine && clean {
                    let counted = self.on(other).filter(|pod| {
                        pod["metadata"]["namespace"] == self.pod["metadata"]["namespace"]
                            && pod["metadata"]["deletionTimestamp"].is_null()
                            && !empty
                            && matches(&selector, &labels(pod))
                    });
                    let count = i64::try_from(counted.count()).unwrap_or(i64::MAX);
                    *domains.entry(labels(other)[key].clone()).or_default() += count;
                }
            }
            let enough = domains.len() >= usize::try_from(constraint["minDomains"].as_u64().unwrap_or(1)).unwrap_or(0);
            let least = domains.values().copied().min().filter(|_| enough).unwrap_or(0);
            let own = i64::from(matches(&selector, &labels(self.pod)));
            let here = labels(node).get(key).map(|domain| domains.get(domain).copied().unwrap_or(0));
            has_all(node) && here.is_some_and(|here| here + own - least <= constraint["maxSkew"].as_i64().unwrap_or(1))
        })
    }

    /// Whether the term of pod `of` matches `other`.
    fn term_matches(&self, of: &Value, term: &Value, other: &Value) -> bool {
        let namespace = text(&other["metadata"]["namespace"]);
        let listed = items(&term["namespaces"]).any(|listed| listed == namespace);
        let own = items(&term["namespaces"]).count() == 0
            && term["namespaceSelector"].is_null()
            && of["metadata"]["namespace"] == namespace;
        let known = self.scene.namespaces.iter().find(|known| name(known) == namespace);
        let selected = matches(&term["namespaceSelector"], &known.map(labels).unwrap_or_default());
        (listed || own || selected) && matches(&merged(term, of), &labels(other))
    }

    fn has_company(&self, node: &Value) -> bool {
        let required = |pod: &'s Value, kind: &str| {
            items(&pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"])
        };
        let together = |key: &Value, one: &Value, other: &Value| {
            let (one, other) = (labels(one), labels(other));
            one.get(text(key)).is_some_and(|value| other.get(text(key)) == Some(value))
        };
        let unwanted = self.there.iter().any(|(other, on)| {
            required(other, "podAntiAffinity")
                .any(|term| self.term_matches(other, term, self.pod) && together(&term["topologyKey"], on, node))
        });
        let unwilling = required(self.pod, "podAntiAffinity").any(|term| {
            let mut there = self.there.iter();
            there
                .any(|(other, on)| self.term_matches(self.pod, term, other) && together(&term["topologyKey"], on, node))
        });
        let terms: Vec<&Value> = required(self.pod, "podAffinity").collect();
        let likes = |other: &Value| terms.iter().all(|term| self.term_matches(self.pod, term, other));
        let friends: Vec<_> = self.there.iter().filter(|(other, _)| likes(other)).collect();
        let labelled = terms.iter().all(|term| labels(node).contains_key(text(&term["topologyKey"])));
        let near = terms.iter().all(|term| friends.iter().any(|(_, on)| together(&term["topologyKey"], on, node)));
        let nobody =
            !friends.iter().any(|(_, on)| terms.iter().any(|term| labels(on).contains_key(text(&term["topologyKey"]))));
        !unwanted && !unwilling && labelled && (near || (nobody && likes(self.pod)))
    }
}
