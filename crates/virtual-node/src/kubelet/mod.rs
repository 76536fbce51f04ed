// SPDX-License-Identifier: Apache-2.0
//! The kubelet API of the virtual node: what its containers say, fetched from the lower cluster.
//!
//! Exec, attach and port-forward are relayed, not decoded: the upgrade is made at the lower API server too, with the
//! caller's own protocol headers, so every protocol that both ends speak goes through. It works where pod networks are
//! not joined.

mod certificate;
mod client_ca;
mod followers;
mod io;
mod run;
mod serve;
mod target;

pub use certificate::CertificateError;
pub(crate) use followers::Followers;
pub use serve::{Place, ServeError, start};
