// SPDX-License-Identifier: Apache-2.0
//! Keeps pods off nodes that are cordoned, unless they tolerate it.

use serde_json::Value;

use super::super::framework::{Allowed, Cycle, Plugin, Prepared};
use super::super::objects::Taint;
use crate::names;

pub(super) const NAME: &str = "NodeUnschedulable";

struct NodeUnschedulable;

pub(super) fn make(_: &Value) -> Result<Box<dyn Plugin>, String> {
    Ok(Box::new(NodeUnschedulable))
}

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        // Upstream asks for the taint that a controller puts on such nodes, whether it is there or not.
        let taint = Taint { key: names::NODE_UNSCHEDULABLE.into(), value: "".into(), effect: "NoSchedule".into() };
        let tolerated = cycle.question.tolerations.iter().any(|toleration| toleration.tolerates(&taint));
        if tolerated || cycle.nodes.unschedulable.is_empty() {
            return Prepared::Skip;
        }
        let mut left = cycle.nodes.known.clone();
        left.take_out(&cycle.nodes.unschedulable);
        Allowed::only(left, "are not cordoned", "is not cordoned")
    }
}
