// SPDX-License-Identifier: Apache-2.0
//! UIDs of objects in 16 bytes.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// The UID of an object. Written as a UUID, as API servers do, it is just that; any other text stands for its hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Uid(u64, u64);

impl Uid {
    /// The UID that is written so.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::of_uuid(text).unwrap_or_else(|| {
            let hash = |seed: u64| text.bytes().fold(seed, |hash, byte| mix(hash ^ u64::from(byte)));
            Self(hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15))
        })
    }

    /// The UID of a UUID as API servers write it, in lower case; `None` for any other text.
    #[must_use]
    pub fn of_uuid(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 36 {
            return None;
        }
        let mut halves = [0_u64; 2];
        let mut digits = 0;
        for (at, byte) in text.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if *byte != b'-' {
                    return None;
                }
                continue;
            }
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return None,
            };
            let half = halves.get_mut(digits / 16)?;
            *half = (*half << 4) | u64::from(digit);
            digits += 1;
        }
        let [high, low] = halves;
        Some(Self(high, low))
    }

    /// Its bytes, in the order of the digits.
    #[must_use]
    pub fn to_be_bytes(self) -> [u8; 16] {
        (u128::from(self.0) << 64 | u128::from(self.1)).to_be_bytes()
    }
}

/// Spreads what differs over all bits (the finalizer of splitmix64).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(UidVisitor)
    }
}

struct UidVisitor;

impl de::Visitor<'_> for UidVisitor {
    type Value = Uid;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a UID")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Uid, E> {
        Ok(Uid::of(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_its_digits_and_other_text_its_hash() {
        let uuid = "01234567-89ab-cdef-0123-456789abcdef";
        assert_eq!(Uid::of(uuid), Uid(0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef));
        let others = ["", "a", "b", "01234567-89ab-cdef-0123-456789abcdeF", "0123456789abcdef0123456789abcdef"];
        for (at, other) in others.iter().enumerate() {
            assert!(others.iter().skip(at + 1).all(|next| Uid::of(next) != Uid::of(other)), "{other}");
        }
    }
}
