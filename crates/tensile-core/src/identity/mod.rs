// SPDX-License-Identifier: Apache-2.0
//! The identity that a pod keeps below: tokens of its upper service account, and where the API server is that knows them.
//!
//! A token of the lower cluster is of no use to a program of the upper one, and its kubelets cannot ask for another's.
//! So the virtual node does upstairs what a kubelet does: it requests the tokens that a pod projects, bound to the pod.
//! Below they are in one Secret per pod, which the lower pod owns and mounts in place of what it projects.

mod api_server;
mod renewal;
mod secret;
mod tokens;

#[cfg(test)]
mod tests;

pub use api_server::{ApiServer, ApiServerError, Unreachable};
pub use renewal::{Life, Lives, Step, plan, renew_at};
pub use secret::{Issued, Owner, create, renew};
pub use tokens::{Token, Tokens, key, request};
pub(crate) use tokens::{omit, take};
