// SPDX-License-Identifier: Apache-2.0
//! What a lower pod asks for: the stash, as far as it counts below a given virtual node.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::raw::{self, Malformed, Path};
use super::selector::Node;
use super::split::{Split, split};
use super::{KeptKeys, Placement, PlacementError, node_affinity, topology};
use crate::stash::Stash;

/// The placement fields of the lower pod for `pod`, bound to the virtual node `node_name` with labels `node_labels`.
///
/// A pod that never went through the webhook is split first, so that its constraints are not lost. A node its kept
/// constraints exclude is [`PlacementError::WrongVirtualNode`], as a kubelet would refuse it. The scheduler ignores
/// labels that change later (`IgnoredDuringExecution`): ask this before creating the lower pod, not to judge one that
/// runs.
pub fn restore(
    pod: &Value,
    node_labels: &BTreeMap<String, String>,
    node_name: &str,
    kept: &KeptKeys,
) -> Result<Placement, PlacementError> {
    let Split { upper, mut stash } = split(pod, kept)?;
    let node = Node { name: node_name, labels: node_labels };
    let wrong_node = |reason| PlacementError::WrongVirtualNode { node: node_name.to_owned(), reason };
    if let Some(reason) = node_selector_excludes(upper.node_selector, node)? {
        return Err(wrong_node(reason));
    }

    let mut upper_affinity = members(upper.affinity);
    let upper_node_affinity = members(upper_affinity.remove("nodeAffinity"));
    let mut affinity = members(stash.affinity.take());
    let mut node_affinity = members(affinity.remove("nodeAffinity"));
    if !node_affinity::restore(&upper_node_affinity, &mut node_affinity, &stash, node, kept)? {
        return Err(wrong_node("none of the terms of its required node affinity matches".to_owned()));
    }
    raw::set_object(&mut affinity, "nodeAffinity", node_affinity);

    let Stash { node_selector, tolerations, mut topology_spread, .. } = stash;
    if kept.topology.is_empty() {
        topology::add_pod_affinity(upper_affinity, &mut affinity)?;
        let constraints = match upper.topology_spread {
            None => Vec::new(),
            Some(Value::Array(constraints)) => constraints,
            Some(_) => return Err(Path::Root("spec.topologySpreadConstraints").must_be("a list").into()),
        };
        raw::extend_new(&mut topology_spread, constraints);
    }
    topology::unmerge_pod_affinity(&mut affinity);
    topology_spread.iter_mut().for_each(topology::unmerge);

    let node_selector: Map<String, Value> =
        node_selector.into_iter().map(|(key, value)| (key, Value::from(value))).collect();
    Ok(Placement {
        node_selector: (!node_selector.is_empty()).then_some(Value::Object(node_selector)),
        affinity: (!affinity.is_empty()).then_some(Value::Object(affinity)),
        tolerations: (!tolerations.is_empty()).then_some(Value::Array(tolerations)),
        topology_spread: (!topology_spread.is_empty()).then_some(Value::Array(topology_spread)),
    })
}

fn node_selector_excludes(selector: Option<Value>, node: Node<'_>) -> Result<Option<String>, Malformed> {
    let Some(selector) = selector else {
        return Ok(None);
    };
    let at = Path::Root("spec.nodeSelector");
    let selector = raw::strings(raw::into_object(selector, at)?, at)?;
    let missed = selector.iter().find(|(key, value)| node.labels.get(*key) != Some(*value));
    Ok(missed.map(|(key, value)| match node.labels.get(key) {
        Some(label) => format!("its nodeSelector requires {key}={value}, the node has {key}={label}"),
        None => format!("its nodeSelector requires {key}={value}, the node has no such label"),
    }))
}

fn members(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}
