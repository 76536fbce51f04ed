// SPDX-License-Identifier: Apache-2.0
//! The library a virtual node provider is written on.
//!
//! A provider runs pods somewhere: in another cluster, on a batch system, in memory. It implements [`pod::PodProvider`]
//! and [`node::NodeProvider`]; this crate does what a kubelet owes the API server: it registers and keeps the node,
//! follows the pods bound to it, decides what must happen to each (`pod::plan`), reports their status, and serves the
//! kubelet's own API ([`server`]) for a provider that implements [`server::ContainerIo`] and,
//! where it can, [`server::StatsProvider`].

pub mod back_off;
mod events;
pub mod node;
pub mod pod;
pub mod queue;
pub mod server;
mod time;
pub mod watched;
