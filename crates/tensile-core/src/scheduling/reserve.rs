// SPDX-License-Identifier: Apache-2.0
//! Reserve: room for pods that are on their way to a cluster, so that no two of them are sent for the same.
//!
//! A pod is *offered* a cluster when a scheduler is told that it fits there, and *assumed* once it is bound upstairs. Until it
//! is seen on a node below, or is forgotten, it counts here, in one of two ways:
//!
//! - It has a *place*: a node whose columns it takes, as a pod that is there does. Whatever is asked next sees that node
//!   without it.
//! - It has none. One that was offered where there is plenty needs none yet: few enough are without that all of them would
//!   find one, and as soon as room is scarce for anybody they are given theirs first. One that is bound and finds none is
//!   *owed*: it comes before everybody else when there is room.
//!
//! A place is only a proof that there is room. The lower scheduler knows nothing of it and puts the pod where it likes, so a pod
//! that comes to another node leaves its own place free, and may take that of others. These are then unseated: each looks for
//! another place, the one that has just come free among them. So the sum over the cluster stays right wherever a pod lands, and
//! no place is free that somebody on their way needs. The same happens when a pod of somebody else's comes, and when a node
//! shrinks or goes. Who finds no other place is owed one. Of pods that keep near or apart from others in a topology, those like
//! the one that landed make way in the whole domain; what strangers want there is looked at on their node alone.
//!
//! For pods that ask for the same there is never more on the way than fits. For pods of several sizes, what the lower scheduler
//! breaks up may be what a larger one had its place in: it is owed, and nobody else is offered what it could take.

use std::borrow::Cow;
use std::sync::Arc;

use super::answer::Answer;
use super::ask::{self, Search};
use super::assumed::Assumption;
use super::change::Gain;
use super::cluster::Cluster;
use super::framework::Cycle;
use super::node_set::NodeId;
use super::objects::Pod;
use super::question::Question;
use super::score;
use super::uid::Uid;

/// As much room as is plenty, in pods like the one that is offered.
const PLENTY: u64 = 256;
/// So many pods may be on their way without a place.
const PLACELESS: usize = 128;

impl Cluster {
    /// The answer for an upper pod whose scheduler will be told of it. If it fits it counts from now on, until its lower pod
    /// is seen on a node, or [`Cluster::forget`].
    pub fn offer(&mut self, uid: Uid, question: &Arc<Question>) -> Answer {
        if self.pods.is_settled(uid) || self.assumed.get(uid).is_some() {
            self.settle();
            return self.without(uid, |cluster| cluster.ask(question));
        }
        let question = &self.expected(uid, question);
        let plenty = |search: &Search<'_>| !question.is_particular() && search.count(PLENTY) == PLENTY;
        let (mut node, plenty) = match ask::find(self, question, plenty) {
            Ok(found) => found,
            Err(refused) => return refused,
        };
        let needs_none = plenty && self.assumed.placeless() < PLACELESS;
        if !needs_none && self.settle() {
            // What was given a place may have taken what was found.
            match ask::find(self, question, |_| ()) {
                Ok((left, ())) => node = left,
                Err(refused) => return refused,
            }
        }
        let answer = Answer::Fits { node: self.nodes.name(node) };
        self.assumed.insert(uid, Arc::clone(question), false);
        if needs_none {
            self.settled = false;
        } else {
            self.seat(uid, node);
        }
        answer
    }

    /// An upper pod is bound to this cluster. It counts until its lower pod is seen on a node, or [`Cluster::forget`]: on the
    /// node that the lower scheduler would choose, or as owed.
    ///
    /// Returns whether there is room for it.
    pub fn assume(&mut self, uid: Uid, question: &Arc<Question>) -> bool {
        if self.pods.is_settled(uid) {
            return true;
        }
        if let Some(known) = self.assumed.get(uid)
            && known.bound
        {
            return known.place.is_some();
        }
        let question = &self.expected(uid, question);
        if self.withdraw(uid).is_some() {
            // It may leave its place to another.
            self.settled = false;
        }
        let best = score::best_node(self, question);
        self.assumed.insert(uid, Arc::clone(question), true);
        if let Some(node) = best {
            self.seat(uid, node);
        }
        best.is_some()
    }

