// SPDX-License-Identifier: Apache-2.0
//! Counters of containers, where the source has rates, or counters that may flicker.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::{CpuNanos, FIRST, Millis};

/// What a counter shows at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When.
    pub at: Millis,
    /// CPU time used since it began.
    pub nanos: CpuNanos,
}

/// What the counter of a pod shows, where the source counts pods itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodReading {
    /// UID above.
    pub uid: Arc<str>,
    /// When its kubelet took it.
    pub since: Option<Millis>,
    /// What is shown.
    pub reading: Reading,
}

/// How fast a container used CPU, up to one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Billionths of a core.
    pub nano_cores: u64,
    /// The end of the time it was measured over.
    pub at: Millis,
    /// The length of that time.
    pub window: Millis,
}

/// One counter for each container, which begins with the container and grows until it ends.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    pods: HashMap<Arc<str>, Vec<Counter>>,
}

#[derive(Clone, Debug)]
struct Counter {
    container: Box<str>,
    started: Option<Millis>,
    reading: Reading,
}

impl Counters {
    /// Counts a rate up: what was used since the last reading, had it been this much all the time.
    ///
    /// The first reading of a container counts the rate's own window, no further back: after a restart of this process
    /// that makes a counter near zero, which every reader takes for what it is. `None` when the rate is older than the
    /// container: it was an earlier one's.
    pub fn rate(&mut self, pod: &Arc<str>, container: &str, started: Option<Millis>, rate: Rate) -> Option<Reading> {
        let Rate { nano_cores, at, window } = rate;
        let first = |age: Millis| Reading { at, nanos: FIRST + used(nano_cores, window.min(age)) };
        self.read(pod, container, started, at, |known, age| match known {
            None => first(age),
            Some(known) => Reading { at, nanos: known.nanos.saturating_add(used(nano_cores, at - known.at)) },
        })
    }

    /// Holds a counter to its word: where copies of it differ by a little, the higher one counts, until the container
    /// starts anew.
    pub fn counter(
        &mut self,
        pod: &Arc<str>,
        container: &str,
        started: Option<Millis>,
        reading: Reading,
    ) -> Option<Reading> {
        self.read(pod, container, started, reading.at, |known, _| {
            let least = known.map_or(FIRST, |known| known.nanos);
            Reading { at: reading.at, nanos: reading.nanos.max(least) }
        })
    }

    /// Forgets the pods that are not among `pods`.
    pub fn keep(&mut self, pods: &HashSet<&str>) {
        self.pods.retain(|pod, _| pods.contains(&**pod));
    }

    /// The next reading, by what is known of this container and its age; an older one than is known changes nothing.
    fn read(
        &mut self,
        pod: &Arc<str>,
        container: &str,
        started: Option<Millis>,
        at: Millis,
        next: impl FnOnce(Option<Reading>, Millis) -> Reading,
    ) -> Option<Reading> {
        let age = started.map_or(Millis::MAX, |started| at.saturating_sub(started));
        if age <= 0 {
            return None;
        }
        let counters = self.pods.entry(pod.clone()).or_default();
        let Some(counter) = counters.iter_mut().find(|counter| *counter.container == *container) else {
            let reading = next(None, age);
            counters.push(Counter { container: container.into(), started, reading });
            return Some(reading);
        };
        let anew = counter.started.zip(started).is_some_and(|(before, now)| now > before);
        if anew {
            counter.reading = next(None, age);
        } else if at > counter.reading.at {
            counter.reading = next(Some(counter.reading), age);
        }
        counter.started = started.or(counter.started);
        Some(counter.reading)
    }
}

/// What a rate comes to in a time.
fn used(nano_cores: u64, time: Millis) -> CpuNanos {
    let time = u128::from(u64::try_from(time).unwrap_or_default());
    u64::try_from(u128::from(nano_cores) * time / 1_000).unwrap_or(u64::MAX)
}
