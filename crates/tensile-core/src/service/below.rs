// SPDX-License-Identifier: Apache-2.0
//! The Service below.

use serde_json::{Map, Value, json};

use super::{Network, Networking, Path, name_of, text};
use crate::{
    names,
    pod::{LinkView, fields::Fields},
};

/// What of a Service goes down. Addresses and node ports are each cluster's own.
const SPEC: Fields = Fields {
    kept: &[
        "externalName",
        "internalTrafficPolicy",
        "publishNotReadyAddresses",
        "sessionAffinity",
        "sessionAffinityConfig",
        "trafficDistribution",
    ],
    decided: &[
        "allocateLoadBalancerNodePorts",
        "clusterIP",
        "clusterIPs",
        "externalIPs",
        "externalTrafficPolicy",
        "healthCheckNodePort",
        "ipFamilies",
        "ipFamilyPolicy",
        "loadBalancerClass",
        "loadBalancerIP",
        "loadBalancerSourceRanges",
        "ports",
        "selector",
        "type",
    ],
};

/// What a Service leads to below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// What the upper cluster's EndpointSlices hold.
    ToUpperSlices,
    /// What the lower cluster finds by its selector.
    ToLowerPods,
    /// Its load balancer upstairs.
    ToLoadBalancer,
    /// Nowhere by itself: an external name, or endpoints that its author makes.
    Nowhere,
}

pub(super) fn leads(upper: &Value, networking: Networking) -> Leads {
    let has_balancer = text(upper, "/spec/type") == Some("LoadBalancer") && !is_balanced_below(upper);
    let has_selector = upper.pointer("/spec/selector").and_then(Value::as_object).is_some_and(|keys| !keys.is_empty());
    match networking {
        _ if text(upper, "/spec/type") == Some("ExternalName") => Leads::Nowhere,
        Networking { network: Network::Joined, .. } => Leads::ToUpperSlices,
        Networking { path: Path::LoadBalancer, .. } if has_balancer => Leads::ToLoadBalancer,
        // Endpoints that somebody wrote are seldom pods.
        Networking { .. } if !has_selector => Leads::ToUpperSlices,
        Networking { .. } => Leads::ToLowerPods,
    }
}

/// Whether the lower cluster's load balancer is wanted.
pub(super) fn is_balanced_below(upper: &Value) -> bool {
    text(upper, "/spec/type") == Some("LoadBalancer")
        && text(upper, "/spec/loadBalancerClass") == Some(names::LOAD_BALANCER_CLASS)
}

/// The Service below for `upper`; members that do not go down are added to `dropped`.
pub(super) fn service(upper: &Value, leads: Leads, link: &LinkView, dropped: &mut Vec<String>) -> Value {
    let empty = Map::new();
    let (name, namespace) = name_of(upper);
    let given = upper.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let mut spec = SPEC.sift(given, "spec", dropped);
    let mut kept: Vec<&str> = Vec::new();
    let kind = if text(upper, "/spec/type") == Some("ExternalName") {
        "ExternalName"
    } else if is_balanced_below(upper) {
        kept.extend(["allocateLoadBalancerNodePorts", "externalTrafficPolicy", "loadBalancerSourceRanges"]);
        "LoadBalancer"
    } else {
        "ClusterIP"
    };
    if given.get("clusterIP").is_some_and(|address| address == "None") {
        kept.push("clusterIP");
    }
    // A lower cluster with one family of addresses takes one that prefers two, but none that requires them.
    match text(upper, "/spec/ipFamilyPolicy") {
        Some("PreferDualStack" | "RequireDualStack") => {
            spec.insert("ipFamilyPolicy".to_owned(), json!("PreferDualStack"));
        }
        _ => kept.push("ipFamilies"),
    }
    for member in kept {
        if let Some(value) = given.get(member) {
            spec.insert(member.to_owned(), value.clone());
        }
    }
    spec.insert("type".to_owned(), json!(kind));
    if let Some(Value::Array(ports)) = given.get("ports") {
        let mut ports = ports.clone();
        ports.iter_mut().filter_map(Value::as_object_mut).for_each(|port| drop(port.remove("nodePort")));
        spec.insert("ports".to_owned(), Value::Array(ports));
    }
    if let (Leads::ToLowerPods, Some(Value::Object(selector))) = (leads, given.get("selector")) {
        let mut selector = selector.clone();
        link.ignored_labels.iter().for_each(|key| drop(selector.remove(key)));
        selector.insert(names::UPPER_CLUSTER.to_owned(), json!(names::label_value(&link.upper_cluster)));
        if link.namespaces.is_shared() {
            selector.insert(names::UPPER_NAMESPACE.to_owned(), json!(namespace));
        }
        spec.insert("selector".to_owned(), Value::Object(selector));
    }
    let applied = names::fingerprint(&Value::Object(spec.clone()));
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": link.lower_service(namespace, name),
            "namespace": link.lower_namespace(namespace),
            "labels": link.marks(namespace),
            "annotations": {
                names::GLOBAL: names::TRUE,
                names::UPPER_NAME: format!("{namespace}/{name}"),
                names::UPPER_UID: upper.pointer("/metadata/uid"),
                names::APPLIED: applied,
            },
        },
        "spec": spec,
    })
}
