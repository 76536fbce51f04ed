// SPDX-License-Identifier: Apache-2.0
//! When a step that failed is tried again.

use std::time::Duration;

use tokio::time::Instant;

use super::{Pairs, PodId, Upper};

/// When a failed step is tried again, unless what it depends on has changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    pub(super) at: Instant,
    pub(super) attempts: u32,
    pub(super) revision: u64,
    pub(super) deleting: Option<i64>,
}

impl Pairs {
    /// A step succeeded: the next failure is a first one.
    pub(crate) fn succeeded(&self, id: &PodId) {
        if let Some(record) = self.lock().records.get_mut(&id.uid) {
            record.retry = None;
        }
    }

    /// A step failed: it is tried again after `delay(attempts)`.
    pub(crate) fn failed(&self, id: &PodId, delay: impl FnOnce(u32) -> Duration) {
        let mut table = self.lock();
        let Some(record) = table.records.get_mut(&id.uid) else { return };
        let attempts = record.retry.map_or(0, |retry| retry.attempts).saturating_add(1);
        let at = Instant::now() + if record.woken { Duration::ZERO } else { delay(attempts) };
        let (revision, deleting) = record.depends_on();
        record.retry = Some(Retry { at, attempts, revision, deleting });
        drop(table);
        self.queue.add_at(id.uid.clone(), at);
    }

    /// The backend is back: what failed is tried again at once.
    pub(crate) fn retry_all(&self) {
        let mut table = self.lock();
        for (uid, record) in &mut table.records {
            if record.retry.take().is_some() {
                self.queue.add(uid.clone());
            }
        }
    }

    /// What the pod waited for has come: what failed is tried again at once.
    pub(crate) fn retry(&self, id: &PodId) {
        self.change(id, |record| {
            record.woken = true;
            if let Some(retry) = &mut record.retry {
                retry.at = Instant::now();
            }
        });
    }

    /// Whether the pod may still be there upstairs.
    pub(crate) fn wanted(&self, id: &PodId) -> bool {
        self.lock().records.get(&id.uid).is_some_and(|record| !matches!(record.upper, Upper::Gone))
    }
}
