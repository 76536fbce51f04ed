// SPDX-License-Identifier: Apache-2.0
//! The pods of a cluster: a small record each, and what pods of one shape have in common.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::change::Gain;
use super::node_set::NodeId;
use super::nodes::Nodes;
use super::objects::{Pod, Shape};
use super::text::{Text, Texts};
use super::uid::Uid;

/// Number of a shape within its cluster.
pub(super) type ShapeId = u32;

/// No node, or no shape.
const NONE: u32 = u32::MAX;

/// What shapes are looked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Having {
    /// Ports of their node.
    Ports,
    /// Claims.
    Claims,
    /// Disks without a claim.
    Disks,
}

impl Having {
    const ALL: [Self; 3] = [Self::Ports, Self::Claims, Self::Disks];

    fn has(self, shape: &Shape) -> bool {
        match self {
            Self::Ports => !shape.ports.is_empty(),
            Self::Claims => !shape.claims.is_empty(),
            Self::Disks => !shape.disks.is_empty(),
        }
    }
}

/// The pods.
#[derive(Debug, Default)]
pub(super) struct Pods {
    records: HashMap<Uid, Record>,
    /// UIDs of upper pods whose lower pod is bound or has ended.
    settled: HashSet<Uid>,
    /// UIDs of upper pods whose lower pod is there and waits for a node.
    created: HashSet<Uid>,
    shapes: Vec<Option<Stored>>,
    freed: Vec<ShapeId>,
    ids: HashMap<Arc<Shape>, ShapeId>,
    in_namespace: HashMap<Text, BTreeSet<ShapeId>>,
    having: [BTreeSet<ShapeId>; Having::ALL.len()],
    repelling: Repelling,
    /// Pods for which room was made on a node they are not bound to yet.
    nominated: HashMap<Uid, Nominated>,
}

/// Shapes with required pod anti-affinity, by whom they may keep away.
#[derive(Debug, Default)]
struct Repelling {
    /// Pods of a namespace. None is empty.
    of_namespace: HashMap<Text, BTreeSet<ShapeId>>,
    /// Pods of namespaces that a selector says.
    of_any: BTreeSet<ShapeId>,
}

impl Repelling {
    fn insert(&mut self, id: ShapeId, shape: &Shape) {
        for term in &shape.anti_affinity {
            if term.namespace_selector.is_some() {
                self.of_any.insert(id);
            }
            for namespace in &term.namespaces {
                self.of_namespace.entry(namespace.clone()).or_default().insert(id);
            }
        }
    }

    fn remove(&mut self, id: ShapeId, shape: &Shape) {
        self.of_any.remove(&id);
        for namespace in shape.anti_affinity.iter().flat_map(|term| &term.namespaces) {
            if let Some(ids) = self.of_namespace.get_mut(namespace) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.of_namespace.remove(namespace);
                }
            }
        }
    }
}

/// A pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    /// UID of the upper pod, or the nil one.
    upper: Option<Uid>,
    node: NodeId,
    shape: ShapeId,
    terminating: bool,
}

/// A pod for which room was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nominated {
    pub(super) node: NodeId,
    pub(super) shape: ShapeId,
    pub(super) priority: i32,
}

/// A shape, and where its pods are.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) shape: Arc<Shape>,
    /// How many records are of it.
    users: u32,
    pub(super) on: HashMap<NodeId, Count>,
}

/// How many pods of a shape are on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// With those that are being deleted.
    pub(super) all: u32,
    /// Those that are being deleted.
    pub(super) terminating: u32,
}

/// What the arrival of a pod's newest state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    /// It was taken from a node, or takes less or other things there.
    pub(super) left: bool,
    /// It came to a node, or takes other things there.
    pub(super) came: bool,
}

impl Changed {
    /// What may fit now.
    pub(super) fn gain(self) -> Gain {
        match self {
            Self { left: true, .. } => Gain::Room,
            Self { came: true, .. } => Gain::Company,
            Self { .. } => Gain::None,
        }
    }
}

impl Pods {
    /// How many are bound to a node.
    pub(super) fn len(&self) -> usize {
        self.records.values().filter(|record| record.node != NONE).count()
    }

