// SPDX-License-Identifier: Apache-2.0
//! A counter that is the sum of others, which come, go and start anew; it never goes back itself.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::{CpuNanos, FIRST, Millis, Reading};

/// Readings of one counter that are so close in time may have overtaken one another: some sources cut times to seconds.
const OVERTAKEN: Millis = 2_000;

/// What counters counted up since one moment.
///
/// A counter that began after that moment counts whole; an older one from its first reading on, so that nothing that
/// happened before is taken for news. A counter that fell was started anew (its node or its container was): what it
/// shows since then counts.
#[derive(Clone, Debug)]
pub struct Sum {
    since: Millis,
    nanos: CpuNanos,
    at: Option<Millis>,
    parts: HashMap<Arc<str>, Reading>,
}

impl Sum {
    /// Nothing yet, counted from `since` on.
    pub fn since(since: Millis) -> Self {
        Self { since, nanos: FIRST, at: None, parts: HashMap::default() }
    }

    /// The sum, as of the newest reading; `None` before the first.
    pub fn reading(&self) -> Option<Reading> {
        Some(Reading { at: self.at?, nanos: self.nanos })
    }

    /// Takes a reading of the counter `name`, which began at `began`, as far as that is known.
    pub fn add(&mut self, name: &Arc<str>, began: Option<Millis>, reading: Reading) {
        let new = began.is_some_and(|began| began >= self.since);
        let grown = match self.parts.get(name) {
            None if new => reading.nanos,
            None => 0,
            Some(known) if reading.at <= known.at => return,
            Some(known) if reading.nanos >= known.nanos => reading.nanos - known.nanos,
            Some(known) if reading.at <= known.at + OVERTAKEN => return,
            Some(_) => reading.nanos,
        };
        self.nanos = self.nanos.saturating_add(grown);
        self.at = self.at.max(Some(reading.at));
        self.parts.insert(name.clone(), reading);
    }

    /// From now on the counters are read elsewhere: what they show first is no news.
    pub fn elsewhere(&mut self, now: Millis) {
        self.since = now;
        self.parts.clear();
    }

    /// Forgets the counters that are not among `names`; what they counted stays in the sum.
    pub fn keep(&mut self, names: &HashSet<&str>) {
        self.parts.retain(|name, _| names.contains(&**name));
    }
}
