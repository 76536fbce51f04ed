//! What tests of all crates share. Never a normal dependency.

pub mod fault_proxy;
pub mod flat_cluster;
pub mod fuzz;
pub mod shipped;
