// SPDX-License-Identifier: Apache-2.0
//! Keeps pods near those they want near, and away from those that either wants away.

use serde_json::Value;

use super::super::framework::{Cycle, Filter, Plugin, Prepared};
use super::super::label_selector::PodTerm;
use super::super::node_set::{Mask, NodeId};
use super::super::objects::Shape;
use super::super::text::Text;

pub(super) const NAME: &str = "InterPodAffinity";

struct InterPodAffinity;

pub(super) fn make(_: &Value) -> Result<Box<dyn Plugin>, String> {
    Ok(Box::new(InterPodAffinity))
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        let question = cycle.question;
        let unwelcome = unwelcome(cycle);
        if question.affinity.is_empty() && question.shape.anti_affinity.is_empty() && unwelcome.count() == 0 {
            return Prepared::Skip;
        }
        let mut apart = unwelcome;
        for term in &question.shape.anti_affinity {
            let disliked = cycle.nodes_with(namespaces(term), |shape| cycle.matches(term, shape));
            apart.join(&cycle.domains_of(&term.topology_key, &disliked));
        }
        apart.invert();
        Prepared::Filter(Box::new(Company { near: near(cycle), apart }))
    }
}

/// The namespaces that the term's pods are of, if that is all the term says about them.
fn namespaces(term: &PodTerm) -> Option<&[Text]> {
    term.namespace_selector.is_none().then_some(&*term.namespaces)
}

/// The nodes where a pod that is there keeps the new one away.
fn unwelcome(cycle: &Cycle<'_>) -> Mask {
    let question = &cycle.question.shape;
    let mut found = Mask::empty(cycle.nodes.blocks());
    let mut keep_away = |shape: &Shape, nodes: &mut dyn Iterator<Item = NodeId>| {
        let mut hates = shape.anti_affinity.iter().filter(|term| cycle.matches(term, question)).peekable();
        if hates.peek().is_none() {
            return;
        }
        let mut on = Mask::empty(cycle.nodes.blocks());
        nodes.for_each(|node| on.insert(node));
        on.keep(&cycle.nodes.known);
        hates.for_each(|term| found.join(&cycle.domains_of(&term.topology_key, &on)));
    };
    for stored in cycle.pods.repelling(&question.namespace) {
        keep_away(&stored.shape, &mut stored.on.keys().copied());
    }
    for (node, shape) in cycle.extra {
        keep_away(shape, &mut std::iter::once(*node));
    }
    found
}

/// The nodes with the pods that the new one wants near; `None`: it wants none.
fn near(cycle: &Cycle<'_>) -> Option<Mask> {
    let terms = &cycle.question.affinity;
    let first = terms.first()?;
    // Only pods that match all of the terms count. They can be found by the first of them.
    let liked = cycle.nodes_with(namespaces(first), |shape| terms.iter().all(|term| cycle.matches(term, shape)));
    let (mut near, mut anywhere) = (cycle.nodes.known.clone(), false);
    for term in terms {
        let domains = cycle.domains_of(&term.topology_key, &liked);
        anywhere |= domains.count() > 0;
        near.keep(&domains);
    }
    // The first of pods that want each other near may go anywhere.
    let is_first = !anywhere && terms.iter().all(|term| cycle.matches(term, &cycle.question.shape));
    Some(if is_first { cycle.labelled(terms.iter().map(|term| &term.topology_key)) } else { near })
}

/// Nodes near those that are wanted, and apart from those that are not.
struct Company {
    near: Option<Mask>,
    apart: Mask,
}

impl Filter for Company {
    fn filter(&self, block: usize, candidates: u64) -> u64 {
        candidates & self.apart.bits(block) & self.near.as_ref().map_or(u64::MAX, |near| near.bits(block))
    }

    fn passed(&self) -> &'static str {
        "have the right company"
    }

    fn lack(&self, left: &Mask) -> String {
        let mut near = left.clone();
        self.near.iter().for_each(|wanted| near.keep(wanted));
        if near.count() == 0 {
            return "is near the pods it has affinity to".to_owned();
        }
        "is apart from the pods that it, or that they, have anti-affinity to".to_owned()
    }

    fn resolvable(&self, left: &Mask) -> bool {
        left.iter().any(|node| self.near.as_ref().is_none_or(|near| near.contains(node)))
    }
}
