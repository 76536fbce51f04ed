// SPDX-License-Identifier: Apache-2.0
//! Keeps pods off nodes with taints they do not tolerate, and prefers nodes without.

use serde_json::Value;

use super::super::framework::{Allowed, Cycle, Plugin, Prepared, Score};
use super::super::node_set::NodeId;

pub(super) const NAME: &str = "TaintToleration";

struct TaintToleration;

pub(super) fn make(_: &Value) -> Result<Box<dyn Plugin>, String> {
    Ok(Box::new(TaintToleration))
}

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        if cycle.nodes.tainted.is_empty() {
            return Prepared::Skip;
        }
        let lack = "has only taints that it tolerates";
        Allowed::only(cycle.tolerated().clone(), "have only taints that it tolerates", lack)
    }

    fn pre_score<'c>(&'c self, cycle: &'c Cycle<'_>) -> Option<Box<dyn Score + 'c>> {
        (!cycle.nodes.tainted.is_empty()).then(|| Box::new(Intolerable(cycle)) as Box<dyn Score>)
    }
}

/// How many soft taints of a node are not tolerated.
struct Intolerable<'c>(&'c Cycle<'c>);

impl Score for Intolerable<'_> {
    fn score(&self, node: NodeId) -> i64 {
        let Self(cycle) = self;
        let soft = cycle.nodes.taints(node).iter().filter(|taint| &*taint.effect == "PreferNoSchedule");
        let hated =
            soft.filter(|taint| !cycle.question.tolerations.iter().any(|toleration| toleration.tolerates(taint)));
        i64::try_from(hated.count()).unwrap_or(i64::MAX)
    }

    fn reversed(&self) -> bool {
        true
    }
}
