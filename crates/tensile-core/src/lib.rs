//! The rules of Tensile, pure: names, stash, translation, copies of objects, capacity, placement, metrics.
//!
//! Nothing here reads a clock, the environment, a file or a socket; time and settings are arguments, and what should
//! happen is returned as data for a shell to perform.

pub mod deschedule;
pub mod exclusion;
pub mod names;
pub mod node;
pub mod placement;
pub mod pod;
pub mod resources;
pub mod stash;
pub mod stats;
pub mod sync;
