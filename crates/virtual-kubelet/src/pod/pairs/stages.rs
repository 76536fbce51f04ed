// SPDX-License-Identifier: Apache-2.0
//! How long the stages of a pod's start took, for pods that came while we looked.
//!
//! All times are of one clock, ours: those in the objects are of several machines, and in whole seconds.

use std::{sync::OnceLock, time::Duration};

use prometheus::HistogramVec;
use tokio::{sync::mpsc, time::Instant};

use crate::pod::PodId;

/// A stage on the way from being bound upstairs to being shown there as running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// From seen upstairs until the provider has it.
    Create,
    /// Until it runs there.
    Start,
    /// Until that is shown upstairs.
    Show,
}

/// The stage that a pod is in, and how long those behind it took.
#[derive(Clone, Debug)]
pub(super) struct Course {
    begin: Instant,
    stage: Stage,
    since: Instant,
    took: Vec<(&'static str, Duration)>,
}

/// How a pod came to run, told once that is shown upstairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStart {
    /// Which pod.
    pub id: PodId,
    /// When it was seen bound upstairs.
    pub begin: Instant,
    /// Its stages in their order, one after the other: name, and how long it took.
    pub stages: Vec<(&'static str, Duration)>,
}

/// Where stages are counted, and starts are told.
#[derive(Debug)]
pub(super) struct Stages {
    seconds: HistogramVec,
    /// Whoever wants to know of each start.
    pub(super) starts: OnceLock<mpsc::Sender<PodStart>>,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Start => "start",
            Self::Show => "show",
        }
    }

    fn next(self) -> Option<Self> {
        match self {
            Self::Create => Some(Self::Start),
            Self::Start => Some(Self::Show),
            Self::Show => None,
        }
    }
}

impl Course {
    /// That of a pod that was bound just now.
    pub(super) fn begin(now: Instant) -> Self {
        Self { begin: now, stage: Stage::Create, since: now, took: Vec::new() }
    }
}

impl Stages {
    /// Counts stages in `seconds`, by their name.
    pub(super) fn new(seconds: HistogramVec) -> Self {
        Self { seconds, starts: OnceLock::new() }
    }

    /// At `now`, `passed` and all stages before are behind the pod: those that were not yet, are counted.
    pub(super) fn pass(&self, id: &PodId, course: &mut Option<Box<Course>>, passed: Stage, now: Instant) {
        while let Some(mut at) = course.take_if(|at| at.stage <= passed) {
            let (name, took) = (at.stage.name(), now - at.since);
            self.seconds.with_label_values(&[name]).observe(took.as_secs_f64());
            at.took.push((name, took));
            at.since = now;
            if let Some(stage) = at.stage.next() {
                at.stage = stage;
                *course = Some(at);
            } else if let Some(starts) = self.starts.get() {
                let start = PodStart { id: id.clone(), begin: at.begin, stages: at.took };
                if starts.try_send(start).is_err() {
                    tracing::debug!(pod = %id, "nobody takes how the pod came to run");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::HistogramOpts;

    use super::*;

    #[test]
    fn each_stage_is_counted_once_in_its_turn_and_the_start_is_told_at_the_end() {
        let seconds = HistogramVec::new(HistogramOpts::new("seconds", "Seconds."), &["stage"]).unwrap();
        let stages = Stages::new(seconds.clone());
        let (told, mut starts) = mpsc::channel(1);
        stages.starts.set(told).unwrap();
        let seen = |stage| {
            let histogram = seconds.with_label_values(&[stage]);
            (histogram.get_sample_count(), histogram.get_sample_sum())
        };
        let (id, begin, second) = (PodId::new("n", "a", "u"), Instant::now(), Duration::from_secs(1));
        let mut course = Some(Box::new(Course::begin(begin)));
        stages.pass(&id, &mut course, Stage::Create, begin + second);
        stages.pass(&id, &mut course, Stage::Create, begin + 2 * second);
        assert_eq!((seen("create"), seen("start")), ((1, 1.0), (0, 0.0)));
        assert!(starts.try_recv().is_err(), "it does not run yet");
        // It was seen running upstairs before we heard of it from below.
        stages.pass(&id, &mut course, Stage::Show, begin + 4 * second);
        assert_eq!((seen("create"), seen("start"), seen("show")), ((1, 1.0), (1, 3.0), (1, 0.0)));
        stages.pass(&id, &mut course, Stage::Show, begin + 9 * second);
        assert!(course.is_none() && seen("show").0 == 1, "{course:?}");
        let expected = vec![("create", second), ("start", 3 * second), ("show", Duration::ZERO)];
        assert_eq!(starts.try_recv().unwrap(), PodStart { id, begin, stages: expected });
        assert!(starts.try_recv().is_err(), "it was told twice");
    }
}
