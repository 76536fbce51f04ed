// SPDX-License-Identifier: Apache-2.0
//! What the multi-scheduler said, and whether it answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tensile_core::deschedule::Fit;

/// How long an answer counts: meanwhile pods come and go below.
const LASTS: SignedDuration = SignedDuration::from_secs(5);
/// Time between two looks whether it is there, while it is and while it is not.
const EVERY: SignedDuration = SignedDuration::from_secs(30);
const SOON: SignedDuration = SignedDuration::from_secs(2);

/// The multi-scheduler.
#[derive(Debug)]
pub(super) struct Scheduler {
    name: String,
    /// By the UID of the pod that it was asked about.
    fits: BTreeMap<Arc<str>, (Option<Fit>, Timestamp)>,
    /// Whether it answered last.
    answers: Option<bool>,
    next: Timestamp,
}

impl Scheduler {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), fits: BTreeMap::new(), answers: None, next: Timestamp::MIN }
    }

    /// The answers that still count.
    pub(super) fn fits(&mut self, now: Timestamp) -> BTreeMap<Arc<str>, Option<Fit>> {
        self.fits.retain(|_, (_, at)| now.duration_since(*at) < LASTS);
        self.fits.iter().map(|(uid, (fit, _))| (uid.clone(), fit.clone())).collect()
    }

    /// When the first of them counts no more, or it is to be looked whether anybody is there.
    pub(super) fn look_again(&self) -> Option<Timestamp> {
        let first = self.fits.values().map(|(_, at)| *at + LASTS).min();
        first.into_iter().chain([self.next]).min()
    }

    pub(super) fn note(&mut self, uid: &str, fit: Option<Fit>, now: Timestamp) {
        self.fits.insert(uid.into(), (fit, now));
    }

    /// Its scheduler's name, while it answers.
    pub(super) fn enforces(&self) -> Option<&str> {
        (self.answers == Some(true)).then_some(&*self.name)
    }

    pub(super) fn is_probe_due(&self, now: Timestamp) -> bool {
        self.next <= now
    }

    pub(super) fn probed(&mut self, now: Timestamp) {
        self.next = now + EVERY;
    }

    pub(super) fn answered(&mut self, answer: Result<(), String>, now: Timestamp) {
        let before = self.answers.replace(answer.is_ok());
        match answer {
            Ok(()) if before != Some(true) => tracing::info!("the multi-scheduler answers"),
            Err(error) if before != Some(false) => {
                tracing::warn!(
                    error,
                    "the multi-scheduler does not answer: pods move without knowing whether they fit"
                );
            }
            Ok(()) | Err(_) => {}
        }
        self.next = now + if self.answers == Some(true) { EVERY } else { SOON };
    }
}
