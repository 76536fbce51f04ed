// SPDX-License-Identifier: Apache-2.0
//! Nodes and pods, drawn so that each rule of the scheduler is about as often kept as broken.

use serde_json::{Value, json};

use crate::fuzz::Numbers;

/// The namespaces that pods are in.
pub const NAMESPACES: [&str; 3] = ["blue", "green", "red"];

const ZONES: [&str; 3] = ["a", "b", "c"];
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const APPS: [&str; 3] = ["web", "db", "cache"];

/// The namespaces, each with a label `team`, but for one.
pub fn namespaces() -> Vec<Value> {
    let labels = [json!({"team": "one"}), json!({"team": "two"}), json!({})];
    let namespace = |(name, labels)| json!({"metadata": {"name": name, "labels": labels}});
    NAMESPACES.iter().zip(labels).map(namespace).collect()
}

/// That many nodes, called `PREFIX-0`, `PREFIX-1`, and so on.
pub fn nodes(numbers: &mut Numbers, prefix: &str, count: usize) -> Vec<Value> {
    (0..count).map(|number| node(numbers, &format!("{prefix}-{number}"))).collect()
}

fn node(numbers: &mut Numbers, name: &str) -> Value {
    let mut labels = json!({});
    if !numbers.one_in(8) {
        labels[HOSTNAME] = json!(name);
    }
    if !numbers.one_in(6) {
        labels[ZONE] = json!(*numbers.of(&ZONES));
    }
    if numbers.one_in(2) {
        labels["disk"] = json!(*numbers.of(&["ssd", "hdd", ""]));
    }
    if numbers.one_in(2) {
        labels["cores"] = json!(*numbers.of(&["2", "4", "08", "many"]));
    }
    let mut taints = Vec::new();
    for key in ["team", "gpu"] {
        if numbers.one_in(6) {
            let effect = *numbers.of(&["NoSchedule", "NoExecute", "PreferNoSchedule"]);
            let mut taint = json!({"key": key, "effect": effect});
            if numbers.one_in(2) {
                taint["value"] = json!(*numbers.of(&["x", "y"]));
            }
            taints.push(taint);
        }
    }
    let mut allocatable = json!({
        "cpu": *numbers.of(&["500m", "1", "2", "3500m"]),
        "memory": *numbers.of(&["512Mi", "1Gi", "3Gi"]),
        "ephemeral-storage": *numbers.of(&["1Gi", "10Gi"]),
        "pods": *numbers.of(&["2", "5", "110"]),
    });
    if numbers.one_in(3) {
        allocatable["example.com/gpu"] = json!(*numbers.of(&["0", "1", "4"]));
    }
    let mut spec = json!({"taints": taints});
    if numbers.one_in(10) {
        spec["unschedulable"] = json!(true);
    }
    json!({"metadata": {"name": name, "labels": labels}, "spec": spec,
        "status": {"allocatable": allocatable, "capacity": allocatable}})
}

