// SPDX-License-Identifier: Apache-2.0
//! Kubernetes quantities, exactly: `100m`, `1.5Gi`, `12e6`.
//!
//! The grammar and the canonical form are those of `k8s.io/apimachinery/pkg/api/resource`: fixed point, no floats,
//! nothing finer than nano (a finer value is rounded away from zero), a binary value capped at 2^63-1.
//! Two differences, neither of which an API server can show: text without a digit (`Ki`, `-`) is an error instead of
//! zero, and a decimal magnitude is capped at 10^29 instead of being unlimited.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[cfg(test)]
mod tests;

/// Nanos in one unit.
const NANO: i128 = 1_000_000_000;
/// Nanos in one thousandth.
const NANOS_PER_MILLI: i128 = 1_000_000;
/// The largest magnitude in nanos: every smaller one has at most 38 digits, which a 128 bit integer holds exactly.
const LARGEST: u128 = 10_u128.pow(38);
/// The largest binary magnitude in units; Kubernetes caps there without a word.
const LARGEST_BINARY: u128 = i64::MAX as u128;
/// Digits of a mantissa that are kept; what follows only decides about rounding.
const DIGITS: usize = 38;
/// Decimals of a binary quantity that are kept (10^18 * 2^60 still fits 128 bits); what follows rounds up.
const BINARY_DECIMALS: u32 = 18;

