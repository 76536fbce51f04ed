// SPDX-License-Identifier: Apache-2.0
//! What a virtual node shows of its lower cluster.

pub mod build;
pub mod capacity;
mod features;

pub use build::{Address, NodeSettings, Readiness, Taint, TaintEffect, build};
pub use capacity::{ForeignPod, LowerNode, Totals, capacity};
