// SPDX-License-Identifier: Apache-2.0
//! Services on their way down, and what their endpoints are there.
//!
//! A Service goes down with the pods of its namespace, or where its author marks it [`names::GLOBAL`], under its own name:
//! that is what pods know it by. What it leads to depends on the network:
//!
//! - **joined**: pods of all clusters reach one another. Below it has no selector; its EndpointSlices are those of the upper
//!   cluster, which knows all pods.
//! - **separate**: only pods of the same cluster do. Below it has its selector, and the lower cluster finds its own pods;
//!   the selector also names the upper cluster, so that pods of another one with the same labels are none of them.
//! - **over a load balancer**, where networks are separate and the Service has one upstairs: below it has no selector, and
//!   its EndpointSlice holds the addresses of the load balancer.
//!
//! Endpoints, the older kind, are written beside EndpointSlices only where the operator asks for them.
//!
//! The other way round, over the lower cluster's load balancer, clients upstairs are led by an EndpointSlice there.
//!
//! A Service of type `LoadBalancer` and class [`names::LOAD_BALANCER_CLASS`] gets the lower cluster's load balancer, whose
//! addresses are shown on it upstairs, beside those of other lower clusters. Any other type is a `ClusterIP` below: node
//! ports and load balancers are for clients outside, who have the upper Service.

mod below;
mod endpoints;
mod plan;
mod slices;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use plan::{Action, Change, Facts, Plan, plan};

use crate::{names, pod::LinkView};

/// What pods of different clusters can reach of one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// One another, by their addresses.
    #[default]
    Joined,
    /// Nothing.
    Separate,
}

/// How a Service leads to pods of other clusters where networks are separate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// By their addresses, so not at all.
    #[default]
    Endpoints,
    /// Over its load balancer.
    LoadBalancer,
}

/// What the operator decides about Services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Networking {
    /// What pods of different clusters can reach.
    pub network: Network,
    /// How Services lead there.
    pub path: Path,
    /// Endpoints are written below beside EndpointSlices, for clients that do not know those.
    pub legacy_endpoints: bool,
}

/// Whether its author wants the object in all lower clusters.
#[must_use]
pub fn is_global(annotations: impl Fn(&str) -> Option<String>) -> bool {
    annotations(names::GLOBAL).as_deref() == Some(names::TRUE)
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// Name and namespace.
fn name_of(object: &Value) -> (&str, &str) {
    let text_of = |pointer| text(object, pointer).unwrap_or_default();
    (text_of("/metadata/name"), text_of("/metadata/namespace"))
}

/// The addresses of load balancers that a Service shows.
fn ingress(service: &Value) -> &[Value] {
    service.pointer("/status/loadBalancer/ingress").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether a link of the same upper cluster made the object below.
fn is_of_upper(object: &Value, link: &LinkView) -> bool {
    label(object, names::UPPER_CLUSTER) == Some(names::label_value(&link.upper_cluster).as_str())
}

/// Whether `link` made the object below.
fn is_ours(object: &Value, link: &LinkView) -> bool {
    is_of_upper(object, link)
        && label(object, names::VIRTUAL_NODE) == Some(names::label_value(&link.virtual_node).as_str())
}
