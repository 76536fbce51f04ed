// SPDX-License-Identifier: Apache-2.0
//! Keeps pods on nodes that have left what they request.

use std::collections::BTreeMap;

use foldhash::HashMap;
use serde::Deserialize;
use serde_json::Value;

use super::super::amounts::{CPU, EPHEMERAL_STORAGE, MAIN, MAIN_NAMES, MEMORY, readable};
use super::super::framework::{Cycle, Filter, Plugin, Prepared, Score};
use super::super::label_selector::or_default;
use super::super::node_set::{Mask, NodeId, nodes_of, place};
use super::super::nodes::{COLUMNS, Nodes, PODS};
use super::super::objects::Amounts;
use crate::resources::ResourceName;

pub(super) const NAME: &str = "NodeResourcesFit";

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Args {
    #[serde(deserialize_with = "or_default")]
    ignored_resources: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    ignored_resource_groups: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    scoring_strategy: Strategy,
}

#[derive(Deserialize)]
#[serde(default)]
struct Strategy {
    #[serde(rename = "type")]
    kind: Kind,
    resources: Vec<Weighed>,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
enum Kind {
    #[default]
    LeastAllocated,
    MostAllocated,
    /// Its shape is not followed: scored like the least allocated.
    RequestedToCapacityRatio,
}

#[derive(Deserialize)]
struct Weighed {
    name: String,
    #[serde(default = "one")]
    weight: i64,
}

fn one() -> i64 {
    1
}

impl Default for Strategy {
    fn default() -> Self {
        let resources = ["cpu", "memory"].map(|name| Weighed { name: name.to_owned(), weight: 1 });
        Self { kind: Kind::default(), resources: resources.into() }
    }
}

struct NodeResourcesFit(Args);

pub(super) fn make(args: &Value) -> Result<Box<dyn Plugin>, String> {
    let args = Option::<Args>::deserialize(args).map_err(|error| error.to_string())?;
    Ok(Box::new(NodeResourcesFit(args.unwrap_or_default())))
}

impl NodeResourcesFit {
    /// Only resources that are not the cluster's own can be ignored.
    fn ignores(&self, name: &ResourceName) -> bool {
        let name = name.as_str();
        let Some((group, _)) = name.split_once('/') else { return false };
        let extended = !group.ends_with("kubernetes.io");
        extended
            && (self.0.ignored_resources.iter().any(|ignored| ignored == name)
                || self.0.ignored_resource_groups.iter().any(|ignored| ignored == group))
    }
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        let request = &cycle.question.shape.request;
        let scalars = request.scalars.iter().filter(|(name, amount)| *amount > 0 && !self.ignores(name));
        let scalars = scalars.map(|(name, amount)| (name, *amount)).collect();
        let mut taken: HashMap<NodeId, Taken> = HashMap::default();
        for (node, shape) in cycle.extra {
            taken.entry(*node).or_default().add(&shape.request);
        }
        Prepared::Filter(Box::new(Room { nodes: cycle.nodes, main: request.main, scalars, taken }))
    }

    fn pre_score<'c>(&'c self, cycle: &'c Cycle<'_>) -> Option<Box<dyn Score + 'c>> {
        let column = |weighed: &Weighed| {
            let column = MAIN_NAMES.iter().position(|name| name.as_str() == weighed.name)?;
            Some((column, weighed.weight))
        };
        let columns: Vec<_> = self.0.scoring_strategy.resources.iter().filter_map(column).collect();
        let most = self.0.scoring_strategy.kind == Kind::MostAllocated;
        (!columns.is_empty()).then(|| Box::new(Allocation { cycle, columns, most }) as Box<dyn Score>)
    }
}

/// What is requested, against what is left.
struct Room<'c> {
    nodes: &'c Nodes,
    main: [i64; MAIN],
    scalars: Vec<(&'c ResourceName, i64)>,
    /// What pods take that count as well.
    taken: HashMap<NodeId, Taken>,
}

/// What pods take of a node.
#[derive(Default)]
struct Taken {
    columns: [i64; COLUMNS],
    scalars: BTreeMap<ResourceName, i64>,
}

impl Taken {
    fn add(&mut self, request: &Amounts) {
        for (taken, amount) in self.columns.iter_mut().zip(request.main.into_iter().chain([1])) {
            *taken = taken.saturating_add(amount);
        }
        for (name, amount) in &request.scalars {
            let taken = self.scalars.entry(name.clone()).or_default();
            *taken = taken.saturating_add(*amount);
        }
    }
}

