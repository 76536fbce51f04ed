//! Namespaces and their quotas.

use std::collections::BTreeMap;

use foldhash::HashMap;

use super::labels::Labels;
use super::objects::{Namespace, Quota};
use super::text::Text;

/// The namespaces of a cluster.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    labels: HashMap<Text, Labels>,
    quotas: HashMap<Text, BTreeMap<Text, Quota>>,
}

impl Namespaces {
    /// The labels of a namespace, if it exists.
    pub(super) fn labels(&self, name: &str) -> Option<&Labels> {
        self.labels.get(name)
    }

    /// The quotas of a namespace.
    pub(super) fn quotas(&self, namespace: &str) -> impl Iterator<Item = &Quota> {
        self.quotas.get(namespace).into_iter().flat_map(BTreeMap::values)
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

    /// Returns whether anything is different.
    pub(super) fn apply_quota(&mut self, quota: Quota) -> bool {
        let quotas = self.quotas.entry(quota.namespace.clone()).or_default();
        quotas.get(&quota.name) != Some(&quota) && {
            quotas.insert(quota.name.clone(), quota);
            true
        }
    }

    pub(super) fn remove_quota(&mut self, namespace: &str, name: &str) -> bool {
        let Some(quotas) = self.quotas.get_mut(namespace) else { return false };
        let gone = quotas.remove(name).is_some();
        if quotas.is_empty() {
            self.quotas.remove(namespace);
        }
        gone
    }

    /// Namespaces and names of all quotas.
    pub(super) fn quota_names(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.quotas.iter().flat_map(|(namespace, quotas)| quotas.keys().map(move |name| (namespace, name)))
    }
}
