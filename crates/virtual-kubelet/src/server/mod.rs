// SPDX-License-Identifier: Apache-2.0
//! The kubelet's own API: HTTPS, authentication, authorization, and the way to a container's streams.
//!
//! What is asked ([`request`], [`options`]) and who may ask it ([`authorization`]) are pure; [`KubeletServer`] performs. Where a
//! container's output comes from is the provider's: [`ContainerIo`], or [`websocket::ContainerStreams`] for a backend that
//! gives plain bytes; so is what it uses: [`StatsProvider`].

pub mod authentication;
pub mod authorization;
mod body;
pub mod certificate;
mod connection;
mod expiring;
mod handle;
mod io;
pub mod options;
pub mod request;
mod serve;
mod stats;
mod tls;
pub mod websocket;

pub use authentication::{ClientCa, ClientCaError, Identity};
pub use io::{ByteStream, ContainerIo, Duplex, IoError, UpgradeRequest, UpgradeTarget, Upgraded};
pub use serve::{KubeletServer, KubeletServerConfig};
pub use stats::{NoStats, StatsProvider};
pub use tls::server_config;
