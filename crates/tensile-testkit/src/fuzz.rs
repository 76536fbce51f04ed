// SPDX-License-Identifier: Apache-2.0
//! Fuzzing that needs no tool: real inputs, damaged in ways that are the same in each run.
//!
//! A test gives [`cases`] inputs to the code under test; `TENSILE_FUZZ_CASES=10000000 cargo test ...` makes it a long run.
//! What a long run finds becomes a test of its own.

mod damage;
mod numbers;
mod reviews;

pub use damage::{damage_bytes, damage_json};
pub use numbers::Numbers;
pub use reviews::reviews;

/// How many inputs to try: `usually`, or as many as `TENSILE_FUZZ_CASES` says.
pub fn cases(usually: u64) -> u64 {
    std::env::var("TENSILE_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usually)
}
