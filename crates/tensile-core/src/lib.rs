// SPDX-License-Identifier: Apache-2.0
//! The rules of Tensile, pure: names, stash, translation, copies of objects, identity, tenants, capacity,
//! placement, metrics.
//!
//! Nothing here reads a clock, the environment, a file or a socket; time and settings are arguments, and what should
//! happen is returned as data for a shell to perform.

pub mod cleanup;
pub mod deschedule;
pub mod event;
pub mod exclusion;
pub mod identity;
pub mod names;
pub mod node;
pub mod placement;
pub mod pod;
pub mod resources;
pub mod scheduling;
pub mod service;
pub mod stash;
pub mod stats;
pub mod sync;
pub mod tenant;
pub mod thin;
pub mod volume;