    /// Whether a lower pod is there that was made for this upper pod and is bound or ended.
    pub(super) fn is_settled(&self, upper: Uid) -> bool {
        self.settled.contains(&upper)
    }

    /// Whether a lower pod is there that was made for this upper pod and waits for a node.
    pub(super) fn is_created(&self, upper: Uid) -> bool {
        self.created.contains(&upper)
    }

    /// The shapes that have this.
    pub(super) fn having(&self, what: Having) -> impl Iterator<Item = &Stored> {
        let ids = Having::ALL.iter().position(|known| *known == what).and_then(|at| self.having.get(at));
        ids.into_iter().flatten().filter_map(|id| self.stored(*id))
    }

    /// The shapes whose required anti-affinity may keep pods of a namespace away.
    pub(super) fn repelling(&self, namespace: &str) -> impl Iterator<Item = &Stored> {
        let of_namespace = self.repelling.of_namespace.get(namespace).into_iter().flatten();
        of_namespace.chain(&self.repelling.of_any).filter_map(|id| self.stored(*id))
    }

    /// The shapes of a namespace.
    pub(super) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Stored> {
        self.in_namespace.get(namespace).into_iter().flatten().filter_map(|id| self.stored(*id))
    }

    /// All shapes.
    pub(super) fn shapes(&self) -> impl Iterator<Item = &Stored> {
        self.shapes.iter().flatten()
    }

    pub(super) fn stored(&self, id: ShapeId) -> Option<&Stored> {
        self.shapes.get(id as usize)?.as_ref()
    }

    /// Pods for which room was made, of at least this priority.
    pub(super) fn nominated(&self, priority: i32) -> impl Iterator<Item = &Nominated> {
        self.nominated.values().filter(move |nominated| nominated.priority >= priority)
    }

