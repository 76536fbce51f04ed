// SPDX-License-Identifier: Apache-2.0
//! What is counted: reviews by outcome and how long they took; and when the certificate ends.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGauge, Opts, Registry};
use tensile_runtime::tls::ServedCertificate;

use crate::review::Verdict;

/// The service's metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    reviews: IntCounterVec,
    /// Seconds from the last byte of the question to the first of the answer.
    pub seconds: Histogram,
}

/// How a review ended, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Allowed with changes.
    Changed,
    /// Allowed as it is.
    Untouched,
    /// Not allowed.
    Denied,
    /// Not a review, or not in time.
    Refused,
}

impl From<&Verdict> for Outcome {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Changed { .. } => Self::Changed,
            Verdict::Untouched => Self::Untouched,
            Verdict::Denied(_) => Self::Denied,
        }
    }
}

impl Metrics {
    /// The metrics, registered.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let reviews = IntCounterVec::new(
            Opts::new("tensile_webhook_reviews_total", "Admission reviews, by outcome."),
            &["outcome"],
        )?;
        let buckets = prometheus::exponential_buckets(0.000_025, 2.0, 14)?;
        let seconds = Histogram::with_opts(
            HistogramOpts::new(
                "tensile_webhook_review_seconds",
                "Time to decide on an admission review that was read.",
            )
            .buckets(buckets),
        )?;
        registry.register(Box::new(reviews.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        let metrics = Self { reviews, seconds };
        // Shown from the start, so that a rate over them is right from the first review on.
        for outcome in [Outcome::Changed, Outcome::Untouched, Outcome::Denied, Outcome::Refused] {
            metrics.counter(outcome).inc_by(0);
        }
        Ok(metrics)
    }

    /// Counts one review.
    pub fn count(&self, outcome: Outcome) {
        self.counter(outcome).inc();
    }

    fn counter(&self, outcome: Outcome) -> prometheus::IntCounter {
        self.reviews.with_label_values(&[match outcome {
            Outcome::Changed => "changed",
            Outcome::Untouched => "untouched",
            Outcome::Denied => "denied",
            Outcome::Refused => "refused",
        }])
    }
}

/// When the serving certificate ends, read when it is asked for; nothing while there is none.
#[derive(Debug)]
pub struct Expiration {
    served: Arc<ServedCertificate>,
    gauge: IntGauge,
}

impl Expiration {
    /// That of what is `served`, to be registered once.
    pub fn of(served: Arc<ServedCertificate>) -> prometheus::Result<Self> {
        let gauge = IntGauge::new(
            "tensile_webhook_certificate_expiration_seconds",
            "When the serving certificate ends, in seconds since unix epoch.",
        )?;
        Ok(Self { served, gauge })
    }
}

impl Collector for Expiration {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(validity) = self.served.validity() else { return Vec::new() };
        self.gauge.set(validity.until.as_second());
        self.gauge.collect()
    }
}
