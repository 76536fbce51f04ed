// SPDX-License-Identifier: Apache-2.0
//! Which pods there are, for those who only look.

use super::{Pairs, PodId, Upper};

impl Pairs {
    /// How many pods there are, upstairs or at the provider.
    pub(crate) fn len(&self) -> usize {
        self.lock().records.len()
    }

    /// The pod that has this name upstairs.
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<PodId> {
        self.select(|id| *id.name == *name && *id.namespace == *namespace).pop()
    }

    /// The pods there are upstairs.
    pub(crate) fn ids(&self) -> Vec<PodId> {
        self.select(|_| true)
    }

    fn select(&self, wanted: impl Fn(&PodId) -> bool) -> Vec<PodId> {
        let table = self.lock();
        let present = table.records.values().filter(|record| matches!(record.upper, Upper::Present(_)));
        present.map(|record| &record.id).filter(|id| wanted(id)).cloned().collect()
    }
}
