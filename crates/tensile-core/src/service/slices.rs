// SPDX-License-Identifier: Apache-2.0
//! The EndpointSlices below.

use serde_json::{Map, Value, json};

use super::{ingress, label, name_of, text};
use crate::{names, pod::LinkView, sync};

/// What goes down of an endpoint: nodes, zones and pods are the upper cluster's.
const ENDPOINT: &[&str] = &["addresses", "conditions", "hostname"];
/// Kubernetes' label of slices of Services without an address of their own.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";

/// The slice below for the slice `upper`.
pub(super) fn copy(upper: &Value, service: &str, link: &LinkView) -> Value {
    let endpoints = upper.get("endpoints").and_then(Value::as_array).into_iter().flatten();
    let endpoints: Vec<Value> = endpoints
        .filter_map(Value::as_object)
        .map(|endpoint| {
            let kept = endpoint.iter().filter(|(member, _)| ENDPOINT.contains(&member.as_str()));
            Value::Object(kept.map(|(member, value)| (member.clone(), value.clone())).collect::<Map<_, _>>())
        })
        .collect();
    let headless = upper.pointer("/metadata/labels").and_then(|labels| labels.get(HEADLESS));
    let (name, namespace) = name_of(upper);
    let content = json!({
        "addressType": upper.get("addressType"), "endpoints": endpoints,
        "ports": upper.get("ports").filter(|ports| ports.is_array()).unwrap_or(&json!([])),
    });
    slice(name, namespace, service, headless, content, link)
}

/// The slices below that hold the addresses of the load balancer of the Service `upper`, one for each family that it has.
pub(super) fn of_load_balancer(upper: &Value, link: &LinkView) -> Vec<Value> {
    let (name, namespace) = name_of(upper);
    let balanced = balanced(upper, ingress(upper)).into_iter();
    balanced.map(|(family, content)| slice(&format!("{name}-{family}"), namespace, name, None, content, link)).collect()
}

/// The slices above that lead the Service `upper` to the load balancer of `lower`, for those who are upstairs.
pub(super) fn above(upper: &Value, lower: &Value, link: &LinkView) -> Vec<Value> {
    let (name, namespace) = name_of(upper);
    let balanced = balanced(upper, ingress(lower)).into_iter();
    let slices = balanced.map(|(family, mut slice)| {
        let part = format!("{name}-{family}");
        let applied = names::fingerprint(&slice);
        slice["apiVersion"] = json!("discovery.k8s.io/v1");
        slice["kind"] = json!("EndpointSlice");
        slice["metadata"] = json!({
            "name": names::hashed(&part, &sync::whose(namespace, &part, link)),
            "namespace": namespace,
            "labels": {
                names::VIRTUAL_NODE: names::label_value(&link.virtual_node),
                names::SERVICE_NAME: name,
                names::MANAGED_BY: names::SLICE_MANAGER,
            },
            "annotations": { names::APPLIED: applied },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": name, "uid": upper.pointer("/metadata/uid"),
            }],
        });
        slice
    });
    slices.collect()
}

/// Whether a virtual node made the slice above: it leads to a lower cluster, so it never goes down.
pub(super) fn is_from_below(slice: &Value) -> bool {
    label(slice, names::MANAGED_BY) == Some(names::SLICE_MANAGER)
}

/// The addresses of a load balancer by family, with the ports of the Service, which it listens on.
fn balanced(upper: &Value, ingress: &[Value]) -> Vec<(&'static str, Value)> {
    let addresses: Vec<&str> = ingress.iter().filter_map(|ingress| text(ingress, "/ip")).collect();
    let ports = upper.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
    let ports: Vec<Value> = ports
        .map(|port| {
            json!({ "name": port.get("name").unwrap_or(&json!("")), "port": port.get("port"),
                "protocol": port.get("protocol").unwrap_or(&json!("TCP")) })
        })
        .collect();
    let of_family = |kind: &str, is_six: bool| {
        let addresses: Vec<&&str> = addresses.iter().filter(|address| address.contains(':') == is_six).collect();
        let endpoints: Vec<Value> = addresses
            .iter()
            .map(|address| json!({ "addresses": [address], "conditions": { "ready": true } }))
            .collect();
        let content = json!({ "addressType": kind, "endpoints": endpoints, "ports": ports });
        (!endpoints.is_empty()).then_some(content)
    };
    let families = [("ipv4", of_family("IPv4", false)), ("ipv6", of_family("IPv6", true))];
    families.into_iter().filter_map(|(family, content)| Some((family, content?))).collect()
}

fn slice(
    name: &str,
    namespace: &str,
    service: &str,
    headless: Option<&Value>,
    content: Value,
    link: &LinkView,
) -> Value {
    let mut labels = link.marks(namespace);
    labels[names::SERVICE_NAME] = json!(link.lower_service(namespace, service));
    labels[names::MANAGED_BY] = json!(names::SLICE_MANAGER);
    if let Some(headless) = headless {
        labels[HEADLESS] = headless.clone();
    }
    let applied = names::fingerprint(&content);
    let mut slice = content;
    slice["apiVersion"] = json!("discovery.k8s.io/v1");
    slice["kind"] = json!("EndpointSlice");
    slice["metadata"] = json!({
        "name": names::hashed(name, &sync::whose(namespace, name, link)),
        "namespace": link.lower_namespace(namespace),
        "labels": labels,
        "annotations": { names::UPPER_NAME: format!("{namespace}/{service}"), names::APPLIED: applied },
    });
    slice
}