/// A pod of one of the namespaces that looks for one of the nodes.
pub fn pod(numbers: &mut Numbers, name: &str, nodes: &[Value]) -> Value {
    let namespace = *numbers.of(&NAMESPACES);
    let mut labels = json!({"app": *numbers.of(&APPS)});
    if numbers.one_in(2) {
        labels["version"] = json!(*numbers.of(&["1", "2"]));
    }
    let count = 1 + usize::from(numbers.one_in(4));
    let containers: Vec<Value> = (0..count).map(|number| container(numbers, &format!("c{number}"))).collect();
    let mut spec = json!({"containers": containers});
    if numbers.one_in(4) {
        spec["initContainers"] = json!(init_containers(numbers));
    }
    if numbers.one_in(6) {
        spec["nodeSelector"] = match numbers.below(3) {
            0 => json!({"disk": "ssd"}),
            1 => json!({ZONE: *numbers.of(&ZONES)}),
            _ => json!({"disk": *numbers.of(&["hdd", ""]), "cores": "4"}),
        };
    }
    let mut affinity = json!({});
    if numbers.one_in(4) {
        let terms: Vec<Value> = (0..=numbers.below(2)).map(|_| node_term(numbers, nodes)).collect();
        let required = json!({"nodeSelectorTerms": terms});
        affinity["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
    }
    for (kind, rarity) in [("podAffinity", 5), ("podAntiAffinity", 4)] {
        if numbers.one_in(rarity) {
            let terms: Vec<Value> = (0..=numbers.below(2)).map(|_| pod_term(numbers)).collect();
            affinity[kind] = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
        }
    }
    if affinity != json!({}) {
        spec["affinity"] = affinity;
    }
    if numbers.one_in(3) {
        spec["tolerations"] = (0..=numbers.below(2)).map(|_| toleration(numbers)).collect();
    }
    if numbers.one_in(3) {
        let mut constraints: Vec<Value> = Vec::new();
        for key in [ZONE, HOSTNAME] {
            if numbers.one_in(2) {
                constraints.push(spread(numbers, key));
            }
        }
        spec["topologySpreadConstraints"] = json!(constraints);
    }
    json!({"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec})
}

/// The pod on a node: a state that a scheduler would have brought about, or not.
pub fn bound(numbers: &mut Numbers, mut pod: Value, nodes: &[Value]) -> Value {
    pod["spec"]["nodeName"] = numbers.of(nodes)["metadata"]["name"].clone();
    match numbers.below(12) {
        0 => pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        1 => pod["status"] = json!({"phase": *numbers.of(&["Succeeded", "Failed"])}),
        _ => pod["status"] = json!({"phase": "Running"}),
    }
    pod
}

fn container(numbers: &mut Numbers, name: &str) -> Value {
    let mut requests = json!({});
    if !numbers.one_in(4) {
        requests["cpu"] = json!(*numbers.of(&["100m", "250m", "500m", "1", "0"]));
    }
    if !numbers.one_in(4) {
        requests["memory"] = json!(*numbers.of(&["64Mi", "256Mi", "700Mi"]));
    }
    if numbers.one_in(10) {
        requests["ephemeral-storage"] = json!(*numbers.of(&["1Gi", "2Gi"]));
    }
    let mut container = json!({"name": name, "image": "example.org/app:1"});
    let mut resources = json!({"requests": requests});
    if numbers.one_in(10) {
        let gpus = *numbers.of(&["1", "2"]);
        resources["requests"]["example.com/gpu"] = json!(gpus);
        resources["limits"] = json!({"example.com/gpu": gpus});
    }
    container["resources"] = resources;
    if numbers.one_in(5) {
        container["ports"] = json!([port(numbers)]);
    }
    container
}

fn init_containers(numbers: &mut Numbers) -> Vec<Value> {
    let mut containers = Vec::new();
    for number in 0..=numbers.below(2) {
        let mut container = container(numbers, &format!("i{number}"));
        if numbers.one_in(2) {
            container["restartPolicy"] = json!("Always");
        }
        containers.push(container);
    }
    containers
}

fn port(numbers: &mut Numbers) -> Value {
    let mut port = json!({"containerPort": 8080, "hostPort": *numbers.of(&[8080, 8081])});
    if numbers.one_in(3) {
        port["hostIP"] = json!(*numbers.of(&["0.0.0.0", "10.0.0.1", "10.0.0.2"]));
    }
    if numbers.one_in(3) {
        port["protocol"] = json!(*numbers.of(&["UDP", "TCP", "SCTP"]));
    }
    port
}

fn node_term(numbers: &mut Numbers, nodes: &[Value]) -> Value {
    if numbers.one_in(4) {
        let name = &numbers.of(nodes)["metadata"]["name"];
        let operator = *numbers.of(&["In", "NotIn"]);
        return json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]});
    }
    let expressions: Vec<Value> = (0..=numbers.below(2))
        .map(|_| match numbers.below(7) {
            0 => json!({"key": "disk", "operator": "In", "values": ["ssd", ""]}),
            1 => json!({"key": "disk", "operator": "NotIn", "values": [*numbers.of(&["ssd", "hdd"])]}),
            2 => json!({"key": "disk", "operator": *numbers.of(&["Exists", "DoesNotExist"])}),
            3 => json!({"key": "cores", "operator": *numbers.of(&["Gt", "Lt"]), "values": ["3"]}),
            4 => json!({"key": "nowhere", "operator": *numbers.of(&["DoesNotExist", "Exists"])}),
            _ => json!({"key": ZONE, "operator": *numbers.of(&["In", "NotIn"]), "values": [*numbers.of(&ZONES)]}),
        })
        .collect();
    json!({"matchExpressions": expressions})
}

fn toleration(numbers: &mut Numbers) -> Value {
    match numbers.below(5) {
        0 => json!({"operator": "Exists"}),
        1 => json!({"key": "team", "operator": "Equal", "value": *numbers.of(&["x", "y"])}),
        2 => json!({"key": "gpu", "operator": "Exists", "effect": *numbers.of(&["NoSchedule", "NoExecute"])}),
        3 => json!({"key": "team", "effect": "NoSchedule"}),
        _ => json!({"key": *numbers.of(&["team", "gpu"]), "operator": "Exists"}),
    }
}

fn selector(numbers: &mut Numbers) -> Value {
    match numbers.below(6) {
        0 => json!({}),
        1 => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [*numbers.of(&APPS)]}]}),
        2 => json!({"matchExpressions": [{"key": "version", "operator": *numbers.of(&["Exists", "DoesNotExist"])}]}),
        _ => json!({"matchLabels": {"app": *numbers.of(&APPS)}}),
    }
}

fn pod_term(numbers: &mut Numbers) -> Value {
    let mut term = json!({
        "topologyKey": *numbers.of(&[ZONE, HOSTNAME, "disk"]),
        "labelSelector": selector(numbers),
    });
    match numbers.below(8) {
        0 => term["namespaces"] = json!([*numbers.of(&NAMESPACES)]),
        1 => term["namespaceSelector"] = json!({}),
        2 => term["namespaceSelector"] = json!({"matchLabels": {"team": *numbers.of(&["one", "two"])}}),
        3 => {
            term["namespaceSelector"] = json!({"matchLabels": {"team": "one"}});
            term["namespaces"] = json!(["red"]);
        }
        _ => {}
    }
    if numbers.one_in(6) {
        term["matchLabelKeys"] = json!(["version"]);
    } else if numbers.one_in(8) {
        term["mismatchLabelKeys"] = json!(["version"]);
    }
    term
}

fn spread(numbers: &mut Numbers, key: &str) -> Value {
    let mut constraint = json!({
        "maxSkew": 1 + numbers.below(2),
        "topologyKey": key,
        "whenUnsatisfiable": if numbers.one_in(6) { "ScheduleAnyway" } else { "DoNotSchedule" },
        "labelSelector": selector(numbers),
    });
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" && numbers.one_in(4) {
        constraint["minDomains"] = json!(1 + numbers.below(4));
    }
    if numbers.one_in(4) {
        constraint["nodeAffinityPolicy"] = json!(*numbers.of(&["Honor", "Ignore"]));
    }
    if numbers.one_in(4) {
        constraint["nodeTaintsPolicy"] = json!(*numbers.of(&["Honor", "Ignore"]));
    }
    if numbers.one_in(5) {
        constraint["matchLabelKeys"] = json!(["version"]);
    }
    constraint
}
