// SPDX-License-Identifier: Apache-2.0
//! The flat cluster: all lower nodes as nodes of one cluster, and Kubernetes' rules for where a pod may land there.
//!
//! What goes through split and restore is held against this, by crates that must not share code with it.

mod generate;
mod oracle;

pub use generate::{Choices, Cluster, KEPT, add_topologies, clusters, pod, requirement, term};
pub use oracle::{Machine, allows, selects, tolerates_all};
