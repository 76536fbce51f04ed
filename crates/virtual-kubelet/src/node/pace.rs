//! When the node is written next, and how long a failure waits.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use tokio::time::Instant;

/// First wait after a failed write, doubled with each further one.
const RETRY_FIRST: Duration = Duration::from_millis(200);
/// Longest wait after a failed write; there is no last try.
const RETRY_MOST: Duration = Duration::from_secs(10);

/// How long to wait after `failures` in a row: `first`, doubled each time, at most `most`; up to a quarter shorter by
/// `spread` (0 to 1), so that those who failed together do not come back together.
pub(super) fn back_off(first: Duration, most: Duration, failures: u32, spread: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    first.saturating_mul(1 << doublings).min(most).mul_f64(1.0 - spread.clamp(0.0, 1.0) / 4.0)
}

/// A number between 0 and 1, by chance. The seed of a hash map is random enough to keep nodes out of step.
pub(super) fn chance() -> f64 {
    let random = RandomState::new().hash_one(());
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

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

    #[test]
    fn chance_is_between_0_and_1_and_differs() {
        let chances: Vec<f64> = std::iter::repeat_with(chance).take(100).collect();
        assert!(chances.iter().all(|chance| (0.0..=1.0).contains(chance)), "{chances:?}");
        assert!(chances.iter().any(|chance| *chance < 0.5) && chances.iter().any(|chance| *chance > 0.5));
    }

    #[test]
    fn chance_shortens_a_wait_by_up_to_a_quarter() {
        for (failures, spread, wait) in [
            (1, 0.0, 100),
            (1, 1.0, 75),
            (3, 0.5, 350),
            (0, 0.0, 100),
            (u32::MAX, 1.0, 5250),
            (2, 9.0, 150),
            (2, -9.0, 200),
        ] {
            assert_eq!(back_off(MS(100), MS(7000), failures, spread), MS(wait), "{failures} {spread}");
        }
    }
}
