// SPDX-License-Identifier: Apache-2.0
//! The multi-scheduler: an extender of kube-scheduler that looks into the lower clusters before a pod is bound.
//!
//! A virtual node offers the sum of a cluster; whether one of its nodes has room for a pod is seen only below. What fits
//! is decided in [`tensile_core::scheduling`]. From the inside out: [`lower`] keeps the columns of each lower cluster up to
//! date, [`upper`] what the upper cluster says of virtual nodes and of pods on their way, [`reservations`] counts those
//! pods, [`decide`] answers, [`wire`] and [`router`] are the extender's protocol around that, [`app`] the process.
//! Nothing waits for an API server while a scheduler waits for an answer.

pub mod access;
pub mod app;
pub mod args;
pub mod decide;
pub mod explain;
pub mod fleet;
pub mod gangs;
pub mod inquiry;
pub mod lower;
pub mod metrics;
pub mod permissions;
pub mod pod_groups;
pub mod profile;
pub mod reservations;
pub mod router;
pub mod sources;
pub mod together;
pub mod upper;
pub mod wake;
pub mod wire;
