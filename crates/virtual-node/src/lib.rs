// SPDX-License-Identifier: Apache-2.0
//! One lower cluster as one node of the upper cluster.

pub mod app;
pub mod args;
pub mod cleanup;
pub mod config;
mod heard;
pub mod identity;
pub mod kubelet;
pub mod lower;
pub mod node;
pub mod objects;
pub mod permissions;
pub mod services;
pub mod stats;
mod tenants;
mod traces;
pub mod volumes;
