// SPDX-License-Identifier: Apache-2.0
//! Rebalance: whose pods may move off virtual nodes that are too full, or nearly empty, in the way of the field's
//! descheduler: by what pods ask for, not by what they use.
//!
//! Everything is weighed anew for each plan. Pods that are leaving count nowhere, so that what is under way is not done
//! twice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::plan::World;
use super::{Plugin, Pod, Policy, Strategy, VirtualNode};
use crate::resources::{ResourceName, ResourceVector};

/// Whole percents of what a node offers.
pub type Levels = BTreeMap<ResourceName, u32>;

/// Shares are counted in thousandths of a percent.
const PERCENT: i128 = 1_000;
const WHOLE: i128 = 100 * PERCENT;
/// One pod of one thing, in thousandths.
const ONE_POD: i128 = 1_000;

/// A node, and what its pods ask for.
#[derive(Debug)]
struct Load<'a> {
    name: &'a str,
    node: &'a VirtualNode,
    used: ResourceVector,
    pods: VecDeque<&'a Pod>,
}

/// What there is to move: one pod after another, until it is enough.
#[derive(Debug)]
pub(super) struct Scales<'a> {
    /// Nodes that pods move off, the next one first.
    sources: VecDeque<Load<'a>>,
    /// Nodes that have room for them.
    targets: Vec<(&'a str, &'a VirtualNode)>,
    /// What is left of that room.
    room: ResourceVector,
    /// A source is done with when it is at or below all of these; without any, when it is empty.
    enough: BTreeMap<ResourceName, i128>,
}

impl<'a> Scales<'a> {
    /// Weighs the nodes. `None`: there is nothing to do.
    pub(super) fn weigh(
        world: &World<'a>,
        policy: &Policy,
        strategy: &Strategy,
        movable: impl Fn(&Pod) -> bool,
    ) -> Option<Self> {
        let loads = loads(world, policy, |pod| strategy.namespaces.has(&pod.namespace) && movable(pod));
        match &strategy.plugin {
            Plugin::LowNodeUtilization { low, high, deviation, nodes } => {
                let [low, high] = if *deviation { around(&loads, low, high) } else { [of(low), of(high)] };
                let is_full = |load: &Load<'_>| high.iter().any(|(name, level)| load.share(name) > *level);
                let is_empty = |load: &Load<'_>| !load.node.cordoned && load.is_below(&low);
                let (full, others): (Vec<_>, Vec<_>) = loads.into_iter().partition(is_full);
                let empty: Vec<_> = others.into_iter().filter(is_empty).collect();
                let room = |name: &ResourceName, level: i128| {
                    let room = empty.iter().map(|load| load.offers(name) * level / WHOLE - load.uses(name));
                    (name.clone(), room.sum::<i128>())
                };
                let room = high.iter().map(|(name, level)| room(name, *level)).collect();
                Self::new(full, &empty, *nodes, room, high)
            }
            Plugin::HighNodeUtilization { low, nodes } => {
                let low = of(low);
                let (mut empty, others): (Vec<_>, Vec<_>) = loads.into_iter().partition(|load| load.is_below(&low));
                let targets: Vec<_> = others.into_iter().filter(|load| !load.node.cordoned).collect();
                if empty.len() <= *nodes {
                    return None;
                }
                empty.reverse();
                let mut room = ResourceVector::new();
                for target in &targets {
                    room.add_all(&target.node.allocatable.less(&target.used));
                }
                Self::new(empty, &targets, 0, room, BTreeMap::new())
            }
            _ => None,
        }
    }

