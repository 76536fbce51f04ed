// SPDX-License-Identifier: Apache-2.0
//! The Secrets with tokens of one namespace below. Metadata only.

use std::{collections::HashSet, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use tensile_core::{names, sync::Kind};
use tokio_util::sync::CancellationToken;

use super::Identity;
use crate::objects::{Meta, Scope, interrupted, marked, metadata, of_namespace, trouble};

impl Identity {
    /// Watches the namespace until `stop` is cancelled.
    pub(super) fn follow(self: &Arc<Self>, namespace: Arc<str>, stop: CancellationToken) {
        let identity = self.clone();
        self.tasks.spawn(stop.run_until_cancelled_owned(async move { identity.secrets(namespace).await }));
    }

    /// Does not end.
    async fn secrets(&self, namespace: Arc<str>) {
        let scope = Scope { kind: Kind::Secret, namespace };
        let more = of_namespace(&self.link, &scope.namespace);
        let selector = format!("{},{}={}{more}", marked(&self.link), names::TOKENS, names::TRUE);
        let below = self.link.lower_namespace(&scope.namespace);
        let config = watcher::Config::default().labels(&selector);
        let mut events = std::pin::pin!(metadata::<Secret>(&self.lower, &below, config).default_backoff());
        let mut listed = HashSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    if let Some(uid) = self.heard(object, true) {
                        listed.insert(uid);
                    }
                }
                Ok(Event::InitDone) => self.listed(&scope.namespace, &std::mem::take(&mut listed)),
                Ok(Event::Apply(object)) => drop(self.heard(object, true)),
                Ok(Event::Delete(object)) => drop(self.heard(object, false)),
                Err(error) => {
                    interrupted("lower", &scope, &error);
                    self.table.troubled(&scope.namespace, trouble(error));
                    self.listed.notify_waiters();
                }
            }
        }
    }

    /// Returns the UID of the upper pod whose Secret it is.
    fn heard(&self, object: PartialObjectMeta<Secret>, there: bool) -> Option<Arc<str>> {
        let meta = Meta::from(object.metadata);
        let uid: Arc<str> = meta.upper_uid()?.into();
        if !self.is_for(&uid, &meta) {
            return None;
        }
        let news = if there { self.table.secret_seen(&uid, &meta) } else { self.table.secret_gone(&uid, Some(&meta)) };
        if news {
            self.queue.add(uid.clone());
        }
        Some(uid)
    }

    fn listed(&self, namespace: &str, listed: &HashSet<Arc<str>>) {
        let (pods, waiting) = self.table.listed(namespace, listed);
        self.listed.notify_waiters();
        for uid in pods {
            self.queue.add(uid);
        }
        if let Some(feed) = self.feed.get() {
            for id in &waiting {
                feed.retry(id);
            }
        }
    }
}