    /// The upper pod is gone, ended, or goes elsewhere: it is not on its way any more.
    pub fn forget(&mut self, uid: Uid) -> Gain {
        let gain = if self.withdraw(uid).is_some() { Gain::Room } else { Gain::None };
        self.gained(gain)
    }

    /// The answer for a pod that nobody is told of: all that are on their way come before it.
    pub fn look(&mut self, question: &Question) -> Answer {
        self.settle();
        self.ask(question)
    }

    /// Gives places to all that are on their way without one, as far as there are any. Returns whether anybody got one.
    pub(super) fn settle(&mut self) -> bool {
        if std::mem::replace(&mut self.settled, true) {
            return false;
        }
        let (mut in_vain, mut seated): (Vec<Arc<Question>>, _) = (Vec::new(), false);
        for uid in self.assumed.waiting() {
            let Some(assumption) = self.assumed.get(uid) else { continue };
            let (question, bound) = (Arc::clone(&assumption.question), assumption.bound);
            // Of pods that are alike, the first that finds none speaks for all.
            if in_vain.contains(&question) {
                continue;
            }
            let find = if bound { score::best_node } else { first_node };
            match self.without(uid, |cluster| find(cluster, &question)) {
                Some(node) => {
                    self.seat(uid, node);
                    seated = true;
                }
                None => in_vain.push(question),
            }
        }
        seated
    }

    /// What `ask` says when this pod does not count.
    pub fn without<T>(&mut self, uid: Uid, ask: impl FnOnce(&Self) -> T) -> T {
        let place = self.assumed.get(uid).and_then(|assumption| assumption.place);
        self.assumed.set_aside(Some(uid));
        if let Some((node, shape)) = place {
            self.pods.lift(shape, node, &mut self.nodes);
        }
        let answer = ask(self);
        if let Some((node, shape)) = place {
            self.pods.put(shape, node, &mut self.nodes);
        }
        self.assumed.set_aside(None);
        answer
    }

    /// Counts here what is on its way to `other`, which is the same cluster, known by other watches.
    pub fn take_over(&mut self, other: &Self) {
        let mut all: Vec<_> = other.assumed.iter().collect();
        all.sort_unstable_by_key(|(_, assumption)| assumption.number);
        for (uid, assumption) in all {
            if !self.pods.is_settled(uid) && self.assumed.get(uid).is_none() {
                let question = self.expected(uid, &assumption.question);
                self.assumed.insert(uid, question, assumption.bound);
            }
        }
        self.settled = false;
        self.settle();
    }

    /// The question for a pod that is on its way: as the cluster would admit it, or has.
    fn expected(&self, uid: Uid, question: &Arc<Question>) -> Arc<Question> {
        let mut question = match self.admitted(question) {
            Cow::Borrowed(_) => Arc::clone(question),
            Cow::Owned(admitted) => Arc::new(admitted),
        };
        if self.pods.is_created(uid) {
            Arc::make_mut(&mut question).quota = None;
        }
        question
    }

    /// Notes a gain, for those who are owed a place.
    pub(super) fn gained(&mut self, gain: Gain) -> Gain {
        self.settled &= gain == Gain::None;
        gain
    }

    fn fits_on(&self, node: NodeId, question: &Question) -> bool {
        let cycle = Cycle::new(self, question, &[]);
        Search::new(self, &cycle).is_ok_and(|search| search.fits_on(node))
    }

    /// Counts a pod on its way on this node.
    fn seat(&mut self, uid: Uid, node: NodeId) {
        let Some(assumption) = self.assumed.get(uid) else { return };
        let question = Arc::clone(&assumption.question);
        let shape = self.pods.come(&question.shape, node, &mut self.nodes, &mut self.texts);
        self.assumed.place(uid, Some((node, shape)));
    }

    /// Counts a pod no more. Returns what it was, if it did count.
    fn withdraw(&mut self, uid: Uid) -> Option<Assumption> {
        let assumption = self.assumed.remove(uid)?;
        if let Some((node, shape)) = assumption.place {
            self.pods.leave(shape, node, false, &mut self.nodes);
        }
        Some(assumption)
    }