impl Room<'_> {
    /// The columns that are asked of: amounts of none are passed over, even on a node that has less than none left.
    fn wanted(&self) -> impl Iterator<Item = (usize, i64)> {
        let main = self.main.into_iter().enumerate().filter(|(_, amount)| *amount > 0);
        std::iter::once((PODS, 1)).chain(main)
    }

    fn free(&self, column: usize, node: NodeId) -> i64 {
        let taken = self.taken.get(&node).and_then(|taken| taken.columns.get(column)).copied().unwrap_or(0);
        self.nodes.free(column, node).saturating_sub(taken)
    }

    fn free_scalar(&self, name: &ResourceName, node: NodeId) -> i64 {
        let taken = self.taken.get(&node).and_then(|taken| taken.scalars.get(name)).copied().unwrap_or(0);
        self.nodes.scalar(name, node).free().saturating_sub(taken)
    }
}

impl Filter for Room<'_> {
    fn filter(&self, block: usize, candidates: u64) -> u64 {
        if self.wanted().any(|(column, amount)| self.nodes.most_in(column, block) < amount) {
            return 0;
        }
        let mut left = candidates;
        for (column, amount) in self.wanted() {
            let mut enough = 0;
            for (bit, free) in self.nodes.free_in(column, block).iter().enumerate() {
                enough |= u64::from(*free >= amount) << bit;
            }
            left &= enough;
        }
        for (name, amount) in &self.scalars {
            for node in nodes_of(block, left) {
                if self.free_scalar(name, node) < *amount {
                    left &= !place(node).1;
                }
            }
        }
        for node in self.taken.keys().filter(|node| place(**node).0 == block) {
            if self.wanted().any(|(column, amount)| self.free(column, *node) < amount) {
                left &= !place(*node).1;
            }
        }
        left
    }

    fn room(&self, node: NodeId) -> u64 {
        let times = |free: i64, amount: i64| u64::try_from(free / amount).unwrap_or(0);
        let main = self.wanted().map(|(column, amount)| times(self.free(column, node), amount));
        let scalars = self.scalars.iter().map(|(name, amount)| times(self.free_scalar(name, node), *amount));
        main.chain(scalars).min().unwrap_or(u64::MAX)
    }

    fn passed(&self) -> &'static str {
        "have room for it"
    }

    fn lack(&self, left: &Mask) -> String {
        let most = |free: &dyn Fn(NodeId) -> i64| left.iter().map(free).max().unwrap_or(0);
        let what = ["CPUs", "memory", "ephemeral storage"];
        for column in [CPU, MEMORY, EPHEMERAL_STORAGE] {
            let amount = self.main.get(column).copied().unwrap_or(0);
            let largest = most(&|node| self.free(column, node));
            if amount > 0 && largest < amount {
                let (amount, largest) = (readable(column, amount), readable(column, largest.max(0)));
                let what = what.get(column).copied().unwrap_or_default();
                return format!("has {amount} {what} free; largest free: {largest}");
            }
        }
        for (name, amount) in &self.scalars {
            let largest = most(&|node| self.free_scalar(name, node));
            if largest < *amount {
                return format!("has {amount} {} free; largest free: {}", name.as_str(), largest.max(0));
            }
        }
        if most(&|node| self.free(PODS, node)) < 1 {
            return "has a place for one more pod".to_owned();
        }
        "has room for all that it requests together".to_owned()
    }

    fn resolvable(&self, left: &Mask) -> bool {
        let could = |node| {
            self.wanted().all(|(column, amount)| self.nodes.allocatable(column, node) >= amount)
                && self.scalars.iter().all(|(name, amount)| self.nodes.scalar(name, node).allocatable() >= *amount)
        };
        left.iter().any(could)
    }
}

/// How much of a node would be left (or taken, if that is better), in percent.
struct Allocation<'c> {
    cycle: &'c Cycle<'c>,
    columns: Vec<(usize, i64)>,
    most: bool,
}

impl Score for Allocation<'_> {
    fn score(&self, node: NodeId) -> i64 {
        let nodes = self.cycle.nodes;
        let (mut sum, mut weights) = (0, 0);
        for (column, weight) in &self.columns {
            let whole = nodes.allocatable(*column, node);
            let wanted = self.cycle.question.shape.request.main.get(*column).copied().unwrap_or(0);
            let left = nodes.free(*column, node).saturating_sub(wanted).clamp(0, whole.max(0));
            if whole > 0 {
                let percent = i128::from(if self.most { whole - left } else { left }) * 100 / i128::from(whole);
                sum += i64::try_from(percent).unwrap_or(0) * weight;
                weights += weight;
            }
        }
        if weights > 0 { sum / weights } else { 0 }
    }

    fn normalized(&self) -> bool {
        false
    }
}
