//! The Endpoints below, where the operator asks for them: what clients read that do not know EndpointSlices yet.
//!
//! Kubernetes has deprecated them since 1.33 and keeps them in step for Services with a selector only; those below have none
//! where they follow the upper cluster's EndpointSlices.

use serde_json::{Map, Value, json};

use super::{slices::HEADLESS, text};
use crate::{names, pod::LinkView};

/// Endpoints hold no more addresses than this; those that are ready come first (Kubernetes
/// `pkg/controller/endpoint/endpoints_controller.go`, `maxCapacity`).
const MOST: usize = 1_000;
/// Says that there were more.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Keeps the lower cluster from making EndpointSlices of them: there are some already.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

/// The Endpoints below of the Service `upper`, whose slices there are `slices`; nothing when it has none.
///
/// They have addresses of one family, the Service's first.
pub(super) fn of(upper: &Value, slices: &[Value], link: &LinkView) -> Option<Value> {
    if slices.is_empty() {
        return None;
    }
    let text_of = |pointer| text(upper, pointer).unwrap_or_default();
    let (name, namespace) = (text_of("/metadata/name"), text_of("/metadata/namespace"));
    let family = text(upper, "/spec/ipFamilies/0").unwrap_or("IPv4");
    let of_family = || slices.iter().filter(|slice| slice["addressType"] == family);
    let mut room = MOST;
    let mut take = |ready: bool| -> Vec<Vec<Value>> {
        of_family()
            .map(|slice| {
                let mut addresses = addresses(slice, ready);
                addresses.truncate(room);
                room -= addresses.len();
                addresses
            })
            .collect()
    };
    let (ready, waiting) = (take(true), take(false));
    let taken: usize = ready.iter().chain(&waiting).map(Vec::len).sum();
    let all: usize = of_family().map(|slice| addresses(slice, true).len() + addresses(slice, false).len()).sum();
    let subsets: Vec<Value> = of_family()
        .zip(ready.into_iter().zip(waiting))
        .filter(|(_, (ready, waiting))| !ready.is_empty() || !waiting.is_empty())
        .map(|(slice, (ready, waiting))| {
            let mut subset = Map::new();
            for (member, addresses) in [("addresses", ready), ("notReadyAddresses", waiting)] {
                if !addresses.is_empty() {
                    subset.insert(member.to_owned(), Value::Array(addresses));
                }
            }
            subset.insert("ports".to_owned(), slice["ports"].clone());
            Value::Object(subset)
        })
        .collect();
    let mut labels = link.marks(namespace);
    labels[SKIP_MIRROR] = json!(names::TRUE);
    if let Some(headless) = slices.iter().find_map(|slice| slice["metadata"]["labels"].get(HEADLESS)) {
        labels[HEADLESS] = headless.clone();
    }
    let applied = format!("{:016x}", names::fnv1a(json!(subsets).to_string().as_bytes()));
    let mut annotations = json!({
        names::UPPER_NAME: format!("{namespace}/{name}"),
        names::APPLIED: applied,
    });
    if taken < all {
        annotations[OVER_CAPACITY] = json!("truncated");
    }
    Some(json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": link.lower_service(namespace, name),
            "namespace": link.lower_namespace(namespace),
            "labels": labels,
            "annotations": annotations,
        },
        "subsets": subsets,
    }))
}

/// The addresses of a slice that are ready, or those that are not. What says nothing of it is ready, as in EndpointSlices.
fn addresses(slice: &Value, ready: bool) -> Vec<Value> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints
        .filter(|endpoint| (endpoint["conditions"]["ready"] != false) == ready)
        .filter_map(|endpoint| {
            let mut address = json!({ "ip": endpoint["addresses"].get(0)? });
            if let Some(hostname) = endpoint.get("hostname") {
                address["hostname"] = hostname.clone();
            }
            Some(address)
        })
        .collect()
}
