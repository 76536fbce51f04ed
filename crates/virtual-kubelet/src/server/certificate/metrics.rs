// SPDX-License-Identifier: Apache-2.0
//! Numbers about the certificate, for Prometheus.

use jiff::Timestamp;
use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

/// Of one node.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    expires: IntGauge,
    undecided: IntGauge,
    requests: IntCounterVec,
}

impl Metrics {
    /// The metrics of `node`, as part of `registry`.
    pub(super) fn register(node: &str, registry: &Registry) -> prometheus::Result<Self> {
        let about = |name: &str, help: &str| Opts::new(name, help).const_label("node", node);
        let metrics = Self {
            expires: IntGauge::with_opts(about(
                "tensile_serving_certificate_expiration_timestamp_seconds",
                "When the issued certificate of the kubelet API runs out; 0 while there is none.",
            ))?,
            undecided: IntGauge::with_opts(about(
                "tensile_serving_certificate_request_undecided",
                "1 while a request for a certificate waits for somebody to approve it.",
            ))?,
            requests: IntCounterVec::new(
                about(
                    "tensile_serving_certificate_requests_total",
                    "Requests for a certificate that ended, by result.",
                ),
                &["result"],
            )?,
        };
        registry.register(Box::new(metrics.expires.clone()))?;
        registry.register(Box::new(metrics.undecided.clone()))?;
        registry.register(Box::new(metrics.requests.clone()))?;
        Ok(metrics)
    }

    /// A request ended: `issued`, `denied`, `failed` or `removed`.
    pub(super) fn ended(&self, result: &str) {
        self.requests.with_label_values(&[result]).inc();
    }

    pub(super) fn expires(&self, at: Timestamp) {
        self.expires.set(at.as_second());
    }

    pub(super) fn undecided(&self, undecided: bool) {
        self.undecided.set(undecided.into());
    }
}
