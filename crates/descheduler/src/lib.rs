//! The descheduler: a pod that one lower cluster cannot run runs in another, and nothing is lost or doubled.
//!
//! What to do is decided in [`tensile_core::deschedule`], from what was seen. From the inside out: [`seen`] keeps what the
//! watches say ([`watch`]), [`cycle`] performs one plan after another by writing exclusions ([`record`]) and evicting pods
//! ([`evict`]), [`app`] is the process around them. Several replicas may run: one of them leads.

pub mod app;
pub mod args;
pub mod cycle;
pub mod evict;
pub mod metrics;
pub mod permissions;
pub mod policy;
pub mod record;
pub mod seen;
pub mod tell;
pub mod watch;
