// SPDX-License-Identifier: Apache-2.0
//! Objects that pods bring along, kept in step between the clusters: what is to be done for one, as data.
//!
//! The rules are the same for every kind: a copy below is made when a pod needs it, follows the object upstairs, and
//! goes when that goes or when no pod needs it any more. Kinds differ in what of them goes down ([`Kind`]).

mod copy;
mod kind;
mod plan;

#[cfg(test)]
mod tests;

pub use copy::{Body, body, lower_name, starts_renamed};
pub(crate) use copy::{ROOT_CA, whose};
pub use kind::Kind;
pub use plan::{Action, Copy, Upper, Version, plan};
