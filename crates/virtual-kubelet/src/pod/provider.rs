// SPDX-License-Identifier: Apache-2.0
//! What an author of a provider writes: where pods are run, and how their state comes back.

use std::{future::Future, time::Duration};

use serde_json::{Value, value::RawValue};
use tokio_util::sync::CancellationToken;

use super::{PodFeed, PodId};

/// Runs pods somewhere, one incarnation ([`PodId`]) at most once.
///
/// Every method may be called again after a crash, so each is idempotent: creating a pod that is already there returns
/// it, deleting one that is ending is no error. For one pod only one call runs at a time; for different pods they run
/// concurrently.
pub trait PodProvider: Send + Sync + 'static {
    /// Starts `pod`. A pod of the same UID that is already there is returned as it is.
    fn create_pod(&self, pod: &PodObject) -> impl Future<Output = Result<ProviderPod, PodError>> + Send;

    /// Brings the provider's pod up to `pod`'s revision: images, metadata, resources and what else may change.
    fn update_pod(&self, pod: &PodObject) -> impl Future<Output = Result<ProviderPod, PodError>> + Send;

    /// Asks the pod to end. Returns when that is under way; the end itself comes through the feed. An absent pod is
    /// [`PodError::Gone`].
    fn delete_pod(&self, id: &PodId, grace: Grace) -> impl Future<Output = Result<(), PodError>> + Send;

    /// The pod as it is now; `None` only when it is certain that it does not exist.
    fn get_pod(&self, id: &PodId) -> impl Future<Output = Result<Option<ProviderPod>, PodError>> + Send;

    /// All pods of this virtual node.
    fn list_pods(&self) -> impl Future<Output = Result<Vec<ProviderPod>, PodError>> + Send;

    /// Reports every pod and then every change to `feed`, until `token` is cancelled.
    ///
    /// The default asks [`PodProvider::list_pods`] every five seconds, for backends that cannot push.
    fn notify_pods(&self, feed: PodFeed, token: CancellationToken) -> impl Future<Output = ()> + Send {
        async move {
            let mut tick = tokio::time::interval(Duration::from_secs(5));
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while token.run_until_cancelled(tick.tick()).await.is_some() {
                match self.list_pods().await {
                    Ok(pods) => feed.list(&pods),
                    Err(error) => tracing::warn!(%error, "provider did not list its pods"),
                }
            }
        }
    }
}

/// A pod upstairs, whole, for a provider to run.
#[derive(Clone, Debug)]
pub struct PodObject {
    /// Who it is.
    pub id: PodId,
    /// Changes when anything changed that a running pod can take over; see [`ProviderPod::applied`].
    pub revision: u64,
    /// The object as the API server sent it, unknown fields included.
    pub json: Value,
}

impl PodObject {
    pub(crate) fn parse(id: PodId, revision: u64, raw: &RawValue) -> Result<Self, serde_json::Error> {
        Ok(Self { id, revision, json: serde_json::from_str(raw.get())? })
    }
}

/// A pod as the provider has it.
#[derive(Clone, Debug)]
pub struct ProviderPod {
    /// Which pod upstairs it runs.
    pub id: PodId,
    /// Orders what is said of this pod: answers and the feed may overtake one another, and the higher version counts.
    pub version: u64,
    /// The revision that was last applied, if the provider remembers it over restarts. `None`: it never changes.
    pub applied: Option<u64>,
    /// Set when it is on its way out: by when it should have ended, in seconds since the epoch.
    pub ending_by: Option<i64>,
    /// Its status as JSON `PodStatus`, in the words of the upper cluster. Conditions of the scheduler and of readiness
    /// gates are not the provider's: they are kept as they are upstairs.
    pub status: Value,
    /// Something its owner should know although it runs: told once, when the pod was created or changed.
    pub warning: Option<Refused>,
}

/// How long containers get to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// What the pod itself asks for (`terminationGracePeriodSeconds`).
    OfPod,
    /// This many seconds. Zero means: do not wait, forget it.
    Seconds(i64),
}

/// Why a provider did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// There is no such pod.
    #[error("the pod does not exist")]
    Gone,
    /// Another pod still has the name.
    #[error("{0}")]
    NameTaken(String),
    /// The backend says no to this pod. Shown on the pod, tried again with back-off.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The backend cannot be reached or is overloaded. Tried again with back-off.
    #[error("{0}")]
    Unavailable(String),
}

/// A backend's no, in words for the pod's owner.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{message}")]
pub struct Refused {
    /// One CamelCase word, for conditions, events and waiting reasons.
    pub reason: &'static str,
    /// What happened, to which object, and what helps; the backend's own words where it has some.
    pub message: String,
}
