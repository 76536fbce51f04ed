// SPDX-License-Identifier: Apache-2.0
//! The watches of one kind in one namespace: all objects upstairs, and our copies below. Metadata only.

use std::{collections::HashSet, fmt::Debug, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::{NamespaceResourceScope, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tensile_core::{names, pod::LinkView, sync::Kind};
use tokio_util::sync::CancellationToken;

use super::{Objects, Scope, Trouble, requests::Meta};
use crate::lower::answer;

/// Selects the copies that `link` made.
pub(crate) fn copies(link: &LinkView) -> String {
    format!("{},!{}", marked(link), names::TOKENS)
}

/// Selects what `link` made.
pub(crate) fn marked(link: &LinkView) -> String {
    format!(
        "{}={},{}={}",
        names::UPPER_CLUSTER,
        names::label_value(&link.upper_cluster),
        names::VIRTUAL_NODE,
        names::label_value(&link.virtual_node)
    )
}

/// What a selector needs besides, for what is of the upper namespace `namespace`, where others share the one below.
pub(crate) fn of_namespace(link: &LinkView, namespace: &str) -> String {
    if link.namespaces.is_shared() { format!(",{}={namespace}", names::UPPER_NAMESPACE) } else { String::new() }
}

impl Objects {
    /// Watches the scope until `stop` is cancelled.
    pub(super) fn follow(self: &Arc<Self>, scope: Scope, stop: CancellationToken) {
        let objects = self.clone();
        self.watches.spawn(stop.run_until_cancelled_owned(async move {
            match scope.kind {
                Kind::ConfigMap => tokio::join!(objects.above::<ConfigMap>(&scope), objects.below::<ConfigMap>(&scope)),
                Kind::Secret => tokio::join!(objects.above::<Secret>(&scope), objects.below::<Secret>(&scope)),
            }
        }));
    }

    /// Follows the objects upstairs. Those that nobody refers to are passed over. Does not end.
    async fn above<K: Watchable>(&self, scope: &Scope) {
        let mut listed: HashSet<Arc<str>> = HashSet::new();
        let mut events =
            std::pin::pin!(metadata::<K>(&self.upper, &scope.namespace, watcher::Config::default()).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    let name: Arc<str> = object.name_any().into();
                    if self.heard_above(scope, object, true) {
                        listed.insert(name);
                    }
                }
                Ok(Event::InitDone) => self.listed_above(scope, &std::mem::take(&mut listed)),
                Ok(Event::Apply(object)) => drop(self.heard_above(scope, object, true)),
                Ok(Event::Delete(object)) => drop(self.heard_above(scope, object, false)),
                Err(error) => interrupted("upper", scope, &error),
            }
        }
    }

    /// Returns whether somebody refers to the object.
    fn heard_above<K>(&self, scope: &Scope, object: PartialObjectMeta<K>, there: bool) -> bool {
        let meta = Meta::from(object.metadata);
        let key = scope.key(&meta.name);
        let news = self.table.change(&key, |known| known.upper_heard(there.then_some(meta.version)));
        if news == Some(true) {
            self.queue.add(key);
        }
        news.is_some()
    }

    /// What a list did not name may be gone: it is asked for.
    fn listed_above(&self, scope: &Scope, listed: &HashSet<Arc<str>>) {
        for key in self.table.choose(scope, |name, _| !listed.contains(name)) {
            if self.table.change(&key, |known| known.upper_heard(None)) == Some(true) {
                self.queue.add(key);
            }
        }
    }

    /// Follows our copies below. Does not end.
    async fn below<K: Watchable>(&self, scope: &Scope) {
        let mut listed: HashSet<String> = HashSet::new();
        let selector = format!("{}{}", copies(&self.link), of_namespace(&self.link, &scope.namespace));
        let config = watcher::Config::default().labels(&selector);
        let namespace = self.link.lower_namespace(&scope.namespace);
        let mut events = std::pin::pin!(metadata::<K>(&self.lower, &namespace, config).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(object.name_any());
                    self.heard_below(scope, object, true);
                }
                Ok(Event::InitDone) => self.listed_below(scope, &std::mem::take(&mut listed)),
                Ok(Event::Apply(object)) => self.heard_below(scope, object, true),
                Ok(Event::Delete(object)) => self.heard_below(scope, object, false),
                Err(error) => {
                    interrupted("lower", scope, &error);
                    self.table.listed_below(scope, Err(trouble(error)));
                    self.settled.notify_waiters();
                }
            }
        }
    }

    fn heard_below<K>(&self, scope: &Scope, object: PartialObjectMeta<K>, there: bool) {
        let meta = Meta::from(object.metadata);
        let Some((of, copy)) = meta.copy(&scope.namespace, &self.link) else {
            return tracing::error!(namespace = %scope.namespace, kind = %scope.kind, name = meta.name,
                "an object below with our labels does not say what it is a copy of");
        };
        let key = scope.key(&of);
        let news = if there {
            self.table.copy_seen(&key, copy)
        } else {
            let version = copy.version;
            self.table.change(&key, |known| known.copy_gone(&version.uid, &version.revision)) == Some(true)
        };
        if news {
            self.queue.add(key);
        }
    }

    /// Copies that a list did not name are gone: they are made again, which shows if they were there after all.
    fn listed_below(&self, scope: &Scope, listed: &HashSet<String>) {
        let gone =
            self.table.choose(scope, |_, object| object.copy.as_ref().is_some_and(|copy| !listed.contains(&copy.name)));
        for key in gone {
            self.table.change(&key, |object| object.copy = None);
        }
        self.table.listed_below(scope, Ok(()));
        for key in self.table.choose(scope, |_, _| true) {
            self.queue.add(key);
        }
    }
}

/// Kinds with a namespace.
pub(crate) trait Watchable:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static
{
}

impl Watchable for ConfigMap {}
impl Watchable for Secret {}

/// The metadata of what `config` selects in `namespace`, as it is and as it changes.
pub(crate) fn metadata<K: Watchable>(
    client: &Client,
    namespace: &str,
    config: watcher::Config,
) -> impl futures::Stream<Item = watcher::Result<Event<PartialObjectMeta<K>>>> + Send + use<K> {
    let api: Api<PartialObjectMeta<K>> = Api::namespaced(client.clone(), namespace);
    watcher(api, config)
}

/// Says that a watch was cut; it begins anew by itself.
pub(crate) fn interrupted(which: &str, scope: &Scope, error: &watcher::Error) {
    let Scope { kind, namespace } = scope;
    tracing::warn!(cluster = which, %namespace, kind = kind.plural(), %error, "watch interrupted");
}

/// What cut a watch of the lower cluster, for the pods that wait for what it would show.
pub(crate) fn trouble(error: watcher::Error) -> Trouble {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => answer::pod_error(&error).into(),
        other => Trouble::Unavailable(format!("lower API server: {other}")),
    }
}
