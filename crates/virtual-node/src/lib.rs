//! One lower cluster as one node of the upper cluster.

pub mod app;
pub mod args;
pub mod config;
pub mod kubelet;
pub mod lower;
pub mod node;
pub mod objects;
pub mod permissions;
pub mod stats;
