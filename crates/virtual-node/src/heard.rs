// SPDX-License-Identifier: Apache-2.0
//! Watches whose events mean "look again": metadata only, of which nothing is kept.

use std::{
    collections::HashSet,
    fmt::Debug,
    hash::Hash,
    sync::{Mutex, PoisonError},
};

use futures::StreamExt;
use kube::{
    Api, Client, Resource,
    core::{NamespaceResourceScope, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        watcher::{Config, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tensile_core::pod::LinkView;
use virtual_kubelet::queue::Queue;

/// The objects of a kind below, wherever `link` may have some.
pub(crate) fn within<K>(client: &Client, link: &LinkView) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match link.namespaces.only() {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Where what is heard goes.
#[derive(Clone, Copy)]
pub(crate) struct Heard<'a, T> {
    /// What is to be looked at.
    pub(crate) queue: &'a Queue<T>,
    /// What has a copy below: if a list does not name it, it may be gone.
    pub(crate) copies: &'a Mutex<HashSet<T>>,
}

impl<T: Clone + Eq + Hash + Ord> Heard<'_, T> {
    /// Queues what `key` makes of each object, and whether it is there. Does not end.
    pub(crate) async fn follow<K>(
        &self,
        cluster: &str,
        objects: Api<PartialObjectMeta<K>>,
        config: Config,
        key: impl Fn(&PartialObjectMeta<K>, bool) -> Option<T>,
    ) where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let mut listed = HashSet::new();
        let mut events = std::pin::pin!(watcher(objects, config).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    if let Some(key) = key(&object, true) {
                        listed.insert(key.clone());
                        self.queue.add(key);
                    }
                }
                Ok(Event::InitDone) => {
                    let listed = std::mem::take(&mut listed);
                    let copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
                    let missed: Vec<T> = copies.difference(&listed).cloned().collect();
                    drop(copies);
                    for key in missed {
                        self.queue.add(key);
                    }
                }
                Ok(Event::Apply(object)) => key(&object, true).into_iter().for_each(|key| self.queue.add(key)),
                Ok(Event::Delete(object)) => key(&object, false).into_iter().for_each(|key| self.queue.add(key)),
                Err(error) => tracing::warn!(cluster, kind = %K::kind(&()), %error, "watch interrupted"),
            }
        }
    }
}
