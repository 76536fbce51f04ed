// SPDX-License-Identifier: Apache-2.0
//! Claims, volumes, classes, and the limits of nodes.

use foldhash::HashMap;

use super::objects::{Claim, CsiNode, StorageClass, Volume};
use super::text::Text;

/// The storage of a cluster.
#[derive(Debug, Default)]
pub(super) struct Storage {
    pub(super) claims: HashMap<(Text, Text), Claim>,
    pub(super) volumes: HashMap<Text, Volume>,
    pub(super) classes: HashMap<Text, StorageClass>,
    pub(super) limits: HashMap<Text, CsiNode>,
}

impl Storage {
    /// The claim of this name.
    pub(super) fn claim(&self, namespace: &Text, name: &Text) -> Option<&Claim> {
        self.claims.get(&(namespace.clone(), name.clone()))
    }

    /// The volume that a claim is bound to.
    pub(super) fn bound(&self, claim: &Claim) -> Option<&Volume> {
        claim.volume.as_ref().filter(|_| claim.bound).and_then(|name| self.volumes.get(name))
    }

    /// The class of a claim.
    pub(super) fn class(&self, claim: &Claim) -> Option<&StorageClass> {
        claim.class.as_ref().and_then(|name| self.classes.get(name))
    }
}
