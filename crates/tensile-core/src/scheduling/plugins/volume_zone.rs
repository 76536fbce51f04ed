// SPDX-License-Identifier: Apache-2.0
//! Keeps pods in the zones and regions their volumes are in.

use serde_json::Value;

use super::super::framework::{Allowed, Cycle, Plugin, Prepared};
use super::super::node_set::Mask;

pub(super) const NAME: &str = "VolumeZone";

/// Labels of nodes and volumes that say where they are, each with the one that came after it.
const TOPOLOGIES: [(&str, &str); 4] = [
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
];

struct VolumeZone;

pub(super) fn make(_: &Value) -> Result<Box<dyn Plugin>, String> {
    Ok(Box::new(VolumeZone))
}

impl Plugin for VolumeZone {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        let shape = &cycle.question.shape;
        let claims = shape.claims.iter().filter_map(|name| cycle.storage.claim(&shape.namespace, name));
        let volumes = claims.filter_map(|claim| cycle.storage.bound(claim));
        let wanted: Vec<_> = volumes
            .flat_map(|volume| TOPOLOGIES.iter().map(move |topology| (topology, volume.labels.get(topology.0))))
            .filter_map(|((key, now), values)| Some((*key, *now, values?)))
            .collect();
        if wanted.is_empty() {
            return Prepared::Skip;
        }
        let mut left = cycle.nodes.known.clone();
        for (key, now, values) in wanted {
            let mut right = Mask::empty(left.blocks());
            for value in values.split("__") {
                // A node without the older label is judged by the newer one.
                cycle.nodes.labels.value(now, value).into_iter().for_each(|nodes| right.add(nodes));
                if let Some(labelled) = cycle.nodes.labels.key(key).filter(|_| key != now) {
                    right.take_out(&labelled.all);
                }
            }
            for value in values.split("__").filter(|_| key != now) {
                cycle.nodes.labels.value(key, value).into_iter().for_each(|nodes| right.add(nodes));
            }
            left.keep(&right);
        }
        // Nodes that say nothing about where they are: a cluster of one zone.
        let mut silent = cycle.nodes.known.clone();
        for (key, _) in TOPOLOGIES {
            cycle.nodes.labels.key(key).into_iter().for_each(|key| silent.take_out(&key.all));
        }
        left.join(&silent);
        Allowed::only(left, "are in the zones of its volumes", "is in the zones of its volumes")
    }
}
