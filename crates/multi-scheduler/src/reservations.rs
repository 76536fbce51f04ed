// SPDX-License-Identifier: Apache-2.0
//! Pods that are on their way: told to a scheduler, bound upstairs, not running below yet. Each has room kept below.
//!
//! A pod passes three stages. *Tentative*: a scheduler was told where it fits; room is kept in all of these clusters, until
//! it is seen bound to one of them, or for a time. *Assumed*: it is bound to a virtual node; room is kept there until the
//! lower pod is seen, or the upper one ends. *Confirmed*: the lower pod is there and counts itself; what was kept goes, in
//! the columns of its cluster. Only the first stage is not learnt from a watch.
//!
//! Which node of a cluster a pod is counted on is said there ([`Cluster`](tensile_core::scheduling::Cluster)); here is only
//! which pods are in which stage where.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// The UID of an upper pod, as API servers write it.
pub type Uid = Arc<str>;
/// The UID of a lower cluster.
pub type ClusterId = Arc<str>;

/// What is known of pods that are on their way. Says what is to be kept and given back; others do it.
#[derive(Debug, Default)]
pub struct Reservations {
    tentative: HashMap<Uid, Tentative>,
    bound: HashMap<Uid, Bound>,
    /// In order of time.
    expiring: VecDeque<(Instant, Uid)>,
    /// The UIDs of a list that is under way.
    listed: Option<Vec<Uid>>,
}

#[derive(Debug)]
struct Tentative {
    until: Instant,
    clusters: Vec<ClusterId>,
}

/// A pod that is bound to a virtual node and does not run yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The virtual node.
    pub node: String,
    /// The pod as JSON.
    pub pod: Arc<str>,
}

/// How many pods are in which stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Told to a scheduler.
    pub tentative: usize,
    /// Bound upstairs.
    pub assumed: usize,
}

/// Room that is to be given back: a pod, in these clusters.
pub type Released = (Uid, Vec<ClusterId>);

impl Reservations {
    /// A scheduler asks about a pod. What was kept for it when it asked before is to be given back, unless it is bound.
    pub fn asked(&mut self, uid: &str) -> Vec<ClusterId> {
        self.tentative.remove(uid).map(|tentative| tentative.clusters).unwrap_or_default()
    }

    /// A scheduler was told that the pod, which is not known to be bound, fits in these clusters, where room is kept until
    /// `until`.
    pub fn told(&mut self, uid: &str, clusters: Vec<ClusterId>, until: Instant) {
        if !clusters.is_empty() {
            let uid: Uid = uid.into();
            self.expiring.push_back((until, uid.clone()));
            self.tentative.insert(uid, Tentative { until, clusters });
        }
    }

    /// The pod is bound. Returns where room was kept for it, and whether it was not known to be bound there.
    pub fn bound(&mut self, uid: &str, bound: Bound) -> (Vec<ClusterId>, bool) {
        let kept = self.asked(uid);
        self.note(uid);
        let new = match self.bound.get_mut(uid) {
            Some(known) if known.node == bound.node => false,
            Some(known) => {
                *known = bound;
                true
            }
            None => self.bound.insert(uid.into(), bound).is_none(),
        };
        (kept, new)
    }

    /// The pod as it was bound, if it is.
    pub fn bound_to(&self, uid: &str) -> Option<&Bound> {
        self.bound.get(uid)
    }

    /// The pod is there and waits for a scheduler.
    pub fn waiting(&mut self, uid: &str) {
        self.note(uid);
    }

    /// The pod is not on its way any more: it runs, has ended, is gone, or is bound to an ordinary node. Returns where room
    /// was kept tentatively, and the virtual node it was bound to.
    pub fn ended(&mut self, uid: &str) -> (Vec<ClusterId>, Option<Bound>) {
        (self.asked(uid), self.bound.remove(uid))
    }

    /// A list of all pods begins.
    pub fn begin(&mut self) {
        self.listed = Some(Vec::new());
    }