    /// Takes a pod's place away, until it is looked for another.
    fn displace(&mut self, uid: Uid) {
        if let Some((node, shape)) = self.assumed.get(uid).and_then(|assumption| assumption.place) {
            self.pods.leave(shape, node, false, &mut self.nodes);
            self.assumed.place(uid, None);
            self.settled = false;
        }
    }

    /// Takes in a lower pod. One that was on its way counts by itself once it has a node, or has ended.
    pub(super) fn seen_pod(&mut self, pod: Pod) -> Gain {
        let landing = pod.node.as_deref().filter(|_| !pod.finished).and_then(|name| self.nodes.id(name));
        let expected = pod.upper.filter(|upper| self.assumed.get(*upper).is_some());
        let Some(upper) = expected.filter(|_| pod.finished || pod.node.is_some()) else {
            if let Some(upper) = expected {
                self.assumed.created(upper);
            }
            let changed = self.pods.apply(pod, &mut self.nodes, &mut self.texts);
            if let Some(node) = landing.filter(|_| changed.came) {
                self.unseat(node, false);
            }
            return self.gained(changed.gain());
        };
        let place = self.assumed.get(upper).and_then(|assumption| assumption.place).map(|(node, _)| node);
        let before: Vec<_> = place.into_iter().chain(landing).map(|node| (node, self.nodes.left_on(node))).collect();
        let was = self.withdraw(upper);
        let changed = self.pods.apply(pod, &mut self.nodes, &mut self.texts);
        if let (Some(was), Some(from), Some(to)) = (was, place, landing) {
            self.make_way(&was.question, from, to);
        }
        if let Some(node) = landing {
            self.unseat(node, false);
        }
        // That two pods changed places leaves nobody more room.
        let is_roomier = before.iter().any(|(node, before)| self.nodes.left_on(*node).is_more_than(before));
        let room = if is_roomier { Gain::Room } else { Gain::None };
        self.gained(room.max(changed.gain()))
    }

    /// A pod that was counted on `from` came to `to`. Where it is says where others like it may be.
    fn make_way(&mut self, question: &Question, from: NodeId, to: NodeId) {
        let follow = !self.nodes.around(to, question.near()).contains(from);
        let crowded = self.nodes.around(to, question.apart());
        if !follow && crowded.contains(from) {
            return;
        }
        let all = self.assumed.iter().filter(|(_, other)| other.question.keeps_company_like(question));
        let placed = all.filter_map(|(uid, other)| Some((uid, other.number, other.place?.0)));
        let displaced: Vec<Uid> = if follow {
            // They want to be near it, and their places are near one another elsewhere.
            placed.map(|(uid, ..)| uid).collect()
        } else {
            // One of them has a place in a domain that has one more now, and there is one less where it was counted.
            let there = placed.filter(|(.., node)| crowded.contains(*node));
            there.max_by_key(|(_, number, _)| *number).map(|(uid, ..)| uid).into_iter().collect()
        };
        for uid in &displaced {
            self.displace(*uid);
        }
        if !displaced.is_empty() {
            self.settle();
        }
    }

    /// Something came to this node, or it is another than it was: pods that are counted there and do not fit any more look for
    /// another place.
    pub(super) fn unseat(&mut self, node: NodeId, is_changed: bool) {
        let mut displaced = false;
        for uid in self.assumed.at(node) {
            let Some(question) = self.assumed.get(uid).map(|known| Arc::clone(&known.question)) else { continue };
            let may_stay = !is_changed && !question.is_particular() && !self.nodes.is_overfull(node);
            if !may_stay && !self.without(uid, |cluster| cluster.fits_on(node, &question)) {
                self.displace(uid);
                displaced = true;
            }
        }
        if displaced {
            self.settle();
        }
    }
}

/// The first node that fits: which one matters little for a pod that may go elsewhere.
fn first_node(cluster: &Cluster, question: &Question) -> Option<NodeId> {
    let cycle = Cycle::new(cluster, question, &[]);
    Search::new(cluster, &cycle).ok()?.first()
}
