// SPDX-License-Identifier: Apache-2.0
//! Medians, percentiles, shares.

use std::time::Duration;

/// The middle of the measured values, the mean of the two middle ones if their number is even; NaN of none.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match (values.len().checked_sub(1), values.len() / 2) {
        (None, _) => f64::NAN,
        (Some(last), middle) => f64::midpoint(values[last - middle.min(last)], values[middle]),
    }
}

/// The smallest value that at least `percent` of all do not exceed (nearest rank); zero of none.
pub(super) fn percentile(values: &[Duration], percent: usize) -> Duration {
    let mut values = values.to_vec();
    values.sort_unstable();
    let rank = (values.len() * percent).div_ceil(100);
    values.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// How many a pod.
pub(super) fn per_pod(count: usize, pods: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let share = count as f64 / pods as f64;
    share
}

/// In milliseconds.
pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_value() {
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!((median([7.0]) - 7.0).abs() < 1e-9);
        assert!(median([]).is_nan());
    }

    #[test]
    fn percentiles_go_by_nearest_rank() {
        let values: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&values, 50), Duration::from_millis(100));
        assert_eq!(percentile(&values, 99), Duration::from_millis(198));
        assert_eq!(percentile(&values[..1], 99), Duration::from_millis(200));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }
}
