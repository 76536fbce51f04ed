// SPDX-License-Identifier: Apache-2.0
//! What is counted: evictions by outcome and reason, exclusions, how long pods waited, and what is left where it is.

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};
use tensile_core::deschedule::{Cause, Pod};

use crate::evict::Outcome;

/// The service's metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    evicted: IntCounterVec,
    /// Moves of pods without a controller that have ended, by how.
    pub recreated: IntCounterVec,
    /// Deployments rolled out anew.
    pub restarted: IntCounter,
    /// Exclusions written.
    pub excluded: IntCounter,
    /// Seconds from when the lower scheduler gave up until the eviction.
    pub waited: Histogram,
    /// Seconds from when the lower scheduler gave up until the pod's successor ran.
    pub moved: Histogram,
    /// Pods that are left where they are, by why.
    pub held: IntGaugeVec,
}

impl Metrics {
    /// The metrics, registered.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let evicted = IntCounterVec::new(
            Opts::new(
                "tensile_descheduler_pods_evicted_total",
                "Evictions, by how they ended and why they were asked for.",
            ),
            &["result", "strategy", "profile", "namespace", "node"],
        )?;
        let recreated = IntCounterVec::new(
            Opts::new(
                "tensile_descheduler_pods_recreated_total",
                "Moves of pods without a controller that have ended, by how.",
            ),
            &["result"],
        )?;
        let excluded =
            IntCounter::new("tensile_descheduler_exclusions_total", "Exclusions from a virtual node written.")?;
        let restarted = IntCounter::new(
            "tensile_descheduler_rollouts_restarted_total",
            "Deployments rolled out anew, so that new pods are there before old ones go.",
        )?;
        let waited = Histogram::with_opts(
            HistogramOpts::new(
                "tensile_descheduler_unschedulable_seconds",
                "Time from when the lower scheduler found no node for a pod until it was evicted.",
            )
            .buckets(prometheus::exponential_buckets(0.25, 2.0, 14)?),
        )?;
        let moved = Histogram::with_opts(
            HistogramOpts::new(
                "tensile_descheduler_move_seconds",
                "Time from when the lower scheduler found no node for a pod until its successor ran.",
            )
            .buckets(prometheus::exponential_buckets(0.25, 2.0, 14)?),
        )?;
        let held = IntGaugeVec::new(
            Opts::new(
                "tensile_descheduler_pods_held",
                "Pods that a strategy found and that stay where they are, by why.",
            ),
            &["reason"],
        )?;
        registry.register(Box::new(evicted.clone()))?;
        registry.register(Box::new(recreated.clone()))?;
        registry.register(Box::new(restarted.clone()))?;
        registry.register(Box::new(excluded.clone()))?;
        registry.register(Box::new(waited.clone()))?;
        registry.register(Box::new(moved.clone()))?;
        registry.register(Box::new(held.clone()))?;
        Ok(Self { evicted, recreated, restarted, excluded, waited, moved, held })
    }

    /// Counts an eviction.
    pub fn count(&self, pod: &Pod, cause: &Cause, outcome: &Outcome, now: jiff::Timestamp) {
        let (strategy, profile, node) = match cause {
            Cause::Found { node, profile, plugin, .. } => (*plugin, profile.as_str(), &**node),
            Cause::Outlived => ("ExclusionOutlived", "", ""),
        };
        self.evicted.with_label_values(&[outcome.name(), strategy, profile, &pod.namespace, node]).inc();
        if let (Outcome::Evicted, Some(trouble)) = (outcome, &pod.unschedulable) {
            self.waited.observe(now.duration_since(trouble.since).as_secs_f64().max(0.0));
        }
    }
}