/// How a quantity was written, and will be written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `n u m k M G T P E` or no suffix: powers of 1000.
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`: powers of 1024.
    BinarySi,
    /// `e3`, `E-6`: powers of ten.
    DecimalExponent,
}

/// A fixed-point number with nano precision that remembers how it was written.
///
/// Compares and hashes by value and format; use [`Quantity::nano`] to compare values alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

/// Text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity: {reason}")]
pub struct ParseQuantityError {
    text: String,
    reason: &'static str,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nano: 0, format: Format::DecimalSi };

    /// A quantity of `nano` billionths of a unit.
    #[must_use]
    pub const fn from_nano(nano: i128, format: Format) -> Self {
        Self { nano, format }
    }

    /// A quantity of `milli` thousandths of a unit, capped at what 128 bits of nanos hold.
    #[must_use]
    pub const fn from_milli(milli: i128, format: Format) -> Self {
        Self { nano: milli.saturating_mul(NANOS_PER_MILLI), format }
    }

    /// The value in billionths of a unit: exact.
    #[must_use]
    pub const fn nano(self) -> i128 {
        self.nano
    }

    /// The value in thousandths of a unit, rounded away from zero as `MilliValue` does upstream.
    #[must_use]
    pub const fn milli(self) -> i128 {
        round_away(self.nano, NANOS_PER_MILLI)
    }

    /// The value in whole units, rounded away from zero as `Value` does upstream.
    #[must_use]
    pub const fn units(self) -> i128 {
        round_away(self.nano, NANO)
    }

    /// How the quantity was written.
    #[must_use]
    pub const fn format(self) -> Format {
        self.format
    }
}

/// `value / divisor`, rounded away from zero.
const fn round_away(value: i128, divisor: i128) -> i128 {
    let quotient = value / divisor;
    if value % divisor == 0 { quotient } else { quotient + value.signum() }
}

/// The multiplier that a suffix stands for.
#[derive(Clone, Copy)]
enum Multiplier {
    /// Ten to this power.
    Ten(i64),
    /// Two to this power.
    Two(u32),
}

/// Reads a suffix; `None` when there is no such suffix.
fn suffix(text: &str) -> Option<(Multiplier, Format)> {
    let decimal = |power| Some((Multiplier::Ten(power), Format::DecimalSi));
    let binary = |power| Some((Multiplier::Two(power), Format::BinarySi));
    match text {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let power = text.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((Multiplier::Ten(power), Format::DecimalExponent))
        }
    }
}

/// An unsigned decimal number: `digits * 10^exponent`, and whether anything was left out behind it.
struct Decimal {
    digits: u128,
    exponent: i64,
    inexact: bool,
}

/// Reads digits before and after the point. Both parts hold ASCII digits only.
fn decimal(whole: &str, fraction: &str) -> Decimal {
    let mut read = Decimal { digits: 0, exponent: 0, inexact: false };
    let mut kept = 0;
    for (digit, after_point) in whole.bytes().map(|d| (d, false)).chain(fraction.bytes().map(|d| (d, true))) {
        let digit = u128::from(digit - b'0');
        if kept < DIGITS {
            read.digits = read.digits * 10 + digit;
            read.exponent -= i64::from(after_point);
            // Leading zeros cost no precision.
            kept += usize::from(read.digits != 0);
        } else {
            read.exponent += i64::from(!after_point);
            read.inexact |= digit != 0;
        }
    }
    read
}

impl Decimal {
    /// `self * 10^9 * 10^power`, rounded up, capped.
    fn nanos_by_ten(&self, power: i64) -> u128 {
        if self.digits == 0 {
            return 0;
        }
        let shift = self.exponent.saturating_add(power).saturating_add(9);
        let magnitude = u32::try_from(shift.unsigned_abs()).ok().and_then(|shift| 10_u128.checked_pow(shift));
        let nanos = match (shift >= 0, magnitude) {
            (true, Some(factor)) => self.digits.saturating_mul(factor),
            (true, None) => LARGEST,
            (false, Some(divisor)) => divide_up(self.digits, divisor, self.inexact),
            (false, None) => 1,
        };
        nanos.min(LARGEST)
    }

    /// `self * 10^9 * 2^power`, rounded up, capped.
    fn nanos_by_two(&self, power: u32) -> u128 {
        let cap = LARGEST_BINARY * NANO.unsigned_abs();
        // A positive exponent means that even 38 digits were too few.
        let Ok(decimals) = u32::try_from(-self.exponent) else { return cap };
        let mut scale = power_of_ten(decimals);
        let (whole, mut fraction) = (self.digits / scale, self.digits % scale);
        let mut inexact = self.inexact;
        if decimals > BINARY_DECIMALS {
            let excess = power_of_ten(decimals - BINARY_DECIMALS);
            inexact |= !fraction.is_multiple_of(excess);
            (fraction, scale) = (fraction / excess, power_of_ten(BINARY_DECIMALS));
        }
        // Whole units first, so that the rest times 10^9 still fits.
        let part = fraction << power;
        let rest = divide_up((part % scale) * NANO.unsigned_abs(), scale, inexact);
        whole
            .checked_mul(1 << power)
            .and_then(|units| units.checked_add(part / scale))
            .and_then(|units| units.checked_mul(NANO.unsigned_abs()))
            .map_or(cap, |nanos| nanos.saturating_add(rest).min(cap))
    }
}

/// Ten to this power, or more than any mantissa.
fn power_of_ten(power: u32) -> u128 {
    10_u128.checked_pow(power).unwrap_or(u128::MAX)
}

/// `value / divisor`, rounded up, also when something `inexact` was left out before.
fn divide_up(value: u128, divisor: u128, inexact: bool) -> u128 {
    value / divisor + u128::from(inexact || !value.is_multiple_of(divisor))
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |reason| ParseQuantityError { text: text.to_owned(), reason };
        let (negative, number) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, rest) = split_digits(number);
        let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(error("no digits"));
        }
        let (multiplier, format) = suffix(rest).ok_or_else(|| error("unknown suffix"))?;
        let number = decimal(whole, fraction);
        let nanos = match multiplier {
            Multiplier::Ten(power) => number.nanos_by_ten(power),
            Multiplier::Two(power) => number.nanos_by_two(power),
        };
        // Capped above, so it always fits.
        let nano = i128::try_from(nanos).unwrap_or(i128::MAX);
        Ok(Self { nano: if negative { -nano } else { nano }, format })
    }
}

/// The leading ASCII digits, and what follows.
fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// `value` without the factors of `base` it holds, at most `most` of them, and their number.
fn without_factors(mut value: i128, base: i128, most: usize) -> (i128, usize) {
    let mut count = 0;
    while count < most && value != 0 && value % base == 0 {
        value /= base;
        count += 1;
    }
    (value, count)
}

impl fmt::Display for Quantity {
    /// The canonical form: no precision lost, no decimals, the largest suffix that allows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        if self.nano == 0 {
            return f.write_str("0");
        }
        // Below 1024, and where it would lose precision, a binary quantity is shown in decimal.
        if self.format == Format::BinarySi && self.nano % NANO == 0 && self.nano.abs() >= 1024 * NANO {
            let (mantissa, power) = without_factors(self.nano / NANO, 1024, BINARY.len() - 1);
            return write!(f, "{mantissa}{}", BINARY.get(power).unwrap_or(&""));
        }
        let (mantissa, thousands) = without_factors(self.nano, 1000, usize::MAX);
        match DECIMAL.get(thousands) {
            Some(suffix) if self.format != Format::DecimalExponent => write!(f, "{mantissa}{suffix}"),
            _ if thousands == 3 => write!(f, "{mantissa}"),
            _ => write!(f, "{mantissa}e{}", i128::try_from(thousands).unwrap_or(i128::MAX) * 3 - 9),
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

/// API servers write quantities as strings, people and some clients also as numbers.
struct QuantityVisitor;

impl de::Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }
}
