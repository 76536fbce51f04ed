// SPDX-License-Identifier: Apache-2.0
//! The node: registration, lease, status.
//!
//! What is decided (whether the backend is away, when to write, which patch, which lease) is in files without I/O; the
//! controller asks and performs.

mod api;
mod controller;
#[cfg(test)]
mod fake;
mod health;
mod lease;
mod pace;
mod patch;
mod provider;

pub use controller::{NodeController, NodeControllerConfig, NodeError, NodeState};
pub use health::Backend;
pub use provider::NodeProvider;
