// SPDX-License-Identifier: Apache-2.0
//! Keeps pods off nodes where another listens on a port they want of the node.

use serde_json::Value;

use super::super::framework::{Allowed, Cycle, Plugin, Prepared};
use super::super::objects::HostPort;
use super::super::pods::Having;

pub(super) const NAME: &str = "NodePorts";

struct NodePorts;

pub(super) fn make(_: &Value) -> Result<Box<dyn Plugin>, String> {
    Ok(Box::new(NodePorts))
}

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        let wanted = &cycle.question.shape.ports;
        if wanted.is_empty() {
            return Prepared::Skip;
        }
        let clash = |ports: &[HostPort]| ports.iter().any(|port| wanted.iter().any(|wanted| wanted.clashes(port)));
        let mut left = cycle.nodes.known.clone();
        for stored in cycle.pods.having(Having::Ports).filter(|stored| clash(&stored.shape.ports)) {
            stored.on.keys().for_each(|node| left.remove(*node));
        }
        for (node, _) in cycle.extra.iter().filter(|(_, shape)| clash(&shape.ports)) {
            left.remove(*node);
        }
        Prepared::Filter(Box::new(Allowed {
            nodes: left,
            passed: "have its ports free",
            lack: "has its ports free",
            resolvable: true,
            room: 1,
        }))
    }
}