    /// UIDs of all.
    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.records.keys().chain(self.nominated.keys())
    }

    /// Brings in a pod, new or changed.
    pub(super) fn apply(&mut self, mut pod: Pod, nodes: &mut Nodes, texts: &mut Texts) -> Changed {
        let upper = pod.upper;
        if pod.finished {
            pod.node = None;
            pod.nominated = None;
        }
        let before = self.records.get(&pod.uid).copied();
        let Some(name) = pod.node.clone().or_else(|| pod.nominated.clone()) else {
            let left = self.remove(pod.uid, nodes);
            if let Some(upper) = upper {
                self.record(pod.uid, Record { upper: Some(upper), node: NONE, shape: NONE, terminating: false });
                let among = if pod.finished { &mut self.settled } else { &mut self.created };
                among.insert(upper);
            }
            return Changed { left, came: false };
        };
        if pod.node.is_some()
            && let Some(record) = before
            && nodes.name(record.node) == name
            && record.terminating == pod.terminating
            && record.upper == upper
            && self.stored(record.shape).is_some_and(|stored| *stored.shape == pod.shape)
        {
            return Changed { left: false, came: false };
        }
        let Pod { uid, priority, terminating, shape, node, .. } = pod;
        let left = self.remove(uid, nodes);
        let shape = self.intern(shape, texts);
        let id = nodes.hold(&name);
        if node.is_some() {
            self.place(shape, id, terminating, nodes, 1);
            self.record(uid, Record { upper, node: id, shape, terminating });
            self.settled.extend(upper);
        } else {
            self.nominated.insert(uid, Nominated { node: id, shape, priority });
            if upper.is_some() {
                self.record(uid, Record { upper, node: NONE, shape: NONE, terminating });
                self.created.extend(upper);
            }
        }
        Changed { left, came: node.is_some() }
    }

    /// What is left over when nothing is known.
    #[cfg(test)]
    pub(super) fn residue(&self) -> usize {
        let indexed: usize = self.having.iter().chain([&self.repelling.of_any]).map(BTreeSet::len).sum();
        let indexed = indexed + self.repelling.of_namespace.len();
        let shapes = self.shapes().count() + self.ids.len() + self.in_namespace.len();
        self.records.len() + self.settled.len() + self.created.len() + self.nominated.len() + indexed + shapes
    }

    fn record(&mut self, uid: Uid, record: Record) {
        self.records.insert(uid, record);
    }

    /// Removes a pod. Returns whether a node has more room now.
    pub(super) fn remove(&mut self, uid: Uid, nodes: &mut Nodes) -> bool {
        let nominated = self.nominated.remove(&uid);
        if let Some(Nominated { node, shape, .. }) = nominated {
            self.release(shape);
            nodes.let_go(node);
        }
        let Some(record) = self.records.remove(&uid) else { return nominated.is_some() };
        if let Some(upper) = record.upper {
            self.settled.remove(&upper);
            self.created.remove(&upper);
        }
        if record.node == NONE {
            return nominated.is_some();
        }
        self.leave(record.shape, record.node, record.terminating, nodes);
        true
    }

    /// Counts a pod that is on its way as if it were on the node. Ends with [`Pods::leave`].
    pub(super) fn come(&mut self, shape: &Shape, node: NodeId, nodes: &mut Nodes, texts: &mut Texts) -> ShapeId {
        let id = self.intern(shape.clone(), texts);
        nodes.hold(&nodes.name(node));
        self.place(id, node, false, nodes, 1);
        id
    }

    /// Ends what a pod of this shape takes of the node.
    pub(super) fn leave(&mut self, shape: ShapeId, node: NodeId, terminating: bool, nodes: &mut Nodes) {
        self.place(shape, node, terminating, nodes, -1);
        self.release(shape);
        nodes.let_go(node);
    }

    /// Counts a pod of this shape on the node no more, until [`Pods::put`].
    pub(super) fn lift(&mut self, shape: ShapeId, node: NodeId, nodes: &mut Nodes) {
        self.place(shape, node, false, nodes, -1);
    }

    /// Ends what [`Pods::lift`] began.
    pub(super) fn put(&mut self, shape: ShapeId, node: NodeId, nodes: &mut Nodes) {
        self.place(shape, node, false, nodes, 1);
    }

    fn place(&mut self, shape: ShapeId, node: NodeId, terminating: bool, nodes: &mut Nodes, pods: i8) {
        let Some(stored) = self.shapes.get_mut(shape as usize).and_then(Option::as_mut) else { return };
        nodes.occupy(node, &stored.shape.request, pods.into());
        let count = stored.on.entry(node).or_default();
        let change = |count: &mut u32| *count = count.saturating_add_signed(pods.into());
        change(&mut count.all);
        if terminating {
            change(&mut count.terminating);
        }
        if count.all == 0 {
            stored.on.remove(&node);
        }
    }

    /// The number of the shape, for one more record of it.
    fn intern(&mut self, mut shape: Shape, texts: &mut Texts) -> ShapeId {
        if let Some(id) = self.ids.get(&shape).copied() {
            if let Some(stored) = self.shapes.get_mut(id as usize).and_then(Option::as_mut) {
                stored.users += 1;
            }
            return id;
        }
        shape.share(texts);
        let id = self.freed.pop().unwrap_or_else(|| u32::try_from(self.shapes.len()).unwrap_or(NONE));
        let shape = Arc::new(shape);
        for (what, ids) in Having::ALL.into_iter().zip(&mut self.having) {
            if what.has(&shape) {
                ids.insert(id);
            }
        }
        self.repelling.insert(id, &shape);
        self.in_namespace.entry(shape.namespace.clone()).or_default().insert(id);
        self.ids.insert(Arc::clone(&shape), id);
        let stored = Some(Stored { shape, users: 1, on: HashMap::default() });
        match self.shapes.get_mut(id as usize) {
            Some(free) => *free = stored,
            None => self.shapes.push(stored),
        }
        id
    }

    /// One record less is of this shape.
    fn release(&mut self, id: ShapeId) {
        let Some(entry) = self.shapes.get_mut(id as usize) else { return };
        let Some(stored) = entry.as_mut() else { return };
        stored.users -= 1;
        if stored.users > 0 {
            return;
        }
        let Some(Stored { shape, .. }) = entry.take() else { return };
        self.ids.remove(&shape);
        for ids in &mut self.having {
            ids.remove(&id);
        }
        self.repelling.remove(id, &shape);
        if let Some(ids) = self.in_namespace.get_mut(&shape.namespace) {
            ids.remove(&id);
            if ids.is_empty() {
                self.in_namespace.remove(&shape.namespace);
            }
        }
        self.freed.push(id);
    }
}
