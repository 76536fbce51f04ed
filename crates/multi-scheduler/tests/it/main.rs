// SPDX-License-Identifier: Apache-2.0
//! The multi-scheduler without clusters: what is known is told to it, and it answers.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked #[test] as tests")]

mod fleet;
mod fuzz;
mod known;
