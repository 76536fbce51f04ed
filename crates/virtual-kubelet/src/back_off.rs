// SPDX-License-Identifier: Apache-2.0
//! How long to wait before something that failed is tried again.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// How long to wait after `failures` in a row: `first`, doubled each time, at most `most`; up to a quarter shorter by
/// `spread` (0 to 1), so that those who failed together do not come back together.
pub fn back_off(first: Duration, most: Duration, failures: u32, spread: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    first.saturating_mul(1 << doublings).min(most).mul_f64(1.0 - spread.clamp(0.0, 1.0) / 4.0)
}

/// A number between 0 and 1, by chance. The seed of a hash map is random enough to keep processes out of step.
pub fn chance() -> f64 {
    let random = RandomState::new().hash_one(());
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn waiting_doubles_up_to_the_most_and_never_gives_up() {
        let wait =
            |failures| back_off(Duration::from_millis(250), Duration::from_secs(60), failures, 0.0).as_secs_f64();
        let seconds: Vec<f64> = (1..=10).map(wait).collect();
        assert_eq!(seconds, [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        assert_eq!(back_off(Duration::from_millis(250), Duration::from_secs(60), u32::MAX, 0.0).as_secs(), 60);
    }

    #[test]
    fn chance_is_between_0_and_1_and_differs() {
        let chances: Vec<f64> = std::iter::repeat_with(chance).take(100).collect();
        assert!(chances.iter().all(|chance| (0.0..=1.0).contains(chance)), "{chances:?}");
        assert!(chances.iter().any(|chance| *chance < 0.5) && chances.iter().any(|chance| *chance > 0.5));
    }

    #[test]
    fn chance_shortens_a_wait_by_up_to_a_quarter() {
        for (failures, spread, wait) in [
            (1, 0.0, 100),
            (1, 1.0, 75),
            (3, 0.5, 350),
            (0, 0.0, 100),
            (u32::MAX, 1.0, 5250),
            (2, 9.0, 150),
            (2, -9.0, 200),
        ] {
            assert_eq!(back_off(ms(100), ms(7000), failures, spread), ms(wait), "{failures} {spread}");
        }
    }
}
