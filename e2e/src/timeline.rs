// SPDX-License-Identifier: Apache-2.0
//! When each pod of a namespace was first seen in each stage, by the clock of this process.
//!
//! Two clusters are compared by the moments at which their watches arrive here, so that no clock of theirs matters.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::WatchParams;
use kube::core::Object;
use kube::core::WatchEvent;
use kube::{Api, ResourceExt as _};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::cluster::Cluster;

/// The fields of a pod that are looked at: a whole typed pod costs ten times the CPU, which the measured need.
type Glimpse = Object<GlimpseOfSpec, GlimpseOfStatus>;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct GlimpseOfSpec {
    node_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct GlimpseOfStatus {
    phase: Option<String>,
}

/// What happened to a pod, as far as it happened.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// First seen.
    pub created: Option<Instant>,
    /// First seen with a node.
    pub bound: Option<Instant>,
    /// First seen Running.
    pub running: Option<Instant>,
    /// First seen Succeeded or Failed.
    pub finished: Option<Instant>,
    /// Its object is gone.
    pub gone: Option<Instant>,
    /// Its node.
    pub node: Option<String>,
}

/// A stage of a pod's life.
pub type Stage = fn(&Life) -> Option<Instant>;

/// The lives of the pods of one namespace in one cluster, seen from when the timeline was begun.
pub struct Timeline {
    cluster: String,
    seen: Arc<Seen>,
    changes: watch::Receiver<()>,
    // Aborts on drop.
    _watching: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    lives: Mutex<HashMap<String, Life>>,
    failure: Mutex<Option<String>>,
}

impl Timeline {
    /// Begins to watch the pods of `namespace`, which may not exist yet.
    pub async fn begin(cluster: &Cluster, namespace: &str) -> anyhow::Result<Self> {
        let resource = kube::core::ApiResource::erase::<Pod>(&());
        let pods: Api<Glimpse> = Api::namespaced_with(cluster.client(), namespace, &resource);
        let listed = pods.list(&kube::api::ListParams::default()).await?;
        let version = listed.metadata.resource_version.clone().context("a list without a resource version")?;
        let now = Instant::now();
        let seen = Arc::new(Seen::default());
        for pod in &listed.items {
            seen.note(pod, false, now);
        }
        let (change, changes) = watch::channel(());
        let mut watching = JoinSet::new();
        watching.spawn({
            let seen = seen.clone();
            async move {
                let failure = follow(&pods, &version, &seen, &change).await.err();
                *seen.failure() = failure.map(|error| format!("{error:#}"));
                // Who waits learns of it when `change` is dropped.
            }
        });
        Ok(Self { cluster: cluster.name().to_owned(), seen, changes, _watching: watching })
    }

    /// Waits until `count` pods have reached the stage `what`, at most `deadline`; says when the last of them did.
    pub async fn reached(&self, stage: Stage, count: usize, what: &str, deadline: Duration) -> anyhow::Result<Instant> {
        let mut changes = self.changes.clone();
        let look = async {
            loop {
                changes.borrow_and_update();
                if let Some(when) = self.when(stage, count) {
                    return anyhow::Ok(when);
                }
                if changes.changed().await.is_err() {
                    bail!("{}", self.seen.failure().clone().unwrap_or_default());
                }
            }
        };
        let told = || format!("{} of {count} pods of {} were seen {what}", self.count(stage), self.cluster);
        match timeout(deadline, look).await {
            Ok(result) => result.with_context(told),
            Err(_) => bail!("after {deadline:?} {}", told()),
        }
    }

    /// When the `count`th pod reached the stage.
    fn when(&self, stage: Stage, count: usize) -> Option<Instant> {
        let lives = self.seen.lives();
        if lives.len() < count {
            return None;
        }
        let mut moments: Vec<Instant> = lives.values().filter_map(stage).collect();
        moments.sort_unstable();
        moments.get(count.checked_sub(1)?).copied()
    }

    /// How many pods have reached the stage.
    pub fn count(&self, stage: Stage) -> usize {
        self.seen.lives().values().filter_map(stage).count()
    }

    /// All lives by pod name.
    pub fn lives(&self) -> HashMap<String, Life> {
        self.seen.lives().clone()
    }

    /// Waits for any change, at most `deadline`.
    pub async fn changed(&self, deadline: Duration) -> anyhow::Result<()> {
        let mut changes = self.changes.clone();
        let waited = timeout(deadline, changes.changed()).await;
        ensure!(!matches!(waited, Ok(Err(_))), "{}", self.seen.failure().clone().unwrap_or_default());
        Ok(())
    }
}

impl Seen {
    fn lives(&self) -> MutexGuard<'_, HashMap<String, Life>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, pod: &Glimpse, gone: bool, now: Instant) {
        let mut lives = self.lives();
        let life = lives.entry(pod.name_any()).or_default();
        life.created.get_or_insert(now);
        if let Some(node) = &pod.spec.node_name {
            life.bound.get_or_insert(now);
            life.node.get_or_insert_with(|| node.clone());
        }
        match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Running") => drop(life.running.get_or_insert(now)),
            Some("Succeeded" | "Failed") => drop(life.finished.get_or_insert(now)),
            _ => {}
        }
        if gone {
            life.gone.get_or_insert(now);
        }
    }
}

/// Follows the watch for ever. An API server ends a watch whose reader, or itself, is too slow for a burst: it is resumed
/// from the last version seen, which repeats nothing and misses nothing.
async fn follow(pods: &Api<Glimpse>, version: &str, seen: &Seen, change: &watch::Sender<()>) -> anyhow::Result<()> {
    let params = WatchParams::default();
    let mut version = version.to_owned();
    loop {
        let mut events = pods.watch(&params, &version).await?.boxed();
        while let Some(event) = events.next().await {
            let now = Instant::now();
            let (pod, gone) = match event? {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => (pod, false),
                WatchEvent::Deleted(pod) => (pod, true),
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => bail!("{status:?}"),
            };
            seen.note(&pod, gone, now);
            version = pod.resource_version().context("an event without a resource version")?;
            change.send_replace(());
        }
    }
}
