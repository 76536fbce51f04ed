// SPDX-License-Identifier: Apache-2.0
//! Real clusters on demand: the demo, the acceptance suites and the benchmarks stand on them.
//!
//! [`cluster::Cluster`] starts the unmodified control plane of Kubernetes in a few seconds; [`kwok`] adds simulated nodes,
//! [`real_node`] one that runs containers.
//! Whatever is started ends with this process, however it ends (`reaper`).

mod accept;
mod bench;
pub mod binaries;
mod cargo;
pub mod cli;
pub mod cluster;
mod demo;
pub mod descheduler;
pub mod dns;
pub mod door;
pub mod fixture;
pub mod folder;
pub mod helm;
pub mod kubeconfig;
pub mod kwok;
pub mod link;
pub mod logs;
pub mod metrics_server;
pub mod multi_scheduler;
pub mod namespace;
pub mod objects;
pub mod pki;
pub mod pods;
pub mod port;
pub mod process;
pub mod prometheus;
pub mod real_node;
mod reaper;
pub mod run;
pub mod service;
pub mod ship;
pub mod timeline;
pub mod usage;
pub mod wait;
pub mod webhook;

pub use run::run;
