// SPDX-License-Identifier: Apache-2.0
//! Prefers nodes on which CPU and memory would be used in the same proportion.

use serde_json::Value;

use super::super::amounts::{CPU, MEMORY};
use super::super::framework::{Cycle, Plugin, Score};
use super::super::node_set::NodeId;

pub(super) const NAME: &str = "NodeResourcesBalancedAllocation";

struct NodeResourcesBalancedAllocation;

pub(super) fn make(_: &Value) -> Result<Box<dyn Plugin>, String> {
    Ok(Box::new(NodeResourcesBalancedAllocation))
}

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_score<'c>(&'c self, cycle: &'c Cycle<'_>) -> Option<Box<dyn Score + 'c>> {
        Some(Box::new(Balance(cycle)))
    }
}

pub(in super::super) struct Balance<'c>(pub(in super::super) &'c Cycle<'c>);

impl Balance<'_> {
    /// Thousandths of the column that would be used.
    fn used(&self, column: usize, node: NodeId) -> i64 {
        let Self(cycle) = self;
        let whole = cycle.nodes.allocatable(column, node);
        let wanted = cycle.question.shape.request.main.get(column).copied().unwrap_or(0);
        let left = cycle.nodes.free(column, node).saturating_sub(wanted).clamp(0, whole.max(0));
        let used = if whole > 0 { i128::from(whole - left) * 1000 / i128::from(whole) } else { 1000 };
        i64::try_from(used).unwrap_or(1000)
    }
}

impl Score for Balance<'_> {
    fn score(&self, node: NodeId) -> i64 {
        // Of two fractions, the standard deviation is half their distance.
        100 - (self.used(CPU, node) - self.used(MEMORY, node)).abs() / 20
    }

    fn normalized(&self) -> bool {
        false
    }
}
