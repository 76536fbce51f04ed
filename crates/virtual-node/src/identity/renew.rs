// SPDX-License-Identifier: Apache-2.0
//! Tokens renewed in time, and put into the Secret of their pod.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tensile_core::{
    identity::{self, Issued, Owner, Step},
    sync::Kind,
};
use tokio::{sync::Semaphore, time::Instant};
use virtual_kubelet::{
    back_off::{back_off, chance},
    pod::Refused,
};

use super::{
    Identity,
    table::{Held, Pod, Secret},
};
use crate::{
    lower::answer,
    objects::{Meta, Requests, Trouble},
};

/// Pods whose tokens are renewed at the same time.
const WORKERS: usize = 8;
/// First and longest wait before tokens that could not be renewed are tried again; there is no last try.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(300);
/// A pod is looked at this often at least: clocks are set, and machines sleep.
const LOOK: Duration = Duration::from_secs(600);
/// Tokens are kept for this long, whatever the clocks say.
const KEPT: Duration = Duration::from_secs(5);

impl Identity {
    /// Renews what is due. Does not end.
    pub(super) async fn work(self: &Arc<Self>) {
        let slots = Arc::new(Semaphore::new(WORKERS));
        loop {
            let uid = self.queue.next().await;
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let identity = self.clone();
            self.tasks.spawn(async move {
                let _slot = slot;
                let work = Work { identity: &identity, uid };
                identity.look_at(&work.uid).await;
            });
        }
    }

    async fn look_at(&self, uid: &Arc<str>) {
        let now = Instant::now();
        let Some(pod) = self.table.ready(uid, now) else { return };
        let kept = match &pod.secret {
            Secret::Held(held) => (held.since + KEPT).saturating_duration_since(now),
            Secret::Absent => Duration::ZERO,
        };
        let step = identity::plan(&pod.tokens, uid, pod.secret.lives(), Timestamp::now());
        let outcome = match step {
            Step::Wait(until) => {
                let wait = Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default();
                return self.again(uid, now + wait.min(LOOK));
            }
            Step::Request(_) if !kept.is_zero() => return self.again(uid, now + kept),
            Step::Request(places) => self.renew(uid, &pod, &places).await,
        };
        let wait = match outcome {
            // When the next is due shows when it is looked at.
            Ok(()) => KEPT,
            Err(trouble) => {
                let failures = self.table.fails(uid);
                tracing::warn!(pod = %pod.id, error = %trouble, failures, "tokens not renewed");
                back_off(RETRY_FIRST, RETRY_MOST, failures, chance())
            }
        };
        self.again(uid, Instant::now() + wait);
    }

    /// Looks at the pod at `when`, unless it is looked at before that anyway: every look is followed by one.
    fn again(&self, uid: &Arc<str>, when: Instant) {
        if self.table.plan_look(uid, when) {
            self.queue.add_at(uid.clone(), when);
        }
    }

    async fn renew(&self, uid: &str, pod: &Pod, places: &[usize]) -> Result<(), Trouble> {
        let mut issued = Vec::new();
        for place in places {
            self.turn().await;
            issued.push(self.request(&pod.id, &pod.tokens, *place).await?);
        }
        self.keep(uid, &issued).await
    }

    /// Waits for the turn to renew one token.
    async fn turn(&self) {
        let mut pace = self.pace.lock().await;
        while let Err(wait) = pace.take(Instant::now()) {
            tokio::time::sleep(wait).await;
        }
    }

    /// Puts tokens into the pod's Secret.
    pub(super) async fn keep(&self, uid: &str, issued: &[Issued]) -> Result<(), Trouble> {
        let Some(pod) = self.table.pod(uid) else { return Ok(()) };
        let requests = Requests::within(&self.lower, Kind::Secret, self.link.lower_namespace(&pod.id.namespace));
        let name = &pod.tokens.secret;
        let answer = match &pod.secret {
            Secret::Held(Held { uid, lives, .. }) => requests.merge(name, &identity::renew(uid, lives, issued)).await,
            Secret::Absent => {
                let owner = Owner {
                    namespace: &pod.id.namespace,
                    name: &pod.id.name,
                    upper_uid: uid,
                    lower_uid: &pod.lower_uid,
                };
                requests.create(identity::create(&pod.tokens, &owner, issued, &self.link).to_string()).await
            }
        };
        match answer {
            Ok(meta) => {
                tracing::debug!(pod = %pod.id, secret = name, tokens = issued.len(), "tokens kept below");
                self.table.secret_seen(uid, &meta);
                self.table.succeeds(uid);
                Ok(())
            }
            // Another one than was known of, or none.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => self.find(uid, &pod, &requests).await,
            Err(error) => Err(answer::pod_error(&error).into()),
        }
    }

    /// Asks what Secret there is, for the next try.
    async fn find(&self, uid: &str, pod: &Pod, requests: &Requests<'_>) -> Result<(), Trouble> {
        let name = &pod.tokens.secret;
        let found = requests.meta(name).await.map_err(|error| Trouble::from(answer::pod_error(&error)))?;
        let Some(meta) = found else {
            self.table.secret_gone(uid, None);
            return Err(Trouble::Unavailable(format!("Secret {name} is gone")));
        };
        if !self.is_for(uid, &meta) {
            return Err(Trouble::Refused(Refused {
                reason: "LowerNameConflict",
                message: format!(
                    "the lower cluster has a secret {}/{name} that node {} did not make; it is left alone",
                    self.link.lower_namespace(&pod.id.namespace),
                    self.link.virtual_node
                ),
            }));
        }
        if meta.goes_with.as_deref() == Some(&*pod.lower_uid) {
            self.table.secret_seen(uid, &meta);
            return Err(Trouble::Unavailable(format!("Secret {name} was changed meanwhile")));
        }
        // It goes with an earlier lower pod, and would take the tokens along.
        let deleted = requests.delete(name, &meta.version.uid).await;
        deleted.map_err(|error| Trouble::from(answer::pod_error(&error)))?;
        self.table.secret_gone(uid, None);
        Err(Trouble::Unavailable(format!("Secret {name} was that of an earlier lower pod")))
    }

    /// Whether a Secret was made for the upper pod with this UID.
    pub(super) fn is_for(&self, uid: &str, meta: &Meta) -> bool {
        meta.is_of(&self.link) && meta.tokens.is_some() && meta.upper_uid() == Some(uid)
    }
}

/// A pod being looked at; given back however that ends.
struct Work<'a> {
    identity: &'a Identity,
    uid: Arc<str>,
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.identity.queue.done(&self.uid);
    }
}
