// SPDX-License-Identifier: Apache-2.0
//! Numbers about tokens, for Prometheus.

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};
use virtual_kubelet::pod::PodError;

/// Counts requests, and the pods whose tokens could not be renewed.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    requests: IntCounterVec,
    failing: IntGauge,
}

impl Metrics {
    /// Those of `node`, as part of `registry`.
    pub(super) fn register(registry: &Registry, node: &str) -> prometheus::Result<Self> {
        let opts = |name: &str, help: &str| Opts::new(name, help).const_label("node", node);
        let requests = opts("tensile_token_requests_total", "Tokens requested for pods, by result.");
        let failing =
            opts("tensile_pods_with_failing_tokens", "Pods whose tokens could not be renewed at the last try.");
        let metrics =
            Self { requests: IntCounterVec::new(requests, &["result"])?, failing: IntGauge::with_opts(failing)? };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.failing.clone()))?;
        Ok(metrics)
    }

    /// A token was requested.
    pub(super) fn requested<T>(&self, outcome: &Result<T, PodError>) {
        let result = match outcome {
            Ok(_) => "issued",
            Err(PodError::Refused(_)) => "refused",
            Err(_) => "unavailable",
        };
        self.requests.with_label_values(&[result]).inc();
    }

    /// So many pods have tokens that could not be renewed.
    pub(super) fn failing(&self, pods: usize) {
        self.failing.set(i64::try_from(pods).unwrap_or(i64::MAX));
    }
}
