// SPDX-License-Identifier: Apache-2.0
//! What fits where: the nodes and pods of a lower cluster as columns, and kube-scheduler's rules over them.
//!
//! A [`Cluster`] is fed with what the watches of a lower cluster deliver ([`Change`], decoded straight into reduced
//! [`objects`]), and asked whether a pod would find a node there ([`Cluster::ask`]), how many like it would
//! ([`Cluster::capacity`]) and how good a place the cluster is ([`Cluster::score`]). A [`Question`] is the pod as
//! virtual-node would create it there. Pods that are on their way count from the moment that somebody is told of room for
//! them ([`Cluster::offer`], [`Cluster::assume`]).
//!
//! The rules are laid out as the scheduling framework is (`framework`): one module for each upstream plugin, under its
//! upstream name, and one list of them all. A [`Profile`] says which are on. What upstream calls Reserve is the record
//! of a pod in the columns: a real pod and an assumed one reserve alike, and what was reserved is given back exactly,
//! so that a repeated or missed event cannot make anything drift.
//!
//! Upstream asks each plugin about each node. Here a plugin is asked about 64 nodes at a time and answers with 64 bits:
//! what depends on labels, taints or domains alone is read off sets of nodes.

mod amounts;
mod answer;
mod ask;
mod assumed;
mod capacity;
mod change;
mod cluster;
mod framework;
mod label_selector;
mod labels;
mod namespaces;
mod node_labels;
mod node_selector;
mod node_set;
mod nodes;
pub mod objects;
mod plugins;
mod pods;
mod profile;
mod question;
mod quota_request;
mod reserve;
mod score;
mod shape;
mod storage;
#[cfg(test)]
mod tests;
mod text;
mod uid;

pub use answer::{Answer, Why};
pub use change::{Change, Gain, Kind, Object};
pub use cluster::{Cluster, Counts};
pub use labels::Labels;
pub use profile::{Profile, ProfileError};
pub use question::{Question, Refused, Unknown};
pub use score::{Mode, Weights};
pub use text::Text;
pub use uid::Uid;
