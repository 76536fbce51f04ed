// SPDX-License-Identifier: Apache-2.0
//! Objects of one kind, as lists and watches tell of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::runtime::watcher::Event;
use serde_json::Value;
use tensile_runtime::watch::Listing;

/// Objects of one kind by UID or name, complete once a list was.
#[derive(Debug)]
pub(super) struct Listed<T> {
    pub(super) now: BTreeMap<Arc<str>, T>,
    pub(super) listing: Listing<Arc<str>, T>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { now: BTreeMap::new(), listing: Listing::default() }
    }
}

impl<T> Listed<T> {
    pub(super) fn apply(&mut self, event: Event<Value>, mut read: impl FnMut(&Value) -> Option<(Arc<str>, T)>) {
        self.listing.note(&mut self.now, event, |object| read(&object).map(|(key, value)| (key, Some(value))));
    }
}
