//! How long the stages of a pod's start took, for pods that came while we looked.
//!
//! All times are of one clock, ours: those in the objects are of several machines, and in whole seconds.

use prometheus::HistogramVec;
use tokio::time::Instant;

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

/// The stage that a pod is in, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    stage: Stage,
    since: Instant,
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
        Self { stage: Stage::Create, since: now }
    }
}

/// At `now`, `passed` and all stages before are behind the pod: those that were not yet, are counted.
pub(super) fn pass(course: &mut Option<Course>, passed: Stage, now: Instant, seconds: &HistogramVec) {
    while let Some(at) = course.filter(|at| at.stage <= passed) {
        seconds.with_label_values(&[at.stage.name()]).observe((now - at.since).as_secs_f64());
        *course = at.stage.next().map(|stage| Course { stage, since: now });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus::HistogramOpts;

    use super::*;

    #[test]
    fn each_stage_is_counted_once_in_its_turn() {
        let seconds = HistogramVec::new(HistogramOpts::new("seconds", "Seconds."), &["stage"]).unwrap();
        let seen = |stage| {
            let histogram = seconds.with_label_values(&[stage]);
            (histogram.get_sample_count(), histogram.get_sample_sum())
        };
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut course = Some(Course::begin(begin));
        pass(&mut course, Stage::Create, begin + second, &seconds);
        pass(&mut course, Stage::Create, begin + 2 * second, &seconds);
        assert_eq!((seen("create"), seen("start")), ((1, 1.0), (0, 0.0)));
        // It was seen running upstairs before we heard of it from below.
        pass(&mut course, Stage::Show, begin + 4 * second, &seconds);
        assert_eq!((seen("create"), seen("start"), seen("show")), ((1, 1.0), (1, 3.0), (1, 0.0)));
        pass(&mut course, Stage::Show, begin + 9 * second, &seconds);
        assert!(course.is_none() && seen("show").0 == 1, "{course:?}");
    }
}
