// SPDX-License-Identifier: Apache-2.0
//! Evictions: many at a time, while plans go on. A pod that gets stuck now does not wait until the API server is done with others.

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tensile_core::deschedule::{Cause, Eviction, Pod};

use super::Cycle;
use crate::evict::{Outcome, evict};
use crate::metrics::Metrics;
use crate::seen::Shared;
use crate::tell::Teller;

/// Evictions at the same time: each is several writes of the API server.
const AT_ONCE: usize = 32;
/// A pod whose eviction failed or was refused is left alone for this time; so is one that was evicted, until it is seen
/// to end.
pub(super) const RETRY: SignedDuration = SignedDuration::from_secs(10);
/// One that has changed is looked at again after this time: the watch will have told how.
const RECENT: SignedDuration = SignedDuration::from_millis(200);

impl Cycle {
    /// Begins evictions, as many as may be under way. A later plan has the others: each that ends wakes it.
    pub(super) fn evict(&mut self, evictions: &[Eviction]) {
        while self.under_way.try_join_next().is_some() {}
        for eviction in evictions {
            let mut seen = self.seen.look();
            let Some(pod) = seen.pod(&eviction.pod).cloned() else { continue };
            if self.under_way.len() >= AT_ONCE {
                seen.give_back(node(&eviction.cause), &pod.namespace);
                continue;
            }
            // From here on it may have happened.
            seen.leave(&pod.uid, Timestamp::now() + RETRY);
            let work = Work {
                client: self.client.clone(),
                seen: self.seen.clone(),
                metrics: self.metrics.clone(),
                tell: self.tell.clone(),
            };
            self.under_way.spawn(work.perform(pod, eviction.cause.clone()));
        }
    }
}

/// What an eviction is performed with.
struct Work {
    client: Client,
    seen: Shared,
    metrics: Metrics,
    tell: Teller,
}

impl Work {
    async fn perform(self, pod: Pod, cause: Cause) {
        let outcome = evict(&self.client, &pod).await;
        let now = Timestamp::now();
        self.metrics.count(&pod, &cause, &outcome, now);
        self.seen.change(|seen| {
            if outcome != Outcome::Evicted {
                seen.give_back(node(&cause), &pod.namespace);
            }
            match &outcome {
                Outcome::Evicted => seen.left(&pod, now),
                Outcome::Changed => seen.leave(&pod.uid, now + RECENT),
                Outcome::Gone | Outcome::Blocked(_) | Outcome::Failed(_) => {}
            }
        });
        let full_name = pod.full_name();
        match outcome {
            Outcome::Evicted => {
                let why = match &cause {
                    Cause::Found { reason, .. } => reason,
                    Cause::Outlived => "an exclusion that it bears has run out",
                };
                tracing::info!(pod = full_name, node = node(&cause), why, "evicted");
                self.tell.moved(&pod, "Descheduled", &format!("evicted: {why}"));
            }
            Outcome::Blocked(message) => {
                tracing::info!(pod = full_name, message, "a disruption budget keeps a pod");
                self.tell.warn(&pod, "EvictionBlocked", &message);
            }
            Outcome::Failed(error) => tracing::warn!(pod = full_name, error, "not evicted, trying again"),
            Outcome::Gone | Outcome::Changed => {}
        }
    }
}

/// The node that the pod is to leave.
fn node(cause: &Cause) -> &str {
    match cause {
        Cause::Found { node, .. } => node,
        Cause::Outlived => "",
    }
}