    /// The list is complete: bound pods that it did not name have ended. Returns them.
    pub fn complete(&mut self) -> Vec<(Uid, Bound)> {
        let Some(mut listed) = self.listed.take() else { return Vec::new() };
        listed.sort_unstable();
        self.bound.extract_if(|uid, _| listed.binary_search(uid).is_err()).collect()
    }

    fn note(&mut self, uid: &str) {
        if let Some(listed) = &mut self.listed {
            listed.push(uid.into());
        }
    }

    /// Pods of which nothing was seen in time: their room is to be given back.
    pub fn expired(&mut self, now: Instant) -> Vec<Released> {
        let mut released = Vec::new();
        while self.expiring.front().is_some_and(|(until, _)| *until <= now) {
            let Some((until, uid)) = self.expiring.pop_front() else { break };
            // It may have been asked about again since.
            if self.tentative.get(&uid).is_some_and(|tentative| tentative.until == until) {
                released.extend(self.tentative.remove(&uid).map(|tentative| (uid, tentative.clusters)));
            }
        }
        released
    }

    /// The bound pods, by virtual node.
    pub fn by_node(&self) -> BTreeMap<&str, Vec<(&Uid, &Bound)>> {
        let mut all: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (uid, bound) in &self.bound {
            all.entry(&bound.node).or_default().push((uid, bound));
        }
        all
    }

    /// How many there are.
    pub fn counts(&self) -> Counts {
        Counts { tentative: self.tentative.len(), assumed: self.bound.len() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn to(node: &str) -> Bound {
        Bound { node: node.to_owned(), pod: "{}".into() }
    }

    fn ids(ids: &[&str]) -> Vec<ClusterId> {
        ids.iter().map(|id| (*id).into()).collect()
    }

    #[test]
    fn room_is_kept_where_a_scheduler_was_told_until_it_is_seen_where_the_pod_went() {
        let (mut all, now) = (Reservations::default(), Instant::now());
        all.told("p", ids(&["a", "b"]), now);
        assert_eq!(all.counts(), Counts { tentative: 1, assumed: 0 });
        assert_eq!(all.bound("p", to("east")), (ids(&["a", "b"]), true));
        assert_eq!(all.bound("p", to("east")), (vec![], false));
        assert_eq!(all.counts(), Counts { tentative: 0, assumed: 1 });
        assert_eq!(all.ended("p"), (vec![], Some(to("east"))));
        assert_eq!(all.counts(), Counts { tentative: 0, assumed: 0 });
    }

    #[test]
    fn a_pod_that_is_asked_about_again_does_not_stand_in_its_own_way() {
        let (mut all, now) = (Reservations::default(), Instant::now());
        all.told("p", ids(&["a"]), now);
        assert_eq!(all.asked("p"), ids(&["a"]));
        assert_eq!(all.asked("p"), ids(&[]));
    }

    #[test]
    fn what_is_not_seen_in_time_is_given_back_once_and_a_later_answer_counts_anew() {
        let (mut all, now) = (Reservations::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        all.told("p", ids(&["a"]), now);
        all.asked("p");
        all.told("p", ids(&["b"]), later);
        all.told("q", ids(&["a"]), later);
        assert_eq!(all.expired(now), vec![]);
        all.bound("q", to("east"));
        assert_eq!(all.expired(later), vec![("p".into(), ids(&["b"]))]);
        assert_eq!(all.expired(later), vec![]);
    }

    #[test]
    fn a_list_that_does_not_name_a_bound_pod_ends_it() {
        let mut all = Reservations::default();
        all.bound("p", to("east"));
        all.bound("q", to("east"));
        all.begin();
        all.waiting("r");
        all.bound("q", to("east"));
        assert_eq!(all.complete(), vec![("p".into(), to("east"))]);
        assert_eq!(all.bound_to("q"), Some(&to("east")));
        assert!(all.complete().is_empty());
    }
}
