// SPDX-License-Identifier: Apache-2.0
//! Values of flags, as clap's `value_parser` wants them: a value or a sentence.

use std::time::Duration;

/// Such as `20s` or `1m30s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let refused = || "not a duration such as 20s or 1m30s".to_owned();
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| refused())?;
    parsed.try_into().map_err(|_| refused())
}

/// A [`duration`] that something may take: longer than none.
pub fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("nothing could be done in no time".to_owned()),
        timeout => Ok(timeout),
    }
}

/// Requests a second, 0 for no limit.
pub fn rate(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err("not a rate: 0 or more requests a second".to_owned()),
    }
}

/// The spellings that Go's flags take.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "TRUE" | "True" | "t" | "T" | "1" => Ok(true),
        "false" | "FALSE" | "False" | "f" | "F" | "0" => Ok(false),
        _ => Err("neither true nor false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_units_and_is_not_negative() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for text in ["20", "-3s", "", "soon"] {
            assert_eq!(duration(text).unwrap_err(), "not a duration such as 20s or 1m30s", "{text:?}");
        }
    }

    #[test]
    fn a_timeout_is_not_zero() {
        assert_eq!(timeout("1s"), Ok(Duration::from_secs(1)));
        assert!(timeout("0s").is_err());
    }

    #[test]
    fn booleans_are_spelled_as_go_spells_them() {
        assert_eq!((boolean("T"), boolean("0")), (Ok(true), Ok(false)));
        assert!(boolean("yes").is_err());
    }

    #[test]
    fn a_rate_is_finite_and_not_negative() {
        assert_eq!(rate("0.5"), Ok(0.5));
        for text in ["-1", "inf", "NaN", "many"] {
            assert!(rate(text).is_err(), "{text:?}");
        }
    }
}
