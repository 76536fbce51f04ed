// SPDX-License-Identifier: Apache-2.0
//! The descheduler: a pod that one lower cluster cannot run runs in another, and nothing is lost or doubled.
//!
//! What to do is decided in [`tensile_core::deschedule`], from what was seen. From the inside out: [`seen`] keeps what the
//! watches say ([`watch`]), [`cycle`] performs one plan after another by writing exclusions ([`record`]) and evicting pods
//! ([`evict`]), after a [`canary`] has shown that exclusions are enforced; [`places`] asks a
//! multi-scheduler where pods would fit, [`recreate`] moves pods without a controller, and [`explain`] says what the plan has for a pod. [`app`] is the process around them. Several replicas may run: one of them
//! leads.

pub mod app;
pub mod args;
pub mod canary;
pub mod cycle;
pub mod evict;
pub mod explain;
pub mod metrics;
pub mod permissions;
pub mod places;
pub mod policy;
pub mod record;
pub mod recreate;
pub mod seen;
pub mod tell;
pub mod watch;
