// SPDX-License-Identifier: Apache-2.0
//! The part of a cycle that is about pods without a controller.

use std::sync::Arc;

use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use tensile_core::deschedule::bare::{End, Journal, Sight, Step, step};
use tensile_core::deschedule::{Cause, Eviction, Plan, Pod};

use super::evictions::RETRY;
use super::{AT_ONCE, Cycle};
use crate::recreate::RecreateError;

/// A pod that the API server would not take again is left alone for this time.
const REFUSED: SignedDuration = SignedDuration::from_secs(60);

impl Cycle {
    /// Begins moves, goes on with those that were begun, and releases pods that none holds. Whether all went well; `None`
    /// if there was nothing to do.
    pub(super) async fn recreate(&mut self, plan: &Plan) -> Option<bool> {
        let begun = self.begin(&plan.recreate).await;
        let advanced = self.advance().await;
        let released = self.release(&plan.release).await;
        [begun, advanced, released].into_iter().flatten().reduce(|one, other| one && other)
    }

    async fn begin(&mut self, recreate: &[Eviction]) -> Option<bool> {
        let pods: Vec<(Eviction, Pod)> = {
            let mut seen = self.seen.look();
            let known = recreate.iter().filter_map(|one| Some((one.clone(), seen.pod(&one.pod)?.clone()))).collect();
            for one in recreate {
                seen.leave(&one.pod, Timestamp::now() + RETRY);
            }
            known
        };
        let recreation = self.recreation.clone();
        let begun = stream::iter(pods).map(move |(eviction, pod)| {
            let recreation = recreation.clone();
            async move {
                let begun = recreation.begin(&pod).await;
                (eviction, pod, begun)
            }
        });
        let begun: Vec<_> = begun.buffer_unordered(AT_ONCE).collect().await;
        let mut well = (!begun.is_empty()).then_some(true);
        for (eviction, pod, begun) in begun {
            let (node, why) = match &eviction.cause {
                Cause::Found { node, reason, .. } => (&**node, reason.as_str()),
                Cause::Outlived => ("", "an exclusion that it bears has run out"),
            };
            let full_name = pod.full_name();
            if !matches!(begun, Ok(true)) {
                self.seen.look().give_back(node, &pod.namespace);
            }
            match begun {
                Ok(true) => {
                    self.seen.look().left(&pod, Timestamp::now());
                    tracing::info!(pod = full_name, node, why, "moving a pod without a controller");
                    self.tell.moved(&pod, "Descheduled", &format!("it is deleted and made again: {why}"));
                }
                Ok(false) => {}
                Err(RecreateError::Refused(message)) => {
                    tracing::info!(pod = full_name, message, "left where it is: it could not be made again");
                    self.seen.look().leave(&eviction.pod, Timestamp::now() + REFUSED);
                    self.tell.warn(&pod, "NotRecreatable", &format!("it is left where it is: {message}"));
                }
                Err(error) => {
                    tracing::warn!(pod = full_name, %error, "not moved, trying again");
                    well = Some(false);
                }
            }
        }
        well
    }

    async fn advance(&mut self) -> Option<bool> {
        let names: Vec<String> = {
            let seen = self.seen.look();
            let is_due = |journal: &Journal, pod: Option<&Pod>| {
                step(journal, pod.map(|pod| Sight { pod, same: true })) != Step::Wait
            };
            let due = seen.journals().filter(|(_, journal, pod)| is_due(journal, *pod));
            due.map(|(name, ..)| name.to_owned()).collect()
        };
        let recreation = self.recreation.clone();
        let advanced = stream::iter(names).map(move |name| {
            let recreation = recreation.clone();
            async move {
                let advanced = recreation.advance(&name).await;
                (name, advanced)
            }
        });
        let advanced: Vec<_> = advanced.buffer_unordered(AT_ONCE).collect().await;
        let mut well = None;
        for (name, advanced) in advanced {
            match advanced {
                Ok(None) => {}
                Ok(Some((journal, end))) => self.tell_end(&journal, end),
                Err(error) => {
                    tracing::warn!(journal = name, %error, "a move stands still, trying again");
                    well = Some(false);
                }
            }
        }
        well
    }

    fn tell_end(&self, journal: &Journal, end: End) {
        let (result, told) = match end {
            End::Moved => ("moved", "made again"),
            End::Withdrawn => ("withdrawn", "not made again: somebody else deleted it"),
            End::Started => ("started", "not moved: it has started where it was"),
            End::Taken => ("taken", "not made again: somebody else made a pod of its name"),
        };
        self.metrics.recreated.with_label_values(&[result]).inc();
        let pod = format!("{}/{}", journal.namespace, journal.name);
        tracing::info!(pod, result, told, "the move of a pod without a controller has ended");
    }

    async fn release(&self, pods: &[Arc<str>]) -> Option<bool> {
        let pods: Vec<Pod> = {
            let seen = self.seen.look();
            pods.iter().filter_map(|uid| seen.pod(uid).cloned()).collect()
        };
        let recreation = self.recreation.clone();
        let released = stream::iter(pods).map(move |pod| {
            let recreation = recreation.clone();
            async move {
                let released = recreation.release(&pod).await;
                (pod, released)
            }
        });
        let released: Vec<_> = released.buffer_unordered(AT_ONCE).collect().await;
        let mut well = None;
        for (pod, released) in released {
            if let Err(error) = released {
                tracing::warn!(pod = pod.full_name(), %error, "the finalizer of a move that has ended stays, trying again");
                well = Some(false);
            }
        }
        well
    }
}
