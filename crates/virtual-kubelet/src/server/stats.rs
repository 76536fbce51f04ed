// SPDX-License-Identifier: Apache-2.0
//! What an author of a provider writes to tell what containers use.

use std::future::Future;

use bytes::Bytes;

use super::IoError;

/// Metrics of the containers of this node, in the kubelet's own formats.
///
/// Nothing here is required: what a provider leaves out is answered with 501. `kubectl top` and autoscalers live on
/// [`StatsProvider::resource`], which a metrics-server reads every few seconds and from many places at once: a provider
/// that has to ask somebody keeps the answer for a moment. The node's own `/metrics` is not a provider's: it shows the
/// registry that the server was given, as a kubelet's shows the kubelet.
pub trait StatsProvider: Send + Sync + 'static {
    /// `/stats/summary`: JSON of `Summary` in Kubernetes' `kubelet/pkg/apis/stats/v1alpha1`. `brief` leaves out all but
    /// CPU and memory.
    fn summary(&self, brief: bool) -> impl Future<Output = Result<Bytes, IoError>> + Send {
        let _ = brief;
        async { Err(IoError::Unsupported("statistics")) }
    }

    /// `/metrics/resource`: Prometheus text with `node_cpu_usage_seconds_total`, `node_memory_working_set_bytes` and,
    /// with the labels `container`, `namespace` and `pod`, `container_cpu_usage_seconds_total`,
    /// `container_memory_working_set_bytes` and `container_start_time_seconds`.
    ///
    /// A metrics-server drops a pod of which one of these is zero, and computes rates: counters must not go back, and
    /// timestamps (milliseconds) must go on.
    fn resource(&self) -> impl Future<Output = Result<Bytes, IoError>> + Send {
        async { Err(IoError::Unsupported("metrics of containers")) }
    }

    /// `/metrics/cadvisor`: Prometheus text, as cAdvisor's.
    fn cadvisor(&self) -> impl Future<Output = Result<Bytes, IoError>> + Send {
        async { Err(IoError::Unsupported("metrics of cAdvisor")) }
    }

    /// `/metrics/probes`: Prometheus text with `prober_probe_total`.
    fn probes(&self) -> impl Future<Output = Result<Bytes, IoError>> + Send {
        async { Err(IoError::Unsupported("metrics of probes")) }
    }
}

/// For a provider that has none of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStats;

impl StatsProvider for NoStats {}