    fn new(
        mut sources: Vec<Load<'a>>,
        targets: &[Load<'a>],
        nodes: usize,
        room: ResourceVector,
        enough: BTreeMap<ResourceName, i128>,
    ) -> Option<Self> {
        if targets.len() <= nodes {
            return None;
        }
        sources.retain(|load| !load.pods.is_empty());
        let targets = targets.iter().map(|load| (load.name, load.node)).collect();
        Some(Self { sources: sources.into(), targets, room, enough })
    }

    /// The next pod that may move, and the node that it moves off. It is not asked about again.
    pub(super) fn next(&mut self) -> Option<(&'a Pod, &'a str)> {
        loop {
            let source = self.sources.front_mut()?;
            let is_done =
                !self.enough.is_empty() && self.enough.iter().all(|(name, level)| source.share(name) <= *level);
            if is_done {
                self.sources.pop_front();
                continue;
            }
            let Some(pod) = source.pods.pop_front() else {
                self.sources.pop_front();
                continue;
            };
            let asked = asked(pod);
            let fits = asked.iter().all(|(name, asked)| self.room.get(name).is_none_or(|room| asked <= room));
            let helps = |(name, level): (&ResourceName, &i128)| {
                source.share(name) > *level && asked.get(name).is_some_and(|asked| asked > 0)
            };
            let helps = self.enough.is_empty() || self.enough.iter().any(helps);
            let source = source.name;
            if fits
                && helps
                && self.targets.iter().any(|(name, node)| *name != source && pod.may_go_to(name, node, false))
            {
                return Some((pod, source));
            }
        }
    }

    /// That pod moves.
    pub(super) fn moves(&mut self, pod: &Pod) {
        let asked = asked(pod);
        self.room = self.room.less(&asked);
        if let Some(source) = self.sources.front_mut() {
            source.used = source.used.less(&asked);
        }
    }
}

impl Load<'_> {
    fn offers(&self, name: &ResourceName) -> i128 {
        self.node.allocatable.get(name).unwrap_or_default()
    }

    fn uses(&self, name: &ResourceName) -> i128 {
        self.used.get(name).unwrap_or_default()
    }

    /// How much of what it offers is asked for. What it does not offer is not.
    fn share(&self, name: &ResourceName) -> i128 {
        self.uses(name).saturating_mul(WHOLE).checked_div(self.offers(name)).unwrap_or_default()
    }

    fn is_below(&self, levels: &BTreeMap<ResourceName, i128>) -> bool {
        levels.iter().all(|(name, level)| self.share(name) < *level)
    }

    fn fullness(&self) -> i128 {
        [ResourceName::CPU, ResourceName::MEMORY, ResourceName::PODS].iter().map(|name| self.share(name)).sum()
    }
}

/// The nodes that are ready and selected, the fullest first, each with the pods on it that may move, the least important
/// first.
fn loads<'a>(world: &World<'a>, policy: &Policy, movable: impl Fn(&Pod) -> bool) -> Vec<Load<'a>> {
    let nodes = world.nodes.iter().filter(|(_, node)| node.not_ready_since.is_none() && policy.selects(node));
    let load = |(name, node): (&'a Arc<str>, &'a VirtualNode)| {
        (&**name, Load { name, node, used: ResourceVector::new(), pods: VecDeque::new() })
    };
    let mut loads: BTreeMap<&str, Load<'a>> = nodes.map(load).collect();
    for pod in world.pods.values().filter(|pod| !pod.finished() && !world.is_leaving(pod)) {
        let Some(load) = pod.node.as_deref().and_then(|node| loads.get_mut(node)) else { continue };
        load.used.add_all(&asked(pod));
        if movable(pod) {
            load.pods.push_back(pod);
        }
    }
    let mut loads: Vec<Load<'a>> = loads.into_values().collect();
    loads.sort_by_key(|load| std::cmp::Reverse(load.fullness()));
    for load in &mut loads {
        load.pods.make_contiguous().sort_by_key(|pod| pod.priority);
    }
    loads
}

/// What the pod takes of a node.
fn asked(pod: &Pod) -> ResourceVector {
    let mut asked = (*pod.requests).clone();
    asked.add(ResourceName::PODS, ONE_POD);
    asked
}

fn of(levels: &Levels) -> BTreeMap<ResourceName, i128> {
    levels.iter().map(|(name, level)| (name.clone(), i128::from(*level) * PERCENT)).collect()
}

/// The levels at these distances from the mean.
fn around(loads: &[Load<'_>], low: &Levels, high: &Levels) -> [BTreeMap<ResourceName, i128>; 2] {
    let count = i128::try_from(loads.len().max(1)).unwrap_or(i128::MAX);
    let mean = |name: &ResourceName| loads.iter().map(|load| load.share(name)).sum::<i128>() / count;
    let low = of(low).into_iter().map(|(name, level)| (name.clone(), (mean(&name) - level).max(0)));
    let high = of(high).into_iter().map(|(name, level)| (name.clone(), (mean(&name) + level).min(WHOLE)));
    [low.collect(), high.collect()]
}
