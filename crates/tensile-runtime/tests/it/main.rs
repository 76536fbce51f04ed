// SPDX-License-Identifier: Apache-2.0
//! What needs a process of its own: real signals, another environment.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked #[test] as tests")]

mod no_ca_bundle;
mod signals;
