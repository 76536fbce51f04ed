//! The shell that all services share: arguments, clients, telemetry, the admin server, TLS reload, shutdown.
//!
//! Rules live in `tensile-core`; this crate is where clocks, sockets, files and signals are. A service's `main` resolves
//! its arguments, makes its clients with [`clients::connect`], spawns its work in [`shutdown::Tasks`] and ends with what
//! [`shutdown::run`] returns.

pub mod admin;
pub mod args;
pub mod clients;
pub mod listen;
pub mod process;
pub mod shutdown;
pub mod telemetry;
pub mod tls;
pub mod upper_id;
