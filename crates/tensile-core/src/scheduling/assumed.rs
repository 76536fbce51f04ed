//! Pods that are on their way: counted on a node as if they were there, until they are.

use foldhash::HashMap;

use super::node_set::NodeId;
use super::pods::ShapeId;
use super::question::QuotaRequest;
use super::text::Text;
use super::uid::Uid;

/// The pods on their way, by the UID of the upper pod.
#[derive(Debug, Default)]
pub(super) struct Assumed(HashMap<Uid, Assumption>);

/// A pod on its way.
#[derive(Debug)]
pub(super) struct Assumption {
    pub(super) node: NodeId,
    pub(super) shape: ShapeId,
    namespace: Text,
    quota: QuotaRequest,
    /// It is created below, so that quotas know it.
    created: bool,
}

impl Assumption {
    pub(super) fn new(node: NodeId, shape: ShapeId, namespace: Text, quota: QuotaRequest) -> Self {
        Self { node, shape, namespace, quota, created: false }
    }
}

impl Assumed {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn contains(&self, uid: Uid) -> bool {
        self.0.contains_key(&uid)
    }

    pub(super) fn insert(&mut self, uid: Uid, assumption: Assumption) {
        self.0.insert(uid, assumption);
    }

    pub(super) fn remove(&mut self, uid: Uid) -> Option<Assumption> {
        self.0.remove(&uid)
    }

    /// Has a pod of this shape that is counted on the node `from` counted on `to` instead, if there is one.
    pub(super) fn swap(&mut self, shape: ShapeId, from: NodeId, to: NodeId) -> bool {
        let other = self.0.values_mut().find(|assumed| assumed.node == from && assumed.shape == shape);
        other.map(|assumed| assumed.node = to).is_some()
    }

    /// The pod is there, but not bound yet.
    pub(super) fn created(&mut self, uid: Uid) {
        if let Some(assumption) = self.0.get_mut(&uid) {
            assumption.created = true;
        }
    }

    /// What is still to be created in a namespace.
    pub(super) fn to_come(&self, namespace: &str) -> impl Iterator<Item = &QuotaRequest> {
        let of = self.0.values().filter(move |assumed| !assumed.created && *assumed.namespace == *namespace);
        of.map(|assumed| &assumed.quota)
    }
}
