// SPDX-License-Identifier: Apache-2.0
//! The Endpoints below, where the operator asks for them: what clients read that do not know EndpointSlices yet.
//!
//! Kubernetes has deprecated them since 1.33 and keeps them in step for Services with a selector only; those below have none
//! where they follow the upper cluster's EndpointSlices.

use serde_json::{Value, json};

use super::{name_of, slices::HEADLESS, text};
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
    let (name, namespace) = name_of(upper);
    let family = text(upper, "/spec/ipFamilies/0").unwrap_or("IPv4");
    let of_family = slices.iter().filter(|slice| slice["addressType"] == family);
    let mut subsets: Vec<_> = of_family.map(|slice| (slice, addresses(slice, true), addresses(slice, false))).collect();
    let (mut room, mut is_over) = (MOST, false);
    let mut fit = |addresses: &mut Vec<Value>| {
        is_over |= addresses.len() > room;
        addresses.truncate(room);
        room -= addresses.len();
    };
    for (_, ready, _) in &mut subsets {
        fit(ready);
    }
    for (_, _, waiting) in &mut subsets {
        fit(waiting);
    }
    let subsets: Vec<Value> = subsets
        .into_iter()
        .filter(|(_, ready, waiting)| !ready.is_empty() || !waiting.is_empty())
        .map(|(slice, ready, waiting)| {
            let mut subset = json!({ "ports": slice["ports"] });
            for (member, addresses) in [("addresses", ready), ("notReadyAddresses", waiting)] {
                if !addresses.is_empty() {
                    subset[member] = Value::Array(addresses);
                }
            }
            subset
        })
        .collect();
    let mut labels = link.marks(namespace);
    labels[SKIP_MIRROR] = json!(names::TRUE);
    if let Some(headless) = slices.iter().find_map(|slice| slice["metadata"]["labels"].get(HEADLESS)) {
        labels[HEADLESS] = headless.clone();
    }
    let applied = names::fingerprint(&json!(subsets));
    let mut annotations = json!({
        names::UPPER_NAME: format!("{namespace}/{name}"),
        names::APPLIED: applied,
    });
    if is_over {
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
