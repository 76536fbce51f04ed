// SPDX-License-Identifier: Apache-2.0
//! Keeps pods off nodes that cannot mount that many volumes of a driver.
//!
//! Volumes that are attached without a pod that uses them (`VolumeAttachment`) are not counted.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashSet};
use serde_json::Value;

use super::super::framework::{Allowed, Cycle, Plugin, Prepared};
use super::super::objects::{Claim, Shape};
use super::super::pods::Having;
use super::super::text::Text;

pub(super) const NAME: &str = "NodeVolumeLimits";

struct NodeVolumeLimits;

pub(super) fn make(_: &Value) -> Result<Box<dyn Plugin>, String> {
    Ok(Box::new(NodeVolumeLimits))
}

/// A volume of a driver: its handle, or the claim it is made for.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Mounted {
    Volume(Text),
    Claim(Text, Text),
}

/// The volumes that pods of this shape mount, by driver.
fn mounted(cycle: &Cycle<'_>, shape: &Shape) -> Vec<(Text, Mounted)> {
    let of = |claim: &Claim| {
        if let Some(name) = &claim.volume {
            let handle = cycle.storage.volumes.get(name)?.handle.as_ref()?;
            return Some((handle.driver.clone(), Mounted::Volume(handle.handle.clone())));
        }
        let class = cycle.storage.class(claim)?;
        Some((class.provisioner.clone(), Mounted::Claim(claim.namespace.clone(), claim.name.clone())))
    };
    shape.claims.iter().filter_map(|name| cycle.storage.claim(&shape.namespace, name)).filter_map(of).collect()
}

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        let wanted = mounted(cycle, &cycle.question.shape);
        let limited = |driver: &Text| cycle.storage.limits.values().any(|node| node.limits.contains_key(driver));
        if !wanted.iter().any(|(driver, _)| limited(driver)) {
            return Prepared::Skip;
        }
        let mut there: HashMap<u32, HashSet<(Text, Mounted)>> = HashMap::default();
        let stored = cycle
            .pods
            .having(Having::Claims)
            .map(|stored| (&stored.shape, stored.on.keys().copied().collect::<Vec<_>>()));
        let extra = cycle.extra.iter().map(|(node, shape)| (shape, vec![*node]));
        for (shape, nodes) in stored.chain(extra) {
            let volumes = mounted(cycle, shape);
            for node in nodes {
                there.entry(node).or_default().extend(volumes.iter().cloned());
            }
        }
        let mut left = cycle.nodes.known.clone();
        let nothing = HashSet::default();
        for (name, limits) in cycle.storage.limits.iter().map(|(name, node)| (name, &node.limits)) {
            let Some(node) = cycle.nodes.id(name) else { continue };
            let there = there.get(&node).unwrap_or(&nothing);
            let mut new: BTreeMap<&Text, u32> = BTreeMap::new();
            for volume in wanted.iter().filter(|volume| !there.contains(volume)) {
                *new.entry(&volume.0).or_default() += 1;
            }
            let over = |(driver, new): (&&Text, &u32)| {
                let there = there.iter().filter(|(of, _)| of == *driver).count();
                limits.get(*driver).is_some_and(|limit| there + *new as usize > *limit as usize)
            };
            if new.iter().any(over) {
                left.remove(node);
            }
        }
        Prepared::Filter(Box::new(Allowed {
            nodes: left,
            passed: "can mount its volumes besides those they have",
            lack: "can mount its volumes besides those it has",
            resolvable: true,
            room: u64::MAX,
        }))
    }
}
