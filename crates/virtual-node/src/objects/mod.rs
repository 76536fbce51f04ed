// SPDX-License-Identifier: Apache-2.0
//! ConfigMaps and Secrets that pods bring along: copied below before a pod is made there, kept up to date, removed when
//! no pod refers to them any more.
//!
//! What is known of an object is a digest (who it is, which version of it is below); its content is fetched when it has
//! to be written and not kept. Watches see metadata only, and only of namespaces that have our pods: nothing of a
//! Secret that no pod refers to ever comes here. One worker at a time settles an object (`settle`), whichever of its
//! pods, the upper or the lower cluster asked for it; a pod that is to be made waits until all of its objects are settled
//! (`Objects::ensure`), and hears why when one cannot be.

mod object;
mod orphans;
mod requests;
mod settle;
mod standing;
mod table;
mod watch;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use kube::Client;
use tensile_core::{
    pod::{LinkView, Names, References},
    sync::Kind,
};
use tokio::sync::{Notify, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use virtual_kubelet::{
    pod::{PodError, PodFeed, PodId, Refused},
    queue::Queue,
};

use crate::lower::namespaces::Namespaces;
pub(crate) use object::number;
pub(crate) use requests::{Meta, Requests};
use table::Table;
pub(crate) use watch::{copies, interrupted, marked, metadata, of_namespace, trouble};

/// Objects that are settled at the same time. Each may hold a megabyte twice.
const WORKERS: usize = 8;
/// How long a pod waits for its objects to be settled before it is told that this takes long.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often what is left over is looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// What happens when the lower cluster has an object of the same name that is not ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// The copy gets another name, and the pod refers to that.
    #[default]
    Rename,
    /// The pod waits and says why.
    Refuse,
}

/// One object upstairs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    kind: Kind,
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Key {
    fn scope(&self) -> Scope {
        Scope { kind: self.kind, namespace: self.namespace.clone() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The objects of one kind in one namespace: what one pair of watches follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) kind: Kind,
    pub(crate) namespace: Arc<str>,
}

impl Scope {
    fn key(&self, name: &str) -> Key {
        Key { kind: self.kind, namespace: self.namespace.clone(), name: name.into() }
    }
}

/// Why an object cannot be settled now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    /// Somebody says no.
    #[error("{0}")]
    Refused(Refused),
    /// An API server is away.
    #[error("{0}")]
    Unavailable(String),
}

impl From<PodError> for Trouble {
    fn from(error: PodError) -> Self {
        match error {
            PodError::Refused(refused) => Self::Refused(refused),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

impl From<Trouble> for PodError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Refused(refused) => Self::Refused(refused),
            Trouble::Unavailable(message) => Self::Unavailable(message),
        }
    }
}

/// The objects of one link.
pub struct Objects {
    upper: Client,
    lower: Client,
    link: LinkView,
    namespaces: Arc<Namespaces>,
    on_conflict: OnConflict,
    table: Table,
    queue: Queue<Key>,
    /// Something was settled, or is in trouble.
    settled: Notify,
    /// Where pods that wait are woken.
    feed: OnceLock<PodFeed>,
    watches: TaskTracker,
}

impl Objects {
    /// The objects of `link`. Nothing happens before `Objects::run`.
    pub fn new(
        upper: Client,
        lower: Client,
        link: LinkView,
        namespaces: Arc<Namespaces>,
        on_conflict: OnConflict,
    ) -> Arc<Self> {
        Arc::new(Self {
            upper,
            lower,
            link,
            namespaces,
            on_conflict,
            table: Table::default(),
            queue: Queue::new(),
            settled: Notify::new(),
            feed: OnceLock::new(),
            watches: TaskTracker::new(),
        })
    }

    /// Sees to it that everything the pod refers to is below, and returns what it is called there.
    ///
    /// # Errors
    /// What is missing or refused, in the kubelet's or the API server's words. The pod is woken when that changes.
    pub(crate) async fn ensure(self: &Arc<Self>, id: &PodId, references: &References) -> Result<Names, PodError> {
        if references.is_empty() {
            return Ok(Names::default());
        }
        for (scope, stop) in self.table.refer(id, references) {
            self.follow(scope, stop);
        }
        for (kind, name, _) in references.iter() {
            self.queue.add(Key { kind, namespace: id.namespace.clone(), name: name.into() });
        }
        let decided = async {
            loop {
                let settled = self.settled.notified();
                if let Some(outcome) = self.table.outcome(id, references, &self.link) {
                    return outcome;
                }
                settled.await;
            }
        };
        tokio::time::timeout(PATIENCE, decided).await.unwrap_or_else(|_| {
            let message = "copying its ConfigMaps and Secrets to the lower cluster takes long".to_owned();
            Err(PodError::Unavailable(message))
        })
    }

    /// A lower pod of ours is there, which refers to `names`.
    pub(crate) fn pod_seen(self: &Arc<Self>, id: &PodId, names: impl FnOnce() -> Names) {
        if self.table.is_below(&id.uid) {
            return;
        }
        let names = names();
        for (scope, stop) in self.table.runs(id, &names) {
            self.follow(scope, stop);
        }
        for (kind, name, _) in names.iter() {
            self.queue.add(Key { kind, namespace: id.namespace.clone(), name: name.into() });
        }
    }

    /// Names below and upstairs of what the pod refers to, where they differ.
    pub(crate) fn renamed(&self, uid: &str) -> Vec<(String, String)> {
        self.table.renamed(uid)
    }

    /// The lower pod is gone.
    pub(crate) fn pod_gone(&self, uid: &str) {
        for key in self.table.release(uid) {
            self.queue.add(key);
        }
    }

    /// All lower pods of ours have been seen: what none of them refers to is needed by none.
    pub(crate) fn pods_listed(&self) {
        for key in self.table.pods_listed() {
            self.queue.add(key);
        }
    }

    /// Settles objects until `token` is cancelled, and wakes through `feed` the pods that wait for them.
    pub(crate) async fn run(self: &Arc<Self>, feed: PodFeed, token: CancellationToken) {
        if self.feed.set(feed).is_err() {
            return tracing::error!("objects are settled already");
        }
        tokio::join!(
            token.run_until_cancelled(self.work()),
            token.run_until_cancelled(self.collect_orphans()),
            token.run_until_cancelled(self.sweep()),
        );
        self.table.close();
        self.watches.close();
        self.watches.wait().await;
    }

    async fn work(self: &Arc<Self>) {
        let slots = Arc::new(Semaphore::new(WORKERS));
        loop {
            let key = self.queue.next().await;
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let objects = self.clone();
            self.watches.spawn(async move {
                let _slot = slot;
                let work = Work { queue: &objects.queue, key };
                objects.settle(&work.key).await;
            });
        }
    }

    /// Lets go of pods that went before they were made below, and of namespaces without objects.
    async fn sweep(&self) {
        let mut tick = tokio::time::interval(SWEEP);
        loop {
            tick.tick().await;
            let Some(feed) = self.feed.get() else { continue };
            for key in self.table.sweep(|id| feed.wanted(id)) {
                self.queue.add(key);
            }
        }
    }

    /// Wakes everyone who waits for `key`.
    fn tell(&self, key: &Key) {
        self.settled.notify_waiters();
        let Some(feed) = self.feed.get() else { return };
        for id in self.table.waiting_for(key) {
            feed.retry(&id);
        }
    }
}

/// A key being worked on; given back however the work ends.
struct Work<'a> {
    queue: &'a Queue<Key>,
    key: Key,
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.queue.done(&self.key);
    }
}
