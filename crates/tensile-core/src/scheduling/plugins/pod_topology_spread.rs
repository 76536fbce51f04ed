// SPDX-License-Identifier: Apache-2.0
//! Keeps pods where they stay spread over domains as evenly as they ask for.

use serde_json::Value;

use super::super::framework::{Cycle, Filter, Plugin, Prepared};
use super::super::node_set::Mask;
use super::super::question::Spread;
use super::super::text::Text;

pub(super) const NAME: &str = "PodTopologySpread";

struct PodTopologySpread;

pub(super) fn make(_: &Value) -> Result<Box<dyn Plugin>, String> {
    // Default constraints are soft unless somebody configures others, with selectors of workloads that are not known
    // here.
    Ok(Box::new(PodTopologySpread))
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        let constraints = &cycle.question.spread;
        if constraints.is_empty() {
            return Prepared::Skip;
        }
        // Only nodes with all the labels are domains, and only they take the pod.
        let labelled = cycle.labelled(constraints.iter().map(|constraint| &constraint.topology_key));
        let mut nodes = labelled.clone();
        for constraint in constraints {
            nodes.keep(&even(cycle, constraint, &labelled));
        }
        Prepared::Filter(Box::new(Even { nodes, labelled }))
    }
}

/// The nodes where one more such pod keeps to the constraint.
fn even(cycle: &Cycle<'_>, constraint: &Spread, labelled: &Mask) -> Mask {
    let mut eligible = labelled.clone();
    if constraint.honor_affinity {
        eligible.keep(cycle.selected());
    }
    if constraint.honor_taints {
        eligible.keep(cycle.tolerated());
    }
    let shape = &cycle.question.shape;
    let on_node = pods_by_node(cycle, constraint, &shape.namespace);
    let mut nodes = Mask::empty(labelled.blocks());
    let Some(key) = cycle.nodes.labels.key(&constraint.topology_key) else { return nodes };
    // How many pods are in each domain; `None` while no node of it is eligible.
    let mut domains: Vec<Option<i64>> = vec![None; key.domains()];
    for node in eligible.iter() {
        if let Some(pods) = key.domain_of(node).and_then(|domain| domains.get_mut(domain)) {
            *pods = Some(pods.unwrap_or(0) + on_node.get(node as usize).copied().unwrap_or(0));
        }
    }
    let count = i64::try_from(domains.iter().flatten().count()).unwrap_or(i64::MAX);
    let least = domains.iter().flatten().copied().min().filter(|_| count >= constraint.min_domains).unwrap_or(0);
    let own = i64::from(constraint.selector.as_ref().is_some_and(|selector| selector.matches(&shape.labels)));
    for node in labelled.iter() {
        let pods = key.domain_of(node).and_then(|domain| domains.get(domain).copied().flatten()).unwrap_or(0);
        if (pods + own).saturating_sub(least) <= constraint.max_skew {
            nodes.insert(node);
        }
    }
    nodes
}

/// How many pods on each node the constraint counts.
fn pods_by_node(cycle: &Cycle<'_>, constraint: &Spread, namespace: &Text) -> Vec<i64> {
    let mut counts = vec![0; cycle.nodes.blocks() * super::super::node_set::BLOCK];
    // Upstream counts no pods for the empty selector, though the pod itself matches it.
    let Some(selector) = constraint.selector.as_ref().filter(|selector| !selector.is_empty()) else { return counts };
    let mut add = |node: u32, pods: u32| {
        if let Some(count) = counts.get_mut(node as usize) {
            *count += i64::from(pods);
        }
    };
    for stored in cycle.pods.of_namespace(namespace).filter(|stored| selector.matches(&stored.shape.labels)) {
        stored.on.iter().for_each(|(node, count)| add(*node, count.all - count.terminating));
    }
    let extra =
        cycle.extra.iter().filter(|(_, shape)| shape.namespace == *namespace && selector.matches(&shape.labels));
    extra.for_each(|(node, _)| add(*node, 1));
    counts
}

/// Nodes that keep the spread, among those that have the labels.
struct Even {
    nodes: Mask,
    labelled: Mask,
}

impl Filter for Even {
    fn filter(&self, block: usize, candidates: u64) -> u64 {
        candidates & self.nodes.bits(block)
    }

    fn passed(&self) -> &'static str {
        "keep to its topology spread"
    }

    fn lack(&self, left: &Mask) -> String {
        let mut labelled = left.clone();
        labelled.keep(&self.labelled);
        match labelled.count() {
            0 => "has the labels that its topology spread is over".to_owned(),
            _ => "keeps to its topology spread".to_owned(),
        }
    }

    fn resolvable(&self, left: &Mask) -> bool {
        left.iter().any(|node| self.labelled.contains(node))
    }
}
