// SPDX-License-Identifier: Apache-2.0
//! Numbers about the pods of a virtual node, for Prometheus.

use std::{sync::Arc, time::Duration};

use prometheus::{
    HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use super::{pairs::Pairs, plan::Action};

/// Counts and times the steps of one controller.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    steps: IntCounterVec,
    seconds: HistogramVec,
    /// How long the stages of pods' starts took.
    pub(crate) stages: HistogramVec,
}

impl Metrics {
    /// The metrics of a controller for `node`, not yet registered.
    pub(crate) fn new(node: &str) -> prometheus::Result<Self> {
        let steps = Opts::new("tensile_pod_steps_total", "Steps performed for pods, by action and result.")
            .const_label("node", node);
        let histogram = |name: &str, help: &str| {
            HistogramOpts::new(name, help).const_label("node", node).buckets(vec![
                0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 2.0, 5.0, 10.0, 30.0,
            ])
        };
        let seconds = histogram("tensile_pod_step_duration_seconds", "How long steps took, by action.");
        let stages = histogram(
            "tensile_pod_stage_duration_seconds",
            "How long stages of pods' starts took: create (from bound until it is below), start (until it runs), show (until \
             that is shown upstairs).",
        );
        Ok(Self {
            steps: IntCounterVec::new(steps, &["action", "result"])?,
            seconds: HistogramVec::new(seconds, &["action"])?,
            stages: HistogramVec::new(stages, &["stage"])?,
        })
    }

    /// Makes them, and the sizes of `pairs`, part of `registry`.
    pub(crate) fn register(&self, registry: &Registry, node: &str, pairs: Arc<Pairs>) -> prometheus::Result<()> {
        registry.register(Box::new(self.steps.clone()))?;
        registry.register(Box::new(self.seconds.clone()))?;
        registry.register(Box::new(self.stages.clone()))?;
        registry.register(Box::new(Sizes::new(node, pairs)?))
    }

    pub(crate) fn count(&self, action: Action, succeeded: bool, took: Duration) {
        let name = action.name();
        self.steps.with_label_values(&[name, if succeeded { "success" } else { "error" }]).inc();
        self.seconds.with_label_values(&[name]).observe(took.as_secs_f64());
    }
}

/// Sizes read from the state when they are asked for, so that they cannot drift.
struct Sizes {
    pairs: Arc<Pairs>,
    pods: IntGauge,
    due: IntGauge,
}

impl Sizes {
    fn new(node: &str, pairs: Arc<Pairs>) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str| IntGauge::with_opts(Opts::new(name, help).const_label("node", node));
        Ok(Self {
            pairs,
            pods: gauge("tensile_pods", "Pods known to the virtual node, upstairs or below.")?,
            due: gauge("tensile_pod_queue_depth", "Pods that are due to be looked at.")?,
        })
    }
}

impl Collector for Sizes {
    fn desc(&self) -> Vec<&Desc> {
        [self.pods.desc(), self.due.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let number = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        self.pods.set(number(self.pairs.len()));
        self.due.set(number(self.pairs.queue.depth()));
        [self.pods.collect(), self.due.collect()].concat()
    }
}
