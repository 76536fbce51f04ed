// SPDX-License-Identifier: Apache-2.0
//! How long a node is avoided: longer each time it disappoints, up to a limit.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::exclusion::{Exclusion, Record};

/// Times of exclusions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    /// The first exclusion lasts this long; each further one in a row twice as long.
    pub first: Duration,
    /// None lasts longer. After that long without one, a node's attempts count from the beginning.
    pub most: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self { first: Duration::from_secs(5 * 60), most: Duration::from_secs(60 * 60) }
    }
}

impl BackOff {
    /// How long the exclusion after so many attempts lasts.
    pub fn lasts(&self, attempts: u32) -> Duration {
        self.first.saturating_mul(1 << attempts.saturating_sub(1).min(20)).min(self.most)
    }

    /// When an exclusion began. It is not written down: its end and its attempts tell.
    pub fn since(&self, exclusion: &Exclusion) -> Timestamp {
        earlier(exclusion.until, self.lasts(exclusion.attempts))
    }

    /// Whether it is so long ago that it counts no more.
    pub fn forgotten(&self, exclusion: &Exclusion, now: Timestamp) -> bool {
        later(exclusion.until, self.most) <= now
    }

    /// How many times in a row the subject of `record` was kept off some node.
    pub fn attempts(&self, record: &Record, now: Timestamp) -> u32 {
        let recent = record.nodes.iter().filter(|exclusion| !self.forgotten(exclusion, now));
        recent.fold(0, |sum, exclusion| sum.saturating_add(exclusion.attempts))
    }

    /// `record` with `node` excluded from `now` on, and without what is forgotten.
    pub fn excluded(&self, record: &Record, node: &str, now: Timestamp) -> Record {
        let mut next = record.clone();
        next.nodes.retain(|exclusion| !self.forgotten(exclusion, now));
        let before = next.nodes.iter().position(|exclusion| exclusion.node == node).map(|at| next.nodes.remove(at));
        let attempts = before.as_ref().map_or(0, |exclusion| exclusion.attempts).saturating_add(1);
        let until = later(now, self.lasts(attempts));
        let other = before.map(|exclusion| exclusion.other).unwrap_or_default();
        next.nodes.push(Exclusion { node: node.to_owned(), until, attempts, other });
        next
    }
}

/// Time that lies `by` after `time`, at most the end of time.
pub(super) fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_add(SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX)).unwrap_or(Timestamp::MAX)
}

/// Time that lies `by` before `time`, at least the beginning of time.
pub(super) fn earlier(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_sub(SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX)).unwrap_or(Timestamp::MIN)
}
