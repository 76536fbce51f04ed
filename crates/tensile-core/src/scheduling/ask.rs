// SPDX-License-Identifier: Apache-2.0
//! The decision: plugin after plugin, 64 nodes at a time, until one node is left that all agree on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answer::{Answer, Reason};
use super::cluster::Cluster;
use super::framework::{Cycle, Filter, Prepared};
use super::node_set::{Mask, NodeId, nodes_of, place};
use super::objects::Shape;
use super::plugins;
use super::profile::Profile;
use super::question::Question;

/// Whether the pod finds a node.
pub(super) fn ask(cluster: &Cluster, question: &Question) -> Answer {
    match find(cluster, question, |_| ()) {
        Ok((node, ())) => Answer::Fits { node: cluster.nodes.name(node) },
        Err(refused) => refused,
    }
}

/// The first node that the pod finds, and what else `then` wants to know of the search.
///
/// # Errors
/// The answer, when it finds none.
pub(super) fn find<T>(
    cluster: &Cluster,
    question: &Question,
    then: impl FnOnce(&Search<'_>) -> T,
) -> Result<(NodeId, T), Answer> {
    let cycle = Cycle::new(cluster, question, &[]);
    let search = Search::new(cluster, &cycle)?;
    let node = search.first().ok_or_else(|| search.why())?;
    Ok((node, then(&search)))
}

/// A filter that has something to say, and whose it is.
type Named<'c> = (&'static str, Box<dyn Filter + 'c>);

/// The first phase of all plugins.
fn pre_filter<'c>(profile: &'c Profile, cycle: &'c Cycle<'_>) -> Result<Vec<Named<'c>>, Answer> {
    let mut filters = Vec::new();
    for enabled in profile.plugins.iter().filter(|enabled| enabled.filters) {
        let name = enabled.plugin.name();
        match enabled.plugin.pre_filter(cycle) {
            Prepared::Skip => {}
            Prepared::Filter(filter) => filters.push((name, filter)),
            Prepared::Refused { resolvable, why } => {
                return Err(Answer::refused(resolvable, name, Reason::Everywhere(why)));
            }
        }
    }
    Ok(filters)
}

/// A pod in search of a node.
pub(super) struct Search<'c> {
    cluster: &'c Cluster,
    cycle: &'c Cycle<'c>,
    filters: Vec<Named<'c>>,
    /// Pods for which room was made, that this one may not take: a node has to do with and without them.
    nominated: BTreeMap<NodeId, Vec<(NodeId, Arc<Shape>)>>,
}

impl<'c> Search<'c> {
    /// Looks at the cluster.
    ///
    /// # Errors
    /// The answer, when the pod fits nowhere for a reason that is the same for all nodes.
    pub(super) fn new(cluster: &'c Cluster, cycle: &'c Cycle<'c>) -> Result<Self, Answer> {
        let filters = pre_filter(&cluster.profile, cycle)?;
        let mut nominated = BTreeMap::<_, Vec<_>>::new();
        for pod in cluster.pods.nominated(cycle.question.priority) {
            if let Some(stored) = cluster.pods.stored(pod.shape) {
                nominated.entry(pod.node).or_default().push((pod.node, Arc::clone(&stored.shape)));
            }
        }
        Ok(Self { cluster, cycle, filters, nominated })
    }

    /// The nodes of a block that all plugins agree on.
    fn block(&self, block: usize) -> u64 {
        let mut left = self.cluster.nodes.known.bits(block);
        for (_, filter) in &self.filters {
            if left == 0 {
                return 0;
            }
            left = filter.filter(block, left);
        }
        if !self.nominated.is_empty() {
            for node in nodes_of(block, left) {
                if self.nominated.get(&node).is_some_and(|pods| !self.fits_with(node, pods)) {
                    left &= !place(node).1;
                }
            }
        }
        left
    }

    fn fits_with(&self, node: NodeId, pods: &[(NodeId, Arc<Shape>)]) -> bool {
        let extra: Vec<_> = self.cycle.extra.iter().chain(pods).cloned().collect();
        let cycle = Cycle::new(self.cluster, self.cycle.question, &extra);
        let (block, bit) = place(node);
        pre_filter(&self.cluster.profile, &cycle)
            .is_ok_and(|filters| filters.iter().all(|(_, filter)| filter.filter(block, bit) != 0))
    }

    /// The first node that fits.
    pub(super) fn first(&self) -> Option<NodeId> {
        (0..self.cluster.nodes.blocks()).find_map(|block| nodes_of(block, self.block(block)).next())
    }

    /// Whether this node fits.
    pub(super) fn fits_on(&self, node: NodeId) -> bool {
        let (block, bit) = place(node);
        self.block(block) & bit != 0
    }

    /// All nodes that fit.
    pub(super) fn all(&self) -> Mask {
        let mut fit = Mask::empty(self.cluster.nodes.blocks());
        (0..fit.blocks()).for_each(|block| fit.set_bits(block, self.block(block)));
        fit
    }

    /// How many such pods fit, up to `most`, as far as they do not matter to one another.
    pub(super) fn count(&self, most: u64) -> u64 {
        let most = most.min(plugins::quota_room(self.cycle));
        let mut room = 0_u64;
        for block in 0..self.cluster.nodes.blocks() {
            for node in nodes_of(block, self.block(block)) {
                room = room.saturating_add(self.room(node));
                if room >= most {
                    return most;
                }
            }
        }
        room
    }

    /// How many such pods fit on a node that fits.
    fn room(&self, node: NodeId) -> u64 {
        self.filters.iter().map(|(_, filter)| filter.room(node)).min().unwrap_or(u64::MAX)
    }

    /// Why the pod fits nowhere.
    fn why(&self) -> Answer {
        let nodes = self.cluster.nodes.len();
        let mut left = self.cluster.nodes.known.clone();
        let (mut steps, mut resolvable) = (Vec::new(), false);
        for (name, filter) in &self.filters {
            let (mut passed, mut refused) = (left.clone(), left.clone());
            for block in 0..left.blocks() {
                let bits = filter.filter(block, left.bits(block));
                passed.set_bits(block, bits);
                refused.set_bits(block, left.bits(block) & !bits);
            }
            resolvable |= refused.count() > 0 && filter.resolvable(&refused);
            let count = passed.count();
            if count == 0 {
                let reason = Reason::Fewer { nodes, steps, lack: filter.lack(&left) };
                return Answer::refused(resolvable, name, reason);
            }
            if count < left.count() {
                steps.push((count, filter.passed()));
            }
            left = passed;
        }
        // All plugins agree on some nodes; what is left there was made room for others.
        let lack = "has room that is not meant for pods that wait already".to_owned();
        Answer::refused(true, "Nominated", Reason::Fewer { nodes, steps, lack })
    }
}
