// SPDX-License-Identifier: Apache-2.0
//! What a plugin is, and the phases of a decision: `PreFilter`, `Filter`, `Score`. `Reserve` is the record of a pod in the columns.

use std::cell::OnceCell;
use std::sync::Arc;

use super::assumed::Assumed;
use super::cluster::Cluster;
use super::label_selector::PodTerm;
use super::namespaces::Namespaces;
use super::node_set::{Mask, NodeId};
use super::nodes::Nodes;
use super::objects::Shape;
use super::pods::Pods;
use super::question::Question;
use super::storage::Storage;
use super::text::Text;

/// One rule of the scheduler.
pub(super) trait Plugin: Send + Sync {
    /// Its name upstream.
    fn name(&self) -> &'static str;

    /// `PreFilter`: looks at the cluster once, before single nodes are looked at.
    fn pre_filter<'c>(&'c self, _: &'c Cycle<'_>) -> Prepared<'c> {
        Prepared::Skip
    }

    /// `PreScore`: `None` when all nodes are as good.
    fn pre_score<'c>(&'c self, _: &'c Cycle<'_>) -> Option<Box<dyn Score + 'c>> {
        None
    }
}

/// What `PreFilter` found.
pub(super) enum Prepared<'c> {
    /// The plugin has nothing to say about this pod.
    Skip,
    /// The pod fits nowhere.
    Refused {
        /// Whether pods that go away could change that.
        resolvable: bool,
        /// Why.
        why: String,
    },
    /// Nodes have to be looked at.
    Filter(Box<dyn Filter + 'c>),
}

/// Filter: which nodes the pod fits on.
pub(super) trait Filter {
    /// Those of the `candidates` of a block that it fits on, bit by bit.
    fn filter(&self, block: usize, candidates: u64) -> u64;

    /// How many such pods fit on a node that it fits on, as far as pods on other nodes do not matter.
    fn room(&self, _: NodeId) -> u64 {
        u64::MAX
    }

    /// What the nodes do that pass, after `3 of 5 nodes`.
    fn passed(&self) -> &'static str;

    /// What none of the nodes `left` does, after `none`.
    fn lack(&self, left: &Mask) -> String;

    /// Whether pods that go away could make one of these nodes pass, none of which does.
    fn resolvable(&self, left: &Mask) -> bool;
}

/// Score: how good a node is.
pub(super) trait Score {
    /// The raw score of a node; more is better, unless [`Score::reversed`].
    fn score(&self, node: NodeId) -> i64;

    /// Whether scores are to be spread over 0 to 100 by the largest one; otherwise they are 0 to 100 already.
    fn normalized(&self) -> bool {
        true
    }

    /// Whether less is better.
    fn reversed(&self) -> bool {
        false
    }
}

/// A filter by a set of nodes that is reckoned before.
pub(super) struct Allowed {
    pub(super) nodes: Mask,
    pub(super) passed: &'static str,
    pub(super) lack: &'static str,
    pub(super) resolvable: bool,
    /// How many such pods fit on a node.
    pub(super) room: u64,
}

impl<'c> Allowed {
    /// A filter that pods which go away do not change.
    pub(super) fn only(nodes: Mask, passed: &'static str, lack: &'static str) -> Prepared<'c> {
        Prepared::Filter(Box::new(Self { nodes, passed, lack, resolvable: false, room: u64::MAX }))
    }
}

impl Filter for Allowed {
    fn filter(&self, block: usize, candidates: u64) -> u64 {
        candidates & self.nodes.bits(block)
    }

    fn room(&self, _: NodeId) -> u64 {
        self.room
    }

    fn passed(&self) -> &'static str {
        self.passed
    }

    fn lack(&self, _: &Mask) -> String {
        self.lack.to_owned()
    }

    fn resolvable(&self, _: &Mask) -> bool {
        self.resolvable
    }
}

/// One pod looking at one cluster.
pub(super) struct Cycle<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) pods: &'a Pods,
    pub(super) namespaces: &'a Namespaces,
    pub(super) storage: &'a Storage,
    pub(super) assumed: &'a Assumed,
    pub(super) question: &'a Question,
    /// Pods that count as well: those for which room was made, or replicas of the pod itself.
    pub(super) extra: &'a [(NodeId, Arc<Shape>)],
    selected: OnceCell<Mask>,
    tolerated: OnceCell<Mask>,
}

impl<'a> Cycle<'a> {
    pub(super) fn new(cluster: &'a Cluster, question: &'a Question, extra: &'a [(NodeId, Arc<Shape>)]) -> Self {
        let Cluster { nodes, pods, namespaces, storage, assumed, .. } = cluster;
        let (selected, tolerated) = (OnceCell::new(), OnceCell::new());
        Self { nodes, pods, namespaces, storage, assumed, question, extra, selected, tolerated }
    }

    /// The nodes that the pod's node selector and required node affinity select.
    pub(super) fn selected(&self) -> &Mask {
        self.selected.get_or_init(|| self.question.selector.select(self.nodes))
    }

    /// The nodes all of whose taints that keep pods away are tolerated.
    pub(super) fn tolerated(&self) -> &Mask {
        self.tolerated.get_or_init(|| {
            let mut left = self.nodes.known.clone();
            for (taints, nodes) in &self.nodes.tainted {
                let mut hard = taints.iter().filter(|taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute"));
                if hard.any(|taint| !self.question.tolerations.iter().any(|toleration| toleration.tolerates(taint))) {
                    left.take_out(nodes);
                }
            }
            left
        })
    }

    /// Whether the term matches pods of this shape.
    pub(super) fn matches(&self, term: &PodTerm, shape: &Shape) -> bool {
        term.matches(&shape.namespace, self.namespaces.labels(&shape.namespace), &shape.labels)
    }

    /// The nodes with a pod that `matches`; `namespaces` says which can, `None`: any.
    pub(super) fn nodes_with(&self, namespaces: Option<&[Text]>, matches: impl Fn(&Shape) -> bool) -> Mask {
        let mut found = Mask::empty(self.nodes.blocks());
        let mut add = |stored: &super::pods::Stored| {
            if matches(&stored.shape) {
                stored.on.keys().for_each(|node| found.insert(*node));
            }
        };
        match namespaces {
            None => self.pods.shapes().for_each(&mut add),
            Some(names) => names.iter().flat_map(|name| self.pods.of_namespace(name)).for_each(&mut add),
        }
        let extra = self.extra.iter().filter(|(_, shape)| matches(shape));
        extra.for_each(|(node, _)| found.insert(*node));
        found.keep(&self.nodes.known);
        found
    }

    /// The nodes that have all of these labels.
    pub(super) fn labelled<'k>(&self, keys: impl IntoIterator<Item = &'k Text>) -> Mask {
        let mut left = self.nodes.known.clone();
        for key in keys {
            let mut having = Mask::empty(left.blocks());
            if let Some(key) = self.nodes.labels.key(key) {
                having.add(&key.all);
            }
            left.keep(&having);
        }
        left
    }

    /// The nodes of the domains of the topology `key` that one of these nodes is in.
    pub(super) fn domains_of(&self, key: &str, nodes: &Mask) -> Mask {
        let mut found = Mask::empty(self.nodes.blocks());
        if let Some(key) = self.nodes.labels.key(key) {
            for node in nodes.iter() {
                if !found.contains(node) {
                    key.around(node).into_iter().for_each(|domain| found.add(domain));
                }
            }
        }
        found
    }
}
