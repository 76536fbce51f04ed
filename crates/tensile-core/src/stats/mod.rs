// SPDX-License-Identifier: Apache-2.0
//! What containers below use, said of the pods above: picked, renamed, counted on. Pure.
//!
//! A kubelet says it as Prometheus text ([`Picker`]) and as JSON ([`summary`]); both pass through with other names. The
//! metrics API and metric stores say less: [`PodUsage`] is made of that, and written in both formats. What only comes as a
//! rate, or comes and goes with pods, is counted up here ([`Counters`], [`Sum`]): counters never go back.

mod choice;
mod counters;
mod exposition;
mod meter;
mod metrics_api;
mod picker;
mod roster;
mod store;
mod sum;
pub mod summary;
mod usage;

pub use choice::{Choice, Found, Source, UnknownSource, Wanted, choose};
pub use counters::{Counters, PodReading, Rate, Reading};
pub use meter::Meter;
pub use metrics_api::{PodMetrics, pod_metrics};
pub use picker::{Families, Picked, Picker, Sample, TooMuch};
pub use roster::{Member, Roster};
pub use store::{ContainerValues, StoreError, container_values};
pub use sum::Sum;
pub use usage::{ContainerUsage, NodeUsage, PodUsage, exposition, node_families};

/// Milliseconds since the epoch, as timestamps of samples are.
pub type Millis = i64;
/// CPU time in nanoseconds of one core.
pub type CpuNanos = u64;

/// What a counter begins with: a microsecond, because readers take zero for "not known yet" and drop the pod.
pub const FIRST: CpuNanos = 1_000;

/// CPU time that was said in seconds, as a float; none below zero and nothing that is no number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked; 2^63 ns are 292 years of a core")]
pub fn cpu_nanos(seconds: f64) -> Option<CpuNanos> {
    let nanos = seconds * 1e9;
    (nanos.is_finite() && (0.0..9e18).contains(&nanos)).then_some(nanos as CpuNanos)
}

/// A number of bytes that was said as a float.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
pub fn bytes(value: f64) -> Option<u64> {
    (value.is_finite() && (0.0..9e18).contains(&value)).then_some(value as u64)
}

#[cfg(test)]
mod tests;
