// SPDX-License-Identifier: Apache-2.0
//! Keeps pods on nodes that their node selector and node affinity select.

use serde_json::Value;

use super::super::framework::{Allowed, Cycle, Plugin, Prepared, Score};
use super::super::node_selector::NodeSelector;
use super::super::node_set::{Mask, NodeId};

pub(super) const NAME: &str = "NodeAffinity";

/// With what the administrator adds for all pods.
struct NodeAffinity {
    added: NodeSelector,
}

pub(super) fn make(args: &Value) -> Result<Box<dyn Plugin>, String> {
    let required = args.pointer("/addedAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    let added = NodeSelector::of_node_selector(required.unwrap_or(&Value::Null)).map_err(|error| error.to_string())?;
    Ok(Box::new(NodeAffinity { added }))
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        if cycle.question.selector.is_empty() && self.added.is_empty() {
            return Prepared::Skip;
        }
        let mut selected = cycle.selected().clone();
        if !self.added.is_empty() {
            selected.keep(&self.added.select(cycle.nodes));
        }
        Allowed::only(selected, "match its node selector", "matches its node selector")
    }

    fn pre_score<'c>(&'c self, cycle: &'c Cycle<'_>) -> Option<Box<dyn Score + 'c>> {
        let preferred = &cycle.question.preferred;
        let select = |(weight, term): &(i64, _)| (*weight, term_nodes(term, cycle));
        (!preferred.is_empty()).then(|| Box::new(Preferred(preferred.iter().map(select).collect())) as Box<dyn Score>)
    }
}

fn term_nodes(term: &super::super::node_selector::Term, cycle: &Cycle<'_>) -> Mask {
    term.select(cycle.nodes, &cycle.nodes.known)
}

/// The nodes of each preferred term, and its weight.
struct Preferred(Vec<(i64, Mask)>);

impl Score for Preferred {
    fn score(&self, node: NodeId) -> i64 {
        self.0.iter().filter(|(_, nodes)| nodes.contains(node)).map(|(weight, _)| weight).sum()
    }
}
