// SPDX-License-Identifier: Apache-2.0
//! What tests of all crates share. Never a normal dependency.

pub mod api_server;
pub mod fault_proxy;
pub mod flat_cluster;
pub mod fuzz;
pub mod lower_cluster;
pub mod shipped;
