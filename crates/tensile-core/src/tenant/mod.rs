// SPDX-License-Identifier: Apache-2.0
//! Where the objects of an upper cluster are in a lower one that several share.
//!
//! A link puts each namespace upstairs into one below by its [`Mapping`]. That a name below is free of others' claims is
//! not left to its text: a namespace that is a link's own says so by its labels, and one that says something else is never
//! entered ([`LinkView::may_enter`]). In a namespace that many share, names of objects get a hash of whose they are.

mod affinity;
mod mapping;
mod policy;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value, json};

pub(crate) use affinity::keep_apart;
pub use mapping::{Mapping, UnknownMapping};
pub use policy::{Action, Policy, PolicyError, Rule, plan};

use crate::{names, pod::LinkView, sync};

impl LinkView {
    /// The namespace below of the namespace `upper`.
    #[must_use]
    pub fn lower_namespace<'a>(&'a self, upper: &'a str) -> Cow<'a, str> {
        self.namespaces.namespace(upper)
    }

    /// What the pod `name` of the upper namespace `namespace` is called below.
    #[must_use]
    pub fn lower_pod<'a>(&self, namespace: &str, name: &'a str) -> Cow<'a, str> {
        if self.namespaces.is_shared() {
            Cow::Owned(sync::lower_name(namespace, name, self))
        } else {
            Cow::Borrowed(name)
        }
    }

    /// What the Service `name` of the upper namespace `namespace` is called below.
    #[must_use]
    pub fn lower_service<'a>(&self, namespace: &str, name: &'a str) -> Cow<'a, str> {
        if self.namespaces.is_shared() {
            Cow::Owned(names::hashed_label(name, &sync::whose(namespace, name, self)))
        } else {
            Cow::Borrowed(name)
        }
    }

    /// The labels of everything that the link makes below: whose it is.
    #[must_use]
    pub fn owner(&self) -> BTreeMap<String, String> {
        [
            (names::UPPER_CLUSTER.to_owned(), names::label_value(&self.upper_cluster)),
            (names::VIRTUAL_NODE.to_owned(), names::label_value(&self.virtual_node)),
        ]
        .into()
    }

    /// The labels of what it makes for the upper namespace `namespace`.
    #[must_use]
    pub fn marks(&self, namespace: &str) -> Value {
        let mut marks = json!(self.owner());
        marks[names::UPPER_NAMESPACE] = json!(namespace);
        marks
    }

    /// Adds these labels, in place of any that somebody else gave.
    pub(crate) fn mark(&self, labels: &mut Map<String, Value>, namespace: &str) {
        if let Value::Object(marks) = self.marks(namespace) {
            labels.extend(marks);
        }
    }

    /// The labels of the namespace below that the link makes for the upper namespace `namespace`.
    #[must_use]
    pub fn namespace_labels(&self, namespace: &str) -> BTreeMap<String, String> {
        let mut labels = self.owner();
        if !self.namespaces.is_shared() {
            labels.insert(names::UPPER_NAMESPACE.to_owned(), namespace.to_owned());
        }
        labels
    }

    /// Whether the namespace below with these `labels` is the link's.
    #[must_use]
    pub fn owns_namespace(&self, labels: &BTreeMap<String, String>) -> bool {
        self.owner().iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// Whether what is of the upper namespace `namespace` may go into the namespace below with these `labels`: where a
    /// namespace below is for one link and one namespace upstairs, its labels must say that it is for these.
    #[must_use]
    pub fn may_enter(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        !self.namespaces.is_own()
            || self.namespace_labels(namespace).iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}
