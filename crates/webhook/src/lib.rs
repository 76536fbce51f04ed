// SPDX-License-Identifier: Apache-2.0
//! The admission webhook: what only lower nodes can satisfy moves into the stash.
//!
//! From the inside out: [`review`] reads and writes the envelope, [`mutate`] decides and changes nothing by itself,
//! [`router`] is the HTTP around them, [`app`] the process around that.

pub mod app;
pub mod args;
pub mod certificates;
pub mod claims;
pub mod metrics;
pub mod mutate;
pub mod permissions;
pub mod pod;
pub mod review;
pub mod router;
pub mod selected_node;
pub mod tolerations;
