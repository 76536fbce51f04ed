//! The EndpointSlices below.

use serde_json::{Map, Value, json};

use super::{below, text};
use crate::{
    names,
    pod::{LinkView, lower_namespace},
};

/// What goes down of an endpoint: nodes, zones and pods are the upper cluster's.
const ENDPOINT: &[&str] = &["addresses", "conditions", "hostname"];
/// Kubernetes' label of slices of Services without an address of their own.
const HEADLESS: &str = "service.kubernetes.io/headless";

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
    let name = text(upper, "/metadata/name").unwrap_or_default();
    let namespace = text(upper, "/metadata/namespace").unwrap_or_default();
    let content = json!({
        "addressType": upper.get("addressType"), "endpoints": endpoints,
        "ports": upper.get("ports").filter(|ports| ports.is_array()).unwrap_or(&json!([])),
    });
    slice(name, namespace, service, headless, content, link)
}

/// The slices that hold the addresses of the load balancer of the Service `upper`, one for each family that it has.
pub(super) fn of_load_balancer(upper: &Value, link: &LinkView) -> Vec<Value> {
    let (name, namespace) =
        (text(upper, "/metadata/name").unwrap_or_default(), text(upper, "/metadata/namespace").unwrap_or_default());
    let ingress = upper.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
    let addresses: Vec<&str> = ingress.into_iter().flatten().filter_map(|ingress| text(ingress, "/ip")).collect();
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
        let whose = format!("{name}-{}", kind.to_lowercase());
        (!endpoints.is_empty()).then(|| slice(&whose, namespace, name, None, content, link))
    };
    [of_family("IPv4", false), of_family("IPv6", true)].into_iter().flatten().collect()
}

fn slice(
    name: &str,
    namespace: &str,
    service: &str,
    headless: Option<&Value>,
    content: Value,
    link: &LinkView,
) -> Value {
    let mut labels = below::owner(link);
    labels[names::SERVICE_NAME] = json!(service);
    labels[names::MANAGED_BY] = json!(names::SLICE_MANAGER);
    if let Some(headless) = headless {
        labels[HEADLESS] = headless.clone();
    }
    let whose = format!("{}/{}/{namespace}/{name}", link.upper_cluster, link.virtual_node);
    let applied = format!("{:016x}", names::fnv1a(content.to_string().as_bytes()));
    let mut slice = content;
    slice["apiVersion"] = json!("discovery.k8s.io/v1");
    slice["kind"] = json!("EndpointSlice");
    slice["metadata"] = json!({
        "name": names::hashed(name, &whose),
        "namespace": lower_namespace(namespace),
        "labels": labels,
        "annotations": { names::UPPER_NAME: format!("{namespace}/{service}"), names::APPLIED: applied },
    });
    slice
}
