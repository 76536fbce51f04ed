// SPDX-License-Identifier: Apache-2.0
//! The shell that all services share: arguments, clients, telemetry, the admin server, TLS reload, shutdown.
//!
//! Rules live in `tensile-core`; this crate is where clocks, sockets, files and signals are. A service's `main` is
//! [`service::main`]; its [`service::Service::run`] makes its clients with [`clients::connect`] and spawns its work in
//! [`shutdown::Tasks`].

pub mod admin;
mod allocator;
pub mod args;
pub mod clients;
pub mod exclusions;
pub mod lease;
pub mod listen;
pub mod process;
pub mod service;
pub mod shutdown;
pub mod telemetry;
pub mod threads;
pub mod tls;
pub mod traces;
pub mod upper_id;
pub mod watch;
