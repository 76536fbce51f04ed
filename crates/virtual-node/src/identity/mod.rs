// SPDX-License-Identifier: Apache-2.0
//! Tokens of upper service accounts, for the pods that project them: requested upstairs as a kubelet does, kept below in
//! one Secret per pod, renewed in time.
//!
//! They are requested before the lower pod is made, so that a pod whose tokens are refused waits and says why. The Secret
//! is made right after the pod, because it belongs to it: whatever becomes of this process, the lower cluster removes the
//! tokens with the pod. Nothing of a token stays here. When each runs out is noted on its Secret, and a watch per
//! namespace (metadata only) tells it to a process that was restarted, as well as that somebody removed a Secret.

mod metrics;
mod renew;
mod request;
mod table;
mod watch;

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use kube::Client;
use prometheus::Registry;
use tensile_core::{
    identity::{Issued, Tokens},
    pod::LinkView,
};
use tensile_runtime::clients::TokenBucket;
use tokio::{
    sync::{Mutex, Notify},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use virtual_kubelet::{
    pod::{PodError, PodFeed, PodId, Refused},
    queue::Queue,
};

use crate::objects::Trouble;
use metrics::Metrics;
use request::Asker;
use table::Table;

/// Tokens that are renewed each second, over all pods.
pub const RENEWALS_PER_SECOND: f32 = 20.0;
/// How long a pod waits for what there is of its namespace to be known before it is told that this takes long.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often namespaces without pods are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// What becomes of a pod whose tokens cannot be kept below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingToken {
    /// One that has a token only because every pod has one runs without. Others wait.
    #[default]
    Omit,
    /// It waits.
    Wait,
}

/// The tokens of one link.
pub struct Identity {
    upper: Client,
    lower: Client,
    link: LinkView,
    table: Table,
    /// Pods whose tokens are to be looked at, by UID.
    queue: Queue<Arc<str>>,
    /// In whose name tokens are requested.
    asker: Mutex<Option<Asker>>,
    /// Of renewals; pods that are to start do not wait for others.
    pace: Mutex<TokenBucket>,
    /// What there is in a namespace became known, or why it cannot.
    listed: Notify,
    /// Where pods that wait are woken.
    feed: OnceLock<PodFeed>,
    tasks: TaskTracker,
    metrics: Metrics,
}

/// Tokens that were issued for a pod that is about to be made.
pub(crate) struct Delivery {
    identity: Arc<Identity>,
    id: PodId,
    tokens: Arc<Tokens>,
    issued: Vec<Issued>,
}

impl Identity {
    /// The tokens of the pods of `link`, counted in `registry`. Nothing happens before `Identity::run`.
    ///
    /// # Errors
    /// When there are such metrics already.
    pub fn new(upper: Client, lower: Client, link: LinkView, registry: &Registry) -> prometheus::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            metrics: Metrics::register(registry, &link.virtual_node)?,
            upper,
            lower,
            link,
            table: Table::default(),
            queue: Queue::new(),
            asker: Mutex::default(),
            pace: Mutex::new(TokenBucket::new(RENEWALS_PER_SECOND, 1, Instant::now())),
            listed: Notify::new(),
            feed: OnceLock::new(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Requests `tokens` for a pod that is to be made.
    ///
    /// # Errors
    /// Why they cannot be had or cannot be kept below, in words for the pod's owner.
    pub(crate) async fn issue(self: &Arc<Self>, id: &PodId, tokens: Tokens) -> Result<Delivery, PodError> {
        self.table.delivers(id);
        // From here on its drop ends it.
        let mut delivery =
            Delivery { identity: self.clone(), id: id.clone(), tokens: Arc::new(tokens), issued: Vec::new() };
        self.open(&id.namespace);
        let known = async {
            loop {
                let listed = self.listed.notified();
                if let Some(outcome) = self.table.namespace(id) {
                    return outcome.map_err(PodError::from);
                }
                listed.await;
            }
        };
        tokio::time::timeout(PATIENCE, known).await.unwrap_or_else(|_| {
            Err(PodError::Unavailable("listing the tokens that the lower cluster has takes long".to_owned()))
        })?;
        for place in 0..delivery.tokens.tokens.len() {
            delivery.issued.push(self.request(id, &delivery.tokens, place).await?);
        }
        Ok(delivery)
    }

    /// A lower pod of ours is there, with `tokens`.
    pub(crate) fn pod_seen(self: &Arc<Self>, id: &PodId, lower_uid: &str, tokens: impl FnOnce() -> Option<Tokens>) {
        if self.link.identity.is_none() || self.table.knows(&id.uid, lower_uid) {
            return;
        }
        if let Some(tokens) = tokens() {
            self.enter(id, lower_uid, Arc::new(tokens));
        }
    }

    fn enter(self: &Arc<Self>, id: &PodId, lower_uid: &str, tokens: Arc<Tokens>) {
        self.table.enter(id, lower_uid, tokens);
        self.open(&id.namespace);
        self.queue.add(id.uid.clone());
    }

    /// All lower pods have been seen: what their Secrets hold can be told apart from what nobody has.
    pub(crate) fn pods_listed(self: &Arc<Self>) {
        for namespace in self.table.begin() {
            self.open(&namespace);
        }
    }

    /// The lower pod has ended, or is gone and its Secret with it.
    pub(crate) fn pod_gone(&self, uid: &str) {
        self.table.remove(uid);
    }

    fn open(self: &Arc<Self>, namespace: &Arc<str>) {
        if let Some(stop) = self.table.open(namespace) {
            self.follow(namespace.clone(), stop);
        }
    }

    /// Renews tokens until `token` is cancelled, and wakes through `feed` the pods that wait.
    pub(crate) async fn run(self: &Arc<Self>, feed: PodFeed, token: CancellationToken) {
        if self.feed.set(feed).is_err() {
            return tracing::error!("tokens are renewed already");
        }
        tokio::join!(
            token.run_until_cancelled(self.introduce()),
            token.run_until_cancelled(self.work()),
            token.run_until_cancelled(self.sweep()),
        );
        self.table.close();
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn sweep(&self) {
        let mut tick = tokio::time::interval(SWEEP);
        loop {
            tick.tick().await;
            self.table.sweep();
            self.metrics.failing(self.table.failing());
        }
    }
}

impl Delivery {
    /// The pod is there, with this UID: puts the tokens into its Secret. That they cannot be kept is to be told on the
    /// pod; it is tried again.
    pub(crate) async fn deliver(mut self, lower_uid: &str) -> Option<Refused> {
        self.identity.enter(&self.id, lower_uid, self.tokens.clone());
        let issued = std::mem::take(&mut self.issued);
        match self.identity.keep(&self.id.uid, &issued).await {
            Err(Trouble::Refused(refused)) => Some(refused),
            _ => None,
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.identity.table.delivered(&self.id.uid);
        self.identity.queue.add(self.id.uid.clone());
    }
}
