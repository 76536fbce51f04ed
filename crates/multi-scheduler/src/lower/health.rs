// SPDX-License-Identifier: Apache-2.0
//! How well a lower cluster is known: whether its watches have listed, and whether its API server lives.
//!
//! A watch that is silent is no sign of anything, so the API server is asked every few seconds. A watch that cannot go on,
//! for want of a right or a route, is told by its errors, which come again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tensile_core::scheduling::Kind;

/// Longest pause between two tries of a watch that cannot go on, with room for a slow answer.
const TRIES: Duration = Duration::from_secs(75);

/// What is known of the knowledge of one cluster.
#[derive(Debug)]
pub struct Health {
    listed: BTreeSet<Kind>,
    troubles: BTreeMap<Kind, Trouble>,
    answered: Instant,
    refused: Option<String>,
}

/// Errors of one watch.
#[derive(Debug)]
struct Trouble {
    since: Instant,
    last: Instant,
    reason: String,
}

impl Health {
    /// Of a cluster whose API server has just answered.
    pub fn new(now: Instant) -> Self {
        Self { listed: BTreeSet::new(), troubles: BTreeMap::new(), answered: now, refused: None }
    }

    /// A watch said something: the end of a list, or anything else. Returns whether this was the last list that was missing.
    pub fn heard(&mut self, kind: Kind, complete: bool) -> bool {
        self.troubles.remove(&kind);
        complete && self.listed.insert(kind) && self.is_listed()
    }

    /// A watch was interrupted.
    pub fn interrupted(&mut self, kind: Kind, reason: String, now: Instant) {
        let trouble = self.troubles.remove(&kind).filter(|trouble| now.duration_since(trouble.last) < TRIES);
        let since = trouble.map_or(now, |trouble| trouble.since);
        self.troubles.insert(kind, Trouble { since, last: now, reason });
    }

    /// The API server was asked.
    pub fn probed(&mut self, answer: Result<(), String>, now: Instant) {
        match answer {
            Ok(()) => {
                self.answered = now;
                self.refused = None;
            }
            Err(reason) => self.refused = Some(reason),
        }
    }

    /// Whether everything was listed once.
    pub fn is_listed(&self) -> bool {
        self.listed.len() == Kind::ALL.len()
    }

    /// Whether what is known counts, if an API server may be silent for `patience`.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn state(&self, now: Instant, patience: Duration) -> Result<(), String> {
        let silent = now.duration_since(self.answered);
        if silent > patience {
            let reason = self.refused.as_deref().unwrap_or("no answer");
            return Err(format!("its API server was last heard {} s ago: {reason}", silent.as_secs()));
        }
        let missing = |kind: &Kind| {
            let reason = self.troubles.get(kind).map(|trouble| format!(": {}", trouble.reason)).unwrap_or_default();
            format!("its {} are not listed yet{reason}", kind.resource().1)
        };
        if let Some(kind) = Kind::ALL.iter().find(|kind| !self.listed.contains(kind)) {
            return Err(missing(kind));
        }
        let stuck = |trouble: &Trouble| {
            now.duration_since(trouble.since) > patience && now.duration_since(trouble.last) < TRIES
        };
        match self.troubles.iter().find(|(_, trouble)| stuck(trouble)) {
            Some((kind, trouble)) => Err(format!("its {} cannot be followed: {}", kind.resource().1, trouble.reason)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn listed(now: Instant) -> Health {
        let mut health = Health::new(now);
        let last = Kind::ALL.iter().filter(|kind| health.heard(**kind, true)).count();
        assert_eq!(last, 1, "only the last list completes it");
        health
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn nothing_counts_before_everything_is_listed() {
        let now = Instant::now();
        let mut health = Health::new(now);
        for kind in &Kind::ALL[1..] {
            health.heard(*kind, true);
        }
        let missing = Kind::ALL[0].resource().1;
        assert_eq!(health.state(now, PATIENCE), Err(format!("its {missing} are not listed yet")));
        health.interrupted(Kind::ALL[0], "forbidden".to_owned(), now);
        assert_eq!(health.state(now, PATIENCE), Err(format!("its {missing} are not listed yet: forbidden")));
        health.heard(Kind::ALL[0], true);
        assert_eq!(health.state(now, PATIENCE), Ok(()));
    }

    #[test]
    fn a_silent_api_server_counts_for_as_long_as_patience_lasts_and_again_when_it_answers() {
        let now = Instant::now();
        let mut health = listed(now);
        health.probed(Err("connection refused".to_owned()), now + seconds(5));
        assert_eq!(health.state(now + seconds(30), PATIENCE), Ok(()));
        let told = health.state(now + seconds(31), PATIENCE).unwrap_err();
        assert_eq!(told, "its API server was last heard 31 s ago: connection refused");
        health.probed(Ok(()), now + seconds(40));
        assert_eq!(health.state(now + seconds(41), PATIENCE), Ok(()));
    }

    #[test]
    fn a_watch_that_goes_on_failing_counts_no_more_and_one_that_failed_once_does() {
        let now = Instant::now();
        let mut health = listed(now);
        let at = |health: &mut Health, second| {
            health.probed(Ok(()), now + seconds(second));
            health.state(now + seconds(second), PATIENCE)
        };
        health.interrupted(Kind::Pod, "reset".to_owned(), now);
        assert_eq!(at(&mut health, 200), Ok(()));
        for second in [200, 230, 240] {
            health.interrupted(Kind::Pod, "forbidden".to_owned(), now + seconds(second));
        }
        assert_eq!(at(&mut health, 241), Err("its pods cannot be followed: forbidden".to_owned()));
        health.heard(Kind::Pod, false);
        assert_eq!(at(&mut health, 242), Ok(()));
    }
}
