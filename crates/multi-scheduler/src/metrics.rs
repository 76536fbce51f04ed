// SPDX-License-Identifier: Apache-2.0
//! What is counted: questions by verb and outcome, how long they took, wake-ups; and what is known of each lower cluster.

use std::sync::Arc;
use std::time::Instant;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use crate::fleet::Fleet;
use crate::sources::Told;

/// The service's metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Questions, by verb and outcome.
    requests: IntCounterVec,
    /// Seconds from the last byte of a question to the first of its answer.
    pub seconds: HistogramVec,
    /// Virtual nodes that schedulers were told of room of.
    pub wakes: IntCounter,
}

/// How a question ended, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Answered.
    Answered,
    /// Answered: the pod fits nowhere.
    Nowhere,
    /// Not answered: it was none, came from nobody known, or came too early.
    Refused,
}

impl Metrics {
    /// The metrics, registered.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let requests = IntCounterVec::new(
            Opts::new("tensile_multi_scheduler_requests_total", "Questions, by verb and how they ended."),
            &["verb", "outcome"],
        )?;
        let buckets = prometheus::exponential_buckets(0.000_05, 2.0, 14)?;
        let seconds = HistogramVec::new(
            HistogramOpts::new("tensile_multi_scheduler_request_seconds", "Time to answer a question that was read.")
                .buckets(buckets),
            &["verb"],
        )?;
        let wakes = IntCounter::new(
            "tensile_multi_scheduler_wakes_total",
            "Times that schedulers were told that a virtual node may have room for a pod that was refused.",
        )?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        registry.register(Box::new(wakes.clone()))?;
        Ok(Self { requests, seconds, wakes })
    }

    /// Counts a question.
    pub fn count(&self, verb: &str, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Answered => "answered",
            Outcome::Nowhere => "nowhere",
            Outcome::Refused => "refused",
        };
        self.requests.with_label_values(&[verb, outcome]).inc();
    }
}

/// What is known, read when it is asked for.
pub struct Known {
    fleet: Arc<Fleet>,
    told: Arc<Told>,
    up: IntGaugeVec,
    nodes: IntGaugeVec,
    pods: IntGaugeVec,
    assumed: IntGaugeVec,
    owed: IntGaugeVec,
    tentative: IntGauge,
    waiting: IntGauge,
    unreachable: IntGauge,
}

impl Known {
    /// To be registered once.
    pub fn new(fleet: Arc<Fleet>, told: Arc<Told>) -> prometheus::Result<Self> {
        let each = |name: &str, help: &str| {
            IntGaugeVec::new(Opts::new(format!("tensile_multi_scheduler_cluster_{name}"), help), &["cluster"])
        };
        let all = |name: &str, help: &str| IntGauge::new(format!("tensile_multi_scheduler_{name}"), help);
        Ok(Self {
            fleet,
            told,
            up: each(
                "known",
                "Whether a lower cluster is known well enough (1), or its data are missing or stale (0).",
            )?,
            nodes: each("nodes", "Nodes of a lower cluster.")?,
            pods: each("pods", "Pods that take room on nodes of a lower cluster.")?,
            assumed: each("assumed_pods", "Pods on their way to a lower cluster, which count there.")?,
            owed: each("owed_pods", "Pods that are bound to a lower cluster and have no room there.")?,
            tentative: all("tentative_pods", "Pods that schedulers were told of and that have not been seen bound.")?,
            waiting: all("refused_pods", "Pods that were refused everywhere and are told when there is room.")?,
            unreachable: all("unreachable_clusters", "Kubeconfigs whose lower cluster cannot be followed.")?,
        })
    }

    fn vectors(&self) -> [&IntGaugeVec; 5] {
        [&self.up, &self.nodes, &self.pods, &self.assumed, &self.owed]
    }

    fn gauges(&self) -> [&IntGauge; 3] {
        [&self.tentative, &self.waiting, &self.unreachable]
    }
}

impl Collector for Known {
    fn desc(&self) -> Vec<&Desc> {
        let vectors = self.vectors().into_iter().flat_map(Collector::desc);
        vectors.chain(self.gauges().into_iter().flat_map(Collector::desc)).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Clusters that are gone are not shown.
        self.vectors().into_iter().for_each(IntGaugeVec::reset);
        let now = Instant::now();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for lower in self.fleet.lowers().values() {
            let counts = lower.read().counts();
            let set = |gauge: &IntGaugeVec, value| gauge.with_label_values(&[&lower.name]).set(value);
            set(&self.up, i64::from(lower.state(now, self.fleet.patience).is_ok()));
            set(&self.nodes, number(counts.nodes));
            set(&self.pods, number(counts.pods));
            set(&self.assumed, number(counts.assumed));
            set(&self.owed, number(counts.owed));
        }
        self.tentative.set(number(self.fleet.reservations().counts().tentative));
        self.waiting.set(number(self.fleet.wakes.waiting()));
        self.unreachable.set(number(self.told.troubles().len()));
        let vectors = self.vectors().into_iter().flat_map(Collector::collect);
        vectors.chain(self.gauges().into_iter().flat_map(Collector::collect)).collect()
    }
}
