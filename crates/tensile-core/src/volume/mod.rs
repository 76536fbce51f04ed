// SPDX-License-Identifier: Apache-2.0
//! Claims of the upper cluster, their volumes in a lower one, and what shows them upstairs.
//!
//! A pod needs the claims it names below, and the upper cluster must see them bound: its scheduler lets no pod go before,
//! and must send every later pod of a claim to where its volume is. Three cases, by the volume that the claim names:
//!
//! - **None yet**: the claim goes down if its StorageClass is for lower clusters (provisioner [`names::PROVISIONER`], which
//!   nobody upstairs serves, or named by the operator), and either the scheduler chose this virtual node for it
//!   (`selected-node`) or a pod of ours waits for it. The lower cluster provisions or binds. Then a volume is *shown*
//!   upstairs, pre-bound to the claim, and the upper volume controller binds the two. A lower class that waits for its
//!   first consumer would wait for a pod that waits for the claim: there the volume is shown as soon as the claim is below.
//! - **One that shows a volume here**: the claim is below already.
//! - **Another, made by the upper cluster or its administrator**: it is *carried* down with its claim, source and all.
//!
//! A shown volume has a driver that exists nowhere, so that nobody attaches, mounts, provisions or deletes it, and a node
//! affinity for the virtual node. The upper volume controller leaves deletion to the driver, that is to us.
//!
//! Nothing is lost: a claim below that has a volume is deleted only when the claim upstairs is gone for certain and the
//! volume that showed it says `Delete`; what becomes of the data then, the lower volume's own policy says. A carried volume
//! is made with policy `Retain`, so that the lower cluster never deletes what the upper one owns. A claim whose copy below
//! disappeared is lost and says so: an empty volume never takes the place of data.

mod carried;
mod claim;
mod plan;
mod problem;
mod shown;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

pub use carried::{SecretRef, carried_name, secrets, with_secrets};
pub use claim::{first_name, lower_name, named};
pub use plan::{Action, Facts, Plan, Standing, plan};
pub use problem::Problem;
pub use shown::{shown_claim, shown_name};

use crate::{names, pod::LinkView, resources::Quantity};

/// One claim upstairs, this incarnation of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What the operator decides about storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// StorageClasses upstairs that are for lower clusters, and what they are called there.
    pub classes: BTreeMap<String, String>,
}

/// A text at `pointer`; empty ones count as none.
fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

fn is_deleting(object: &Value) -> bool {
    text(object, "/metadata/deletionTimestamp").is_some()
}

/// A size at `pointer`.
fn size(object: &Value, pointer: &str) -> Option<i128> {
    text(object, pointer)?.parse().ok().map(Quantity::nano)
}

/// Whether `link` made this object below.
#[must_use]
pub fn is_ours(object: &Value, link: &LinkView) -> bool {
    label(object, names::UPPER_CLUSTER) == Some(names::label_value(&link.upper_cluster).as_str())
        && label(object, names::VIRTUAL_NODE) == Some(names::label_value(&link.virtual_node).as_str())
}

/// Whether `object` below is the copy of `claim` that `link` made.
#[must_use]
pub fn is_copy_of(object: &Value, claim: &Claim, link: &LinkView) -> bool {
    is_ours(object, link) && annotation(object, names::UPPER_UID) == Some(claim.uid.as_str())
}

/// The claim upstairs of which an object below with these annotations is a copy.
#[must_use]
pub fn claim_of(upper_name: &str, uid: &str) -> Option<Claim> {
    let (namespace, name) = upper_name.split_once('/')?;
    Some(Claim { namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.to_owned() })
}
