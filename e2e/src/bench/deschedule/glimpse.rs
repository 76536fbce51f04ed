// SPDX-License-Identifier: Apache-2.0
//! When pods were stuck, left, and ran, by the clock of this process.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, Object};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::cluster::Cluster;

/// The fields of a pod that are looked at: a whole typed pod costs CPU, which the measured need.
type Glimpse = Object<Spec, Status>;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Status {
    phase: Option<String>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// What is seen of the pods of a namespace. It ends on drop.
pub(super) struct Glimpses {
    seen: watch::Receiver<Seen>,
    _watching: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Seen {
    /// By UID.
    stuck: HashMap<String, Instant>,
    /// By UID of those that were stuck.
    left: HashMap<String, Instant>,
    /// By UID of the owner: when its first pod was stuck.
    owners: HashMap<String, Instant>,
    /// By UID of the owner, and where.
    running: HashMap<String, (Instant, String)>,
}

/// How long it took.
pub(super) struct Times {
    /// From stuck until deleted, of each pod that was.
    pub(super) added: Vec<Duration>,
    /// From stuck until its successor ran.
    pub(super) whole: Vec<Duration>,
}

impl Glimpses {
    /// Begins to look.
    pub(super) fn begin(cluster: &Cluster, namespace: &str) -> Self {
        let resource = ApiResource::erase::<Pod>(&());
        let pods: Api<Glimpse> = Api::namespaced_with(cluster.client(), namespace, &resource);
        let (change, seen) = watch::channel(Seen::default());
        let mut watching = JoinSet::new();
        watching.spawn(async move {
            let config = watcher::Config::default();
            let mut pods = watcher(pods, config).default_backoff().touched_objects().boxed();
            // Errors are what the watcher survives.
            while let Some(pod) = pods.next().await {
                if let Ok(pod) = pod {
                    change.send_modify(|seen| seen.note(&pod, Instant::now()));
                }
            }
        });
        Self { seen, _watching: watching }
    }

    /// Waits until so many owners have had a pod stuck and have one running on `node`.
    pub(super) async fn until_running(
        mut self,
        owners: usize,
        node: &str,
        deadline: Duration,
    ) -> anyhow::Result<Times> {
        let done = |seen: &Seen| seen.running.values().filter(|(_, on)| on == node).count() >= owners;
        let seen = timeout(deadline, self.seen.wait_for(done)).await.context("not all of them ran in time")??;
        let since = |from: &HashMap<String, Instant>, uid: &String, to: Instant| Some(to - *from.get(uid)?);
        Ok(Times {
            added: seen.left.iter().filter_map(|(uid, at)| since(&seen.stuck, uid, *at)).collect(),
            whole: seen.running.iter().filter_map(|(uid, (at, _))| since(&seen.owners, uid, *at)).collect(),
        })
    }
}

impl Seen {
    fn note(&mut self, pod: &Glimpse, now: Instant) {
        let uid = pod.uid().unwrap_or_default();
        let owner = pod.owner_references().first().map(|owner| owner.uid.clone()).unwrap_or_default();
        let status = pod.status.clone().unwrap_or_default();
        let is_stuck = |one: &Condition| one.kind == "virtual-kubelet.io/Scheduled" && one.status == "False";
        if status.conditions.iter().any(is_stuck) {
            self.stuck.entry(uid.clone()).or_insert(now);
            self.owners.entry(owner.clone()).or_insert(now);
        }
        if pod.metadata.deletion_timestamp.is_some() && self.stuck.contains_key(&uid) {
            self.left.entry(uid).or_insert(now);
        } else if status.phase.as_deref() == Some("Running") {
            let node = pod.spec.node_name.clone().unwrap_or_default();
            self.running.entry(owner).or_insert((now, node));
        }
    }
}
