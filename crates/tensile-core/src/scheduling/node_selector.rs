// SPDX-License-Identifier: Apache-2.0
//! Node selectors, read once and then evaluated over all nodes at a time.

use serde_json::Value;

use super::node_set::Mask;
use super::nodes::Nodes;
use crate::placement::Malformed;
use crate::placement::raw::{self, Path};
use crate::placement::selector::{HardConstraints, METADATA_NAME, NodeSelectorTerm, Operator, Requirement};

/// Labels that a node has, and terms of which it matches one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeSelector {
    labels: Box<[(Box<str>, Box<str>)]>,
    /// `None`: no term has to match.
    terms: Option<Box<[Term]>>,
}

/// Requirements on a node that all hold. A term without any matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Term {
    labels: Box<[Condition]>,
    names: Box<[Condition]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Condition {
    key: Box<str>,
    operator: Operator,
    values: Box<[Box<str>]>,
}

impl Condition {
    fn of(requirement: &Requirement<'_>) -> Self {
        Self {
            key: requirement.key.into(),
            operator: requirement.operator,
            values: requirement.values.iter().map(|value| (*value).into()).collect(),
        }
    }

    /// Takes out of `left` the nodes whose labels do not fulfil it.
    fn narrow(&self, nodes: &Nodes, left: &mut Mask) {
        let Some(key) = nodes.labels.key(&self.key) else {
            if !matches!(self.operator, Operator::NotIn | Operator::DoesNotExist) {
                *left = Mask::empty(left.blocks());
            }
            return;
        };
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = self.values.first().and_then(|value| number(value));
        let beyond = |value: &str| match (number(value), bound) {
            (Some(value), Some(bound)) if self.operator == Operator::Gt => value > bound,
            (Some(value), Some(bound)) => value < bound,
            _ => false,
        };
        let mut some = Mask::empty(left.blocks());
        match self.operator {
            Operator::In => {
                self.values.iter().filter_map(|value| key.value(value)).for_each(|nodes| some.add(nodes));
            }
            Operator::NotIn => {
                self.values.iter().filter_map(|value| key.value(value)).for_each(|nodes| left.take_out(nodes));
                return;
            }
            Operator::Exists => some.add(&key.all),
            Operator::DoesNotExist => {
                left.take_out(&key.all);
                return;
            }
            Operator::Gt | Operator::Lt => {
                let within = key.values().filter(|(value, _)| beyond(value));
                within.for_each(|(_, nodes)| some.add(nodes));
            }
            Operator::Unknown => {}
        }
        left.keep(&some);
    }

    /// The same for the name of a node: one value exactly, and `In` or `NotIn`.
    fn narrow_by_name(&self, nodes: &Nodes, left: &mut Mask) {
        let [value] = &*self.values else {
            *left = Mask::empty(left.blocks());
            return;
        };
        let is_name = &*self.key == METADATA_NAME;
        match self.operator {
            Operator::In | Operator::NotIn if !is_name => {
                // A field that does not exist reads as empty.
                if value.is_empty() != (self.operator == Operator::In) {
                    *left = Mask::empty(left.blocks());
                }
            }
            Operator::In => {
                let mut one = Mask::empty(left.blocks());
                nodes.id(value).into_iter().for_each(|node| one.insert(node));
                left.keep(&one);
            }
            Operator::NotIn => nodes.id(value).into_iter().for_each(|node| left.remove(node)),
            _ => *left = Mask::empty(left.blocks()),
        }
    }
}

impl Term {
    /// A term; `None` for one that the scheduler cannot parse, which matches nothing.
    pub(super) fn of(term: &NodeSelectorTerm<'_>) -> Option<Self> {
        let valid = term.match_expressions.iter().all(Requirement::is_valid_for_labels);
        valid.then(|| Self {
            labels: term.match_expressions.iter().map(Condition::of).collect(),
            names: term.match_fields.iter().map(Condition::of).collect(),
        })
    }

    /// Reads a `NodeSelectorTerm`.
    pub(super) fn read(term: &Value) -> Result<Option<Self>, Malformed> {
        if term.is_null() {
            return Ok(None);
        }
        NodeSelectorTerm::read(term, Path::Root("preference")).map(|term| Self::of(&term))
    }

    /// The term that wants each of these labels to have one of the values.
    pub(super) fn of_labels(labels: impl Iterator<Item = (Box<str>, Box<[Box<str>]>)>) -> Self {
        let conditions = labels.map(|(key, values)| Condition { key, operator: Operator::In, values });
        Self { labels: conditions.collect(), names: Box::default() }
    }

    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.names.is_empty()
    }

    /// The nodes among `of` that it matches.
    pub(super) fn select(&self, nodes: &Nodes, of: &Mask) -> Mask {
        if self.is_empty() {
            return Mask::empty(of.blocks());
        }
        let mut left = of.clone();
        self.labels.iter().for_each(|condition| condition.narrow(nodes, &mut left));
        self.names.iter().for_each(|condition| condition.narrow_by_name(nodes, &mut left));
        left
    }
}

impl NodeSelector {
    /// What a pod requires: `nodeSelector` and required node affinity.
    pub(super) fn of_pod(hard: &HardConstraints<'_>) -> Self {
        Self {
            labels: hard.node_selector.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            terms: hard.required.as_ref().map(|terms| terms.iter().filter_map(Term::of).collect()),
        }
    }

    /// The selector that wants one of these terms.
    pub(super) fn of_terms(terms: Vec<Term>) -> Self {
        Self { labels: Box::default(), terms: Some(terms.into()) }
    }

    /// Reads a `NodeSelector`; `null` selects all nodes.
    pub(super) fn of_node_selector(selector: &Value) -> Result<Self, Malformed> {
        if selector.is_null() {
            return Ok(Self::default());
        }
        let at = Path::Root("nodeSelector");
        let items = raw::list(raw::object(selector, at)?, "nodeSelectorTerms", at)?;
        let terms = items.iter().map(|item| NodeSelectorTerm::read(item, at).map(|term| Term::of(&term)));
        Ok(Self::of_terms(terms.filter_map(Result::transpose).collect::<Result<_, _>>()?))
    }

    /// Whether it selects whatever nodes there are.
    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.terms.is_none()
    }

    /// The nodes that it selects.
    pub(super) fn select(&self, nodes: &Nodes) -> Mask {
        let mut left = nodes.known.clone();
        for (key, value) in &self.labels {
            let mut having = Mask::empty(left.blocks());
            nodes.labels.value(key, value).into_iter().for_each(|nodes| having.add(nodes));
            left.keep(&having);
        }
        let Some(terms) = &self.terms else { return left };
        let mut any = Mask::empty(left.blocks());
        terms.iter().for_each(|term| any.join(&term.select(nodes, &left)));
        any
    }
}
