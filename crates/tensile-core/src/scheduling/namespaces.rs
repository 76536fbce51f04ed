// SPDX-License-Identifier: Apache-2.0
//! Namespaces, and what they keep their pods to: quotas and default amounts.

use std::collections::BTreeMap;

use foldhash::HashMap;

use super::labels::Labels;
use super::objects::{LimitRange, Namespace, Quota};
use super::text::Text;

/// The namespaces of a cluster.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    labels: HashMap<Text, Labels>,
    pub(super) quotas: Within<Quota>,
    pub(super) ranges: Within<LimitRange>,
}

impl Namespaces {
    /// The labels of a namespace, if it exists.
    pub(super) fn labels(&self, name: &str) -> Option<&Labels> {
        self.labels.get(name)
    }

    /// Returns whether anything is different.
    pub(super) fn apply(&mut self, namespace: Namespace) -> bool {
        let Namespace { name, labels } = namespace;
        self.labels.get(&name) != Some(&labels) && {
            self.labels.insert(name, labels);
            true
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.labels.remove(name).is_some()
    }

    /// Names of all namespaces.
    pub(super) fn names(&self) -> impl Iterator<Item = &Text> {
        self.labels.keys()
    }
}

/// Objects of a kind, by namespace and name.
#[derive(Debug)]
pub(super) struct Within<T>(HashMap<Text, BTreeMap<Text, T>>);

impl<T> Default for Within<T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<T: PartialEq> Within<T> {
    /// Those of a namespace.
    pub(super) fn of(&self, namespace: &str) -> impl Iterator<Item = &T> {
        self.0.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns whether anything is different.
    pub(super) fn apply(&mut self, namespace: Text, name: Text, object: T) -> bool {
        let known = self.0.entry(namespace).or_default();
        known.get(&name) != Some(&object) && {
            known.insert(name, object);
            true
        }
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> bool {
        let Some(known) = self.0.get_mut(namespace) else { return false };
        let gone = known.remove(name).is_some();
        if known.is_empty() {
            self.0.remove(namespace);
        }
        gone
    }

    /// Namespaces and names of all.
    pub(super) fn names(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.0.iter().flat_map(|(namespace, known)| known.keys().map(move |name| (namespace, name)))
    }
}
