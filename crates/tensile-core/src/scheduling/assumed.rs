// SPDX-License-Identifier: Apache-2.0
//! Pods that are on their way: who they are, and where each is counted until it is seen below.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;

use super::node_set::NodeId;
use super::pods::ShapeId;
use super::question::Question;
use super::quota_request::QuotaRequest;
use super::uid::Uid;

/// The pods on their way, by the UID of the upper pod.
#[derive(Debug, Default)]
pub(super) struct Assumed {
    pods: HashMap<Uid, Assumption>,
    /// Those that have a place, by node, in the order in which they got it. None is empty.
    at: HashMap<NodeId, Vec<Uid>>,
    /// Those without one, in the order in which they came.
    placeless: BTreeMap<u64, Uid>,
    /// How many came so far.
    came: u64,
    /// The one that is asked about and does not count meanwhile.
    aside: Option<Uid>,
}

/// A pod on its way.
#[derive(Clone, Debug)]
pub(super) struct Assumption {
    pub(super) question: Arc<Question>,
    /// The node it is counted on, and its shape there.
    pub(super) place: Option<(NodeId, ShapeId)>,
    /// It is bound upstairs; otherwise a scheduler was told of it.
    pub(super) bound: bool,
    /// Which one it is.
    pub(super) number: u64,
}

impl Assumed {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// How many have no place.
    pub(super) fn placeless(&self) -> usize {
        self.placeless.len()
    }

    /// How many are bound and have no place.
    pub(super) fn owed(&self) -> usize {
        self.placeless.values().filter(|uid| self.pods.get(uid).is_some_and(|assumption| assumption.bound)).count()
    }

    pub(super) fn get(&self, uid: Uid) -> Option<&Assumption> {
        self.pods.get(&uid)
    }

    /// All, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Uid, &Assumption)> {
        self.pods.iter().map(|(uid, assumption)| (*uid, assumption))
    }

    /// Those that are counted on a node, the newest first.
    pub(super) fn at(&self, node: NodeId) -> Vec<Uid> {
        self.at.get(&node).into_iter().flatten().rev().copied().collect()
    }

    /// Those without a place, the oldest first.
    pub(super) fn waiting(&self) -> Vec<Uid> {
        self.placeless.values().copied().collect()
    }

    /// One more is on its way. It has no place yet.
    pub(super) fn insert(&mut self, uid: Uid, question: Arc<Question>, bound: bool) {
        self.came += 1;
        let assumption = Assumption { question, place: None, bound, number: self.came };
        self.placeless.insert(assumption.number, uid);
        self.pods.insert(uid, assumption);
    }

    /// It is not on its way any more.
    pub(super) fn remove(&mut self, uid: Uid) -> Option<Assumption> {
        let place = self.pods.get(&uid)?.place;
        self.place(uid, None);
        let assumption = self.pods.remove(&uid)?;
        self.placeless.remove(&assumption.number);
        Some(Assumption { place, ..assumption })
    }

    /// It is counted there from now on, or nowhere.
    pub(super) fn place(&mut self, uid: Uid, place: Option<(NodeId, ShapeId)>) {
        let Some(assumption) = self.pods.get_mut(&uid) else { return };
        let before = std::mem::replace(&mut assumption.place, place);
        if let Some((node, _)) = before
            && let Some(there) = self.at.get_mut(&node)
        {
            there.retain(|other| *other != uid);
            if there.is_empty() {
                self.at.remove(&node);
            }
        }
        if let Some((node, _)) = place {
            self.at.entry(node).or_default().push(uid);
            self.placeless.remove(&assumption.number);
        } else {
            self.placeless.insert(assumption.number, uid);
        }
    }

    /// It is there, but not bound yet: quotas count it themselves.
    pub(super) fn created(&mut self, uid: Uid) {
        if let Some(assumption) = self.pods.get_mut(&uid)
            && assumption.question.quota.is_some()
        {
            Arc::make_mut(&mut assumption.question).quota = None;
        }
    }

    /// This one does not count for quotas until another one, or none, is set aside.
    pub(super) fn set_aside(&mut self, uid: Option<Uid>) {
        self.aside = uid;
    }

    /// What is still to be created in a namespace.
    pub(super) fn to_come(&self, namespace: &str) -> impl Iterator<Item = &QuotaRequest> {
        let others = self.pods.iter().filter(|(uid, _)| Some(**uid) != self.aside).map(|(_, assumption)| assumption);
        others
            .filter(move |other| other.question.namespace() == namespace)
            .filter_map(|other| other.question.quota.as_ref())
    }

    /// What is left over when none is on its way.
    #[cfg(test)]
    pub(super) fn residue(&self) -> usize {
        self.pods.len() + self.at.len() + self.placeless.len()
    }
}
