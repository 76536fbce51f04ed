// SPDX-License-Identifier: Apache-2.0
//! Numbers that look random and are the same in each run.

/// A sequence of numbers (splitmix64).
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next_number() % limit).unwrap_or_default()
    }

    /// True once in `of` times.
    pub fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// One of the values.
    ///
    /// # Panics
    /// If there is none.
    pub fn of<'v, T>(&mut self, values: &'v [T]) -> &'v T {
        &values[self.below(values.len())]
    }

    /// That many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.next_number()).flat_map(u64::to_le_bytes).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // First outputs of the reference implementation for seed 1234567.
        let mut numbers = Numbers::new(1_234_567);
        assert_eq!(numbers.next_number(), 6_457_827_717_110_365_317);
        assert_eq!(numbers.next_number(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_stay_below_their_limit() {
        let mut numbers = Numbers::new(1);
        assert!((0..1000).all(|_| numbers.below(7) < 7));
        assert_eq!(numbers.below(0), 0);
        assert_eq!(numbers.bytes(13).len(), 13);
    }
}
