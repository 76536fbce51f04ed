// SPDX-License-Identifier: Apache-2.0
//! When the node is written next, and how long a failure waits.

use std::time::Duration;

use tokio::time::Instant;

use crate::back_off::back_off;

/// First wait after a failed write, doubled with each further one.
const RETRY_FIRST: Duration = Duration::from_millis(200);
/// Longest wait after a failed write; there is no last try.
const RETRY_MOST: Duration = Duration::from_secs(10);

/// The rhythm of writes.
///
/// The first change after a quiet time is written at once, further ones together after `gap`; without changes a write
/// every `interval` tells that the node is still looked after. A change does not shorten the wait after a failure.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    interval: Duration,
    gap: Duration,
    next: Option<Instant>,
    earliest: Option<Instant>,
    failures: u32,
}

impl Pace {
    /// A rhythm that begins with a write at once.
    pub(super) fn new(interval: Duration, gap: Duration) -> Self {
        Self { interval, gap, next: None, earliest: None, failures: 0 }
    }

    /// When to write; `None` is at once.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Something changed.
    pub(super) fn changed(&mut self) {
        self.next = self.earliest;
    }

    /// A write began at `now` and went well.
    pub(super) fn written(&mut self, now: Instant) {
        self.failures = 0;
        self.earliest = Some(now + self.gap);
        self.next = Some(now + self.interval.max(self.gap));
    }

    /// A write failed at `now`. `spread` (0 to 1) is chance.
    pub(super) fn failed(&mut self, now: Instant, spread: f64) {
        self.failures = self.failures.saturating_add(1);
        self.earliest = Some(now + back_off(RETRY_FIRST, RETRY_MOST, self.failures, spread));
        self.next = self.earliest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn pace() -> Pace {
        Pace::new(MS(60_000), MS(500))
    }

    #[test]
    fn the_first_write_is_due_at_once() {
        assert_eq!(pace().next(), None);
    }

    #[test]
    fn without_a_change_the_next_write_is_due_after_the_interval() {
        let (mut pace, begin) = (pace(), Instant::now());
        pace.written(begin);
        assert_eq!(pace.next(), Some(begin + MS(60_000)));
    }

    #[test]
    fn a_change_is_due_at_once_after_a_quiet_time_and_not_before_the_gap_is_over() {
        let (mut pace, begin) = (pace(), Instant::now());
        pace.written(begin);
        pace.changed();
        // A time in the past is at once: so after a quiet time, while just after a write it is half a second ahead.
        assert_eq!(pace.next(), Some(begin + MS(500)));
        pace.changed();
        assert_eq!(pace.next(), Some(begin + MS(500)));
        pace.written(begin + MS(500));
        assert_eq!(pace.next(), Some(begin + MS(60_500)));
    }

    #[test]
    fn failures_wait_longer_each_time_whatever_changes_and_never_give_up() {
        let (mut pace, begin) = (pace(), Instant::now());
        for wait in [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
            pace.failed(begin, 0.0);
            pace.changed();
            assert_eq!(pace.next(), Some(begin + MS(wait)));
        }
        pace.written(begin);
        pace.failed(begin, 0.0);
        assert_eq!(pace.next(), Some(begin + MS(200)));
    }
}
