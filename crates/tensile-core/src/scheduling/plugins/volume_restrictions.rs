// SPDX-License-Identifier: Apache-2.0
//! Keeps pods away from disks and claims that others have to themselves.

use serde_json::Value;

use super::super::framework::{Allowed, Cycle, Plugin, Prepared};
use super::super::objects::{AccessMode, Disk};
use super::super::pods::Having;

pub(super) const NAME: &str = "VolumeRestrictions";

struct VolumeRestrictions;

pub(super) fn make(_: &Value) -> Result<Box<dyn Plugin>, String> {
    Ok(Box::new(VolumeRestrictions))
}

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        let shape = &cycle.question.shape;
        for claim in &shape.claims {
            let alone = cycle
                .storage
                .claim(&shape.namespace, claim)
                .is_some_and(|claim| claim.access.contains(&AccessMode::ReadWriteOncePod));
            let own = std::slice::from_ref(&shape.namespace);
            if alone && cycle.nodes_with(Some(own), |other| other.claims.contains(claim)).count() > 0 {
                let why = format!("claim {claim} is for one pod, and another has it");
                return Prepared::Refused { resolvable: true, why };
            }
        }
        if shape.disks.is_empty() {
            return Prepared::Skip;
        }
        let clash = |disks: &[Disk]| disks.iter().any(|disk| shape.disks.iter().any(|wanted| wanted.clashes(disk)));
        let mut left = cycle.nodes.known.clone();
        for stored in cycle.pods.having(Having::Disks).filter(|stored| clash(&stored.shape.disks)) {
            stored.on.keys().for_each(|node| left.remove(*node));
        }
        for (node, _) in cycle.extra.iter().filter(|(_, shape)| clash(&shape.disks)) {
            left.remove(*node);
        }
        Prepared::Filter(Box::new(Allowed {
            nodes: left,
            passed: "have its disks to themselves",
            lack: "has its disks to itself",
            resolvable: true,
            room: if clash(&shape.disks) { 1 } else { u64::MAX },
        }))
    }
}
