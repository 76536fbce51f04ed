//! Which nodes have which labels.

use foldhash::HashMap;

use super::labels::Labels;
use super::node_set::{NodeId, NodeSet};
use super::text::Text;

/// An index of nodes by their labels.
#[derive(Debug, Default)]
pub(super) struct NodeLabels(HashMap<Text, Key>);

/// The nodes that have a label, by its values.
#[derive(Debug, Default)]
pub(super) struct Key {
    /// Those with any value.
    pub(super) all: NodeSet,
    /// Those of each value. None is empty.
    pub(super) values: HashMap<Text, NodeSet>,
}

impl NodeLabels {
    pub(super) fn insert(&mut self, node: NodeId, labels: &Labels) {
        for (name, value) in labels.iter() {
            let key = self.0.entry(name.clone()).or_default();
            key.all.insert(node);
            key.values.entry(value.clone()).or_default().insert(node);
        }
    }

    pub(super) fn remove(&mut self, node: NodeId, labels: &Labels) {
        for (name, value) in labels.iter() {
            let Some(key) = self.0.get_mut(name) else { continue };
            key.all.remove(node);
            if key.all.is_empty() {
                self.0.remove(name);
                continue;
            }
            if let Some(nodes) = key.values.get_mut(value) {
                nodes.remove(node);
                if nodes.is_empty() {
                    key.values.remove(value);
                }
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
        self.0.get(key)?.values.get(value)
    }
}
