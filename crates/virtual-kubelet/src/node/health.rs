// SPDX-License-Identifier: Apache-2.0
//! Judging pings: when the backend counts as away.
//!
//! `NotReady` is expensive: the control plane marks every pod of the node not ready and, after a while, evicts those
//! that do not tolerate it. So one failed ping is not believed; the next ones follow quickly, and when they fail too the
//! backend is away. A real kubelet gives its container runtime 30 s in the same way.

use std::time::Duration;

/// How many pings in a row must fail before a backend that was there counts as away.
pub(super) const FAILURES_UNTIL_AWAY: u32 = 3;

/// Wait between pings that confirm a failure.
const CONFIRM_AFTER: Duration = Duration::from_secs(1);

/// What pings have shown so far.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Health {
    failures: u32,
    backend: Backend,
}

/// Whether the backend is there.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Backend {
    /// No ping has been answered yet.
    #[default]
    Unknown,
    /// It answers.
    Present,
    /// It does not, and this is what it said last.
    Away(String),
}

impl Health {
    /// Takes in the outcome of a ping. The very first one is believed at once: there is nothing to protect yet.
    pub(super) fn observe(&mut self, ping: Result<(), String>) {
        match ping {
            Ok(()) => *self = Self { failures: 0, backend: Backend::Present },
            Err(message) => {
                self.failures = self.failures.saturating_add(1);
                if self.backend != Backend::Present || self.failures >= FAILURES_UNTIL_AWAY {
                    self.backend = Backend::Away(message);
                }
            }
        }
    }

    /// Whether the backend is there, as far as is known.
    pub(super) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// How long to wait before the next ping: `interval`, or less while a failure is being confirmed.
    pub(super) fn next_ping(&self, interval: Duration) -> Duration {
        if self.failures > 0 && self.backend == Backend::Present { interval.min(CONFIRM_AFTER) } else { interval }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    fn away(message: &str) -> Backend {
        Backend::Away(message.into())
    }

    /// Feeds pings (`""` is a good one) and tells the verdict and the seconds to the next ping after each.
    fn verdicts(pings: &[&str]) -> Vec<(Backend, u64)> {
        let mut health = Health::default();
        let mut observe = |ping: &&str| {
            health.observe(if ping.is_empty() { Ok(()) } else { Err((*ping).into()) });
            (health.backend().clone(), health.next_ping(INTERVAL).as_secs())
        };
        pings.iter().map(&mut observe).collect()
    }

    #[test]
    fn before_the_first_ping_nothing_is_known() {
        assert_eq!(*Health::default().backend(), Backend::Unknown);
    }

    #[test]
    fn a_backend_that_never_answered_is_away_at_once() {
        assert_eq!(verdicts(&["refused", ""]), [(away("refused"), 10), (Backend::Present, 10)]);
    }

    #[test]
    fn one_or_two_failures_are_confirmed_quickly_and_forgotten_when_an_answer_comes() {
        let present = |seconds| (Backend::Present, seconds);
        assert_eq!(verdicts(&["", "a", "b", "", "c"]), [present(10), present(1), present(1), present(10), present(1)]);
    }

    #[test]
    fn the_third_failure_in_a_row_counts_with_its_own_words_and_later_ones_bring_theirs() {
        assert_eq!(verdicts(&["", "a", "b", "c", "d"])[2..], [(Backend::Present, 1), (away("c"), 10), (away("d"), 10)]);
    }

    #[test]
    fn confirming_never_waits_longer_than_the_interval() {
        let mut health = Health::default();
        health.observe(Ok(()));
        health.observe(Err("a".into()));
        assert_eq!(health.next_ping(Duration::from_millis(200)), Duration::from_millis(200));
    }
}
