// SPDX-License-Identifier: Apache-2.0
//! Keeps pods on nodes where their claims are bound, or can be.
//!
//! Storage that drivers report they have left (`CSIStorageCapacity`) is not counted: a provisioner is taken to have room.

use serde_json::Value;

use super::super::framework::{Allowed, Cycle, Plugin, Prepared};
use super::super::node_set::{Mask, NodeId};
use super::super::objects::{Claim, StorageClass, Volume};
use super::super::question::Unknown;
use super::super::text::Text;

pub(super) const NAME: &str = "VolumeBinding";

/// The provisioner that makes no volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

struct VolumeBinding;

pub(super) fn make(_: &Value) -> Result<Box<dyn Plugin>, String> {
    Ok(Box::new(VolumeBinding))
}

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        let shape = &cycle.question.shape;
        if shape.claims.is_empty() {
            return Prepared::Skip;
        }
        let mut left = cycle.nodes.known.clone();
        let mut waiting = Vec::new();
        for name in &shape.claims {
            match place(cycle, &shape.namespace, name) {
                Ok(Claimed::Anywhere) => {}
                Ok(Claimed::Bound(volume)) => left.keep(&volume.nodes.select(cycle.nodes)),
                Ok(Claimed::Selected(class, node)) => {
                    let mut only = Mask::empty(left.blocks());
                    cycle.nodes.id(node).into_iter().for_each(|node| only.insert(node));
                    only.keep(&makes(cycle, class));
                    left.keep(&only);
                }
                Ok(Claimed::Waiting(claim, class)) => waiting.push(Waiting::of(cycle, claim, class)),
                Err(why) => return Prepared::Refused { resolvable: false, why },
            }
        }
        waiting.sort_by_key(|waiting| waiting.storage);
        if !waiting.is_empty() {
            let stuck: Vec<NodeId> = left.iter().filter(|node| !bind_all(&waiting, *node)).collect();
            for node in stuck {
                left.remove(node);
            }
        }
        Allowed::only(left, "can mount its volumes", "can mount its volumes")
    }
}

/// What is known of a claim.
enum Claimed<'c> {
    /// It is not known, and allowed.
    Anywhere,
    Bound(&'c Volume),
    /// Its volume is being made for a node.
    Selected(&'c StorageClass, &'c str),
    /// Its volume is chosen with the node.
    Waiting(&'c Claim, &'c StorageClass),
}

fn place<'c>(cycle: &'c Cycle<'_>, namespace: &Text, name: &Text) -> Result<Claimed<'c>, String> {
    let Some(claim) = cycle.storage.claim(namespace, name) else {
        return match cycle.question.unknown {
            Unknown::Allow => Ok(Claimed::Anywhere),
            Unknown::Deny => Err(format!("claim {name} is not there")),
        };
    };
    if claim.terminating {
        return Err(format!("claim {name} is being deleted"));
    }
    if claim.lost {
        return Err(format!("the volume of claim {name} is gone"));
    }
    if claim.bound {
        let volume = cycle.storage.bound(claim);
        return volume.map(Claimed::Bound).ok_or_else(|| format!("the volume of claim {name} is not there"));
    }
    match cycle.storage.class(claim) {
        None if claim.class.is_some() => Err(format!("the storage class of claim {name} is not there")),
        Some(class) if class.waits && claim.volume.is_none() => Ok(match &claim.selected_node {
            Some(node) => Claimed::Selected(class, node),
            None => Claimed::Waiting(claim, class),
        }),
        _ => Err(format!("claim {name} has no volume yet")),
    }
}

/// The nodes that volumes of this class can be made for.
fn makes(cycle: &Cycle<'_>, class: &StorageClass) -> Mask {
    if class.provisioner.is_empty() || &*class.provisioner == NO_PROVISIONER {
        return Mask::empty(cycle.nodes.blocks());
    }
    match &class.topologies {
        Some(topologies) => topologies.select(cycle.nodes),
        None => cycle.nodes.known.clone(),
    }
}

/// A claim whose volume is chosen with the node.
struct Waiting<'c> {
    storage: i64,
    /// Volumes that can be its own, the smallest first, and where.
    volumes: Vec<(&'c Text, Mask)>,
    /// Nodes that a volume can be made for.
    makes: Mask,
}

impl<'c> Waiting<'c> {
    fn of(cycle: &'c Cycle<'_>, claim: &Claim, class: &StorageClass) -> Self {
        let mut volumes: Vec<&Volume> = cycle.storage.volumes.values().filter(|volume| serves(volume, claim)).collect();
        // A volume that is meant for the claim comes before the smallest.
        volumes.sort_by(|a, b| order(a).cmp(&order(b)));
        let volumes = volumes.into_iter().map(|volume| (&volume.name, volume.nodes.select(cycle.nodes))).collect();
        Self { storage: claim.storage, volumes, makes: makes(cycle, class) }
    }
}

/// By what volumes are tried one after the other.
fn order(volume: &Volume) -> (bool, i64, &Text) {
    (volume.claim.is_none(), volume.storage, &volume.name)
}

/// Whether the volume can be the claim's own.
fn serves(volume: &Volume, claim: &Claim) -> bool {
    let meant = volume.claim.as_ref().map(|(namespace, name)| *namespace == claim.namespace && *name == claim.name);
    volume.available
        && !volume.terminating
        && volume.storage >= claim.storage
        && volume.block == claim.block
        && meant.unwrap_or_else(|| {
            volume.class == claim.class
                && claim.selector.matches(&volume.labels)
                && claim.access.iter().all(|mode| volume.access.contains(mode))
        })
}

/// Whether each of the claims, smallest first, finds a volume of its own for the node.
fn bind_all(waiting: &[Waiting<'_>], node: NodeId) -> bool {
    let mut chosen: Vec<&Text> = Vec::new();
    waiting.iter().all(|claim| {
        let mut here = claim.volumes.iter().filter(|(_, nodes)| nodes.contains(node)).map(|(name, _)| *name);
        match here.find(|name| !chosen.contains(name)) {
            Some(name) => {
                chosen.push(name);
                true
            }
            None => claim.makes.contains(node),
        }
    })
}
