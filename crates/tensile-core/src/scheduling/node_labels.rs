// SPDX-License-Identifier: Apache-2.0
//! Which nodes have which labels.

use foldhash::HashMap;

use super::labels::Labels;
use super::node_set::{NodeId, NodeSet};
use super::text::Text;

/// An index of nodes by their labels.
#[derive(Debug, Default)]
pub(super) struct NodeLabels(HashMap<Text, Key>);

/// Number of a domain: of one value of a label. Freed numbers are used again.
type Domain = u32;

/// No domain.
const NONE: Domain = Domain::MAX;

/// The nodes that have a label, by its values.
#[derive(Debug, Default)]
pub(super) struct Key {
    /// Those with any value.
    pub(super) all: NodeSet,
    numbers: HashMap<Text, Domain>,
    /// The nodes of each domain.
    domains: Vec<NodeSet>,
    freed: Vec<Domain>,
    /// The domain of each node, by node.
    of: Vec<Domain>,
}

impl Key {
    /// The nodes with this value.
    pub(super) fn value(&self, value: &str) -> Option<&NodeSet> {
        self.domains.get(*self.numbers.get(value)? as usize)
    }

    /// All values, each with its nodes. None is without.
    pub(super) fn values(&self) -> impl Iterator<Item = (&Text, &NodeSet)> {
        self.numbers.iter().filter_map(|(value, number)| Some((value, self.domains.get(*number as usize)?)))
    }

    /// More than the number of any domain.
    pub(super) fn domains(&self) -> usize {
        self.domains.len()
    }

    /// The number of the domain that a node is in.
    pub(super) fn domain_of(&self, node: NodeId) -> Option<usize> {
        self.of.get(node as usize).filter(|domain| **domain != NONE).map(|domain| *domain as usize)
    }

    /// The nodes of the domain that a node is in.
    pub(super) fn around(&self, node: NodeId) -> Option<&NodeSet> {
        self.domains.get(self.domain_of(node)?)
    }

    fn insert(&mut self, node: NodeId, value: &str) {
        self.all.insert(node);
        let number = match self.numbers.get(value) {
            Some(number) => *number,
            None => self.number(value),
        };
        if let Some(nodes) = self.domains.get_mut(number as usize) {
            nodes.insert(node);
        }
        let at = node as usize;
        if self.of.len() <= at {
            self.of.resize(at + 1, NONE);
        }
        if let Some(domain) = self.of.get_mut(at) {
            *domain = number;
        }
    }

    fn number(&mut self, value: &str) -> Domain {
        let number = self.freed.pop().unwrap_or_else(|| {
            self.domains.push(NodeSet::default());
            u32::try_from(self.domains.len() - 1).unwrap_or(NONE)
        });
        self.numbers.insert(value.into(), number);
        number
    }

    fn remove(&mut self, node: NodeId, value: &str) {
        self.all.remove(node);
        if let Some(domain) = self.of.get_mut(node as usize) {
            *domain = NONE;
        }
        let Some(number) = self.numbers.get(value).copied() else { return };
        let Some(nodes) = self.domains.get_mut(number as usize) else { return };
        nodes.remove(node);
        if nodes.is_empty() {
            self.numbers.remove(value);
            self.freed.push(number);
        }
    }
}

impl NodeLabels {
    pub(super) fn insert(&mut self, node: NodeId, labels: &Labels) {
        for (name, value) in labels.iter() {
            match self.0.get_mut(name) {
                Some(key) => key.insert(node, value),
                None => self.0.entry(name.into()).or_default().insert(node, value),
            }
        }
    }

    pub(super) fn remove(&mut self, node: NodeId, labels: &Labels) {
        for (name, value) in labels.iter() {
            let Some(key) = self.0.get_mut(name) else { continue };
            key.remove(node, value);
            if key.all.is_empty() {
                self.0.remove(name);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The nodes that have the label `key`.
    pub(super) fn key(&self, key: &str) -> Option<&Key> {
        self.0.get(key)
    }

    /// The nodes with this value of the label.
    pub(super) fn value(&self, key: &str, value: &str) -> Option<&NodeSet> {
        self.0.get(key)?.value(value)
    }
}
