// SPDX-License-Identifier: Apache-2.0
//! Keeps a pod that names its node off all others.

use serde_json::Value;

use super::super::framework::{Allowed, Cycle, Plugin, Prepared};
use super::super::node_set::Mask;

pub(super) const NAME: &str = "NodeName";

struct NodeName;

pub(super) fn make(_: &Value) -> Result<Box<dyn Plugin>, String> {
    Ok(Box::new(NodeName))
}

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        let Some(name) = &cycle.question.node_name else { return Prepared::Skip };
        let mut only = Mask::empty(cycle.nodes.blocks());
        cycle.nodes.id(name).into_iter().for_each(|node| only.insert(node));
        Allowed::only(only, "are named by it", "is named by it")
    }
}
