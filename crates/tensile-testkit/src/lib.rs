//! What tests of all crates share. Never a normal dependency.

pub mod fault_proxy;
