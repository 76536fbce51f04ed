// SPDX-License-Identifier: Apache-2.0
//! What is known of all clusters together: which virtual node stands for which lower cluster, and which pods are on their
//! way there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use serde_json::Value;
use tensile_core::exclusion::Exclusions;
use tensile_core::pod::LinkView;
use tensile_core::scheduling::{Gain, Uid};

use crate::args::Policy;
use crate::gangs::Gangs;
use crate::inquiry::Inquiry;
use crate::lower::Lower;
use crate::reservations::{Bound, ClusterId, Released, Reservations};
use crate::wake::Wakes;

/// A virtual node.
#[derive(Debug, Clone)]
pub struct VirtualNode {
    /// Which lower cluster it stands for, if it says so.
    pub lower: Option<ClusterId>,
    /// What a pod becomes below it.
    pub link: LinkView,
}

/// Everything that is known. Its parts are locked one at a time, and reservations before columns.
#[derive(Debug)]
pub struct Fleet {
    /// How it is decided.
    pub policy: Policy,
    /// How long a lower cluster may not answer.
    pub patience: Duration,
    /// Virtual nodes that pods of some owners shall not go to.
    pub exclusions: Arc<ArcSwap<Exclusions>>,
    /// Who is told when there is room again.
    pub wakes: Wakes,
    nodes: ArcSwap<BTreeMap<String, Arc<VirtualNode>>>,
    lowers: ArcSwap<BTreeMap<ClusterId, Arc<Lower>>>,
    reservations: Mutex<Reservations>,
    gangs: Mutex<Gangs>,
}

impl Fleet {
    /// Nothing is known yet.
    pub fn new(policy: Policy, patience: Duration) -> Self {
        Self {
            policy,
            patience,
            exclusions: Arc::default(),
            wakes: Wakes::default(),
            nodes: ArcSwap::default(),
            lowers: ArcSwap::default(),
            reservations: Mutex::default(),
            gangs: Mutex::default(),
        }
    }

    /// The virtual nodes, by name.
    pub fn nodes(&self) -> Arc<BTreeMap<String, Arc<VirtualNode>>> {
        self.nodes.load_full()
    }

    /// The lower clusters, by UID.
    pub fn lowers(&self) -> Arc<BTreeMap<ClusterId, Arc<Lower>>> {
        self.lowers.load_full()
    }

    /// What is kept for pods on their way.
    pub fn reservations(&self) -> MutexGuard<'_, Reservations> {
        self.reservations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of pods that belong together.
    pub fn gangs(&self) -> MutexGuard<'_, Gangs> {
        self.gangs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are the virtual nodes now.
    pub fn set_nodes(&self, nodes: BTreeMap<String, Arc<VirtualNode>>) {
        let before = self.nodes.swap(Arc::new(nodes));
        let nodes = self.nodes.load();
        let moved =
            |name: &&String| before.get(*name).map(|node| &node.lower) != nodes.get(*name).map(|node| &node.lower);
        for name in nodes.keys().filter(moved) {
            self.assume_all(|at| at == name);
        }
    }

    /// A lower cluster is followed from now on, in the place of one of the same UID.
    pub fn add(&self, lower: &Arc<Lower>) {
        let before = self.lowers.load().get(&lower.id).cloned();
        // Nobody is answered by it before it knows who is on their way.
        let mut cluster = lower.write();
        self.change_lowers(|lowers| drop(lowers.insert(lower.id.clone(), lower.clone())));
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, lower)) {
            cluster.take_over(&before.read());
        }
        drop(cluster);
        self.assume_below(lower);
    }

    /// Keeps room in a cluster for all pods that are on their way there.
    pub fn assume_below(&self, lower: &Lower) {
        let nodes = self.nodes.load();
        self.assume_all(|at| nodes.get(at).is_some_and(|node| node.lower.as_ref() == Some(&lower.id)));
    }

    /// A lower cluster is not followed any more.
    pub fn remove(&self, lower: &Arc<Lower>) {
        self.change_lowers(|lowers| lowers.retain(|_, known| !Arc::ptr_eq(known, lower)));
    }

    fn change_lowers(&self, change: impl Fn(&mut BTreeMap<ClusterId, Arc<Lower>>)) {
        self.lowers.rcu(|lowers| {
            let mut lowers = BTreeMap::clone(lowers);
            change(&mut lowers);
            lowers
        });
    }

    /// The lower cluster that a virtual node stands for, as far as it is known well enough.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn lower_of(&self, node: &VirtualNode, now: Instant) -> Result<Arc<Lower>, String> {
        let Some(id) = &node.lower else {
            return Err("the virtual node does not say which lower cluster it stands for".to_owned());
        };
        let Some(lower) = self.lowers.load().get(id).cloned() else {
            return Err(format!("there is no kubeconfig of its lower cluster, {id}"));
        };
        let state = lower.state(now, self.patience);
        state.map(|()| lower.clone()).map_err(|reason| format!("lower cluster {}: {reason}", lower.name))
    }

    /// What is to be asked about `pod`.
    pub fn inquiry<'a>(&self, pod: &'a Value) -> Inquiry<'a> {
        Inquiry::new(pod, &self.policy.kept, self.policy.unknown)
    }

    /// A pod was seen bound to a virtual node, and does not run yet.
    pub fn pod_bound(&self, uid: &str, node: &str, pod: &str) {
        let bound = Bound { node: node.to_owned(), pod: pod.into() };
        let (mut kept, new) = self.reservations().bound(uid, bound.clone());
        let nodes = self.nodes.load();
        if let Some(here) = nodes.get(node).and_then(|node| node.lower.as_ref()) {
            kept.retain(|cluster| cluster != here);
        }
        self.give_back(uid, &kept);
        if new {
            self.assume(uid, &bound);
        }
        self.wakes.forget(uid);
    }

    /// A pod runs on a node, so that it is seen below, or soon will be: until then its room there stays kept.
    pub fn pod_runs(&self, uid: &str, node: &str) {
        let (mut kept, _) = self.reservations().ended(uid);
        if let Some(here) = self.nodes.load().get(node).and_then(|node| node.lower.as_ref()) {
            kept.retain(|cluster| cluster != here);
        }
        self.give_back(uid, &kept);
        self.wakes.forget(uid);
    }

    /// No room is to be kept for a pod: it has ended, or is gone, maybe from a node.
    pub fn pod_ended(&self, uid: &str, node: Option<&str>) {
        let (mut kept, bound) = self.reservations().ended(uid);
        let nodes = self.nodes.load();
        let at = bound.as_ref().map(|bound| bound.node.as_str()).into_iter().chain(node);
        kept.extend(at.filter_map(|node| nodes.get(node)?.lower.clone()));
        self.give_back(uid, &kept);
        self.gangs().gone(uid);
        self.wakes.forget(uid);
    }

    /// A list of all pods is complete.
    pub fn pods_listed(&self) {
        let gone = self.reservations().complete();
        for (uid, bound) in gone {
            let lower = self.nodes.load().get(&bound.node).and_then(|node| node.lower.clone());
            self.give_back(&uid, lower.as_slice());
        }
    }

    /// Gives back what was kept for pods that were not seen in time.
    pub fn expire(&self, now: Instant) {
        let released: Vec<Released> = self.reservations().expired(now);
        for (uid, clusters) in released {
            tracing::debug!(%uid, "a pod was not seen bound in time");
            self.gangs().untold(&uid);
            self.give_back(&uid, &clusters);
        }
    }

    /// Gives back what was kept for a pod in these clusters.
    pub fn give_back(&self, uid: &str, clusters: &[ClusterId]) {
        let lowers = self.lowers.load();
        for lower in clusters.iter().filter_map(|cluster| lowers.get(cluster)) {
            let gain = lower.write().forget(Uid::of(uid));
            self.gained(lower, gain);
        }
    }

    /// Something that a lower cluster refused may fit there now.
    pub fn gained(&self, lower: &Lower, gain: Gain) {
        if gain > Gain::None {
            self.wakes.gained(&lower.id);
        }
    }

    fn assume_all(&self, at: impl Fn(&str) -> bool) {
        let reservations = self.reservations();
        let bound = reservations.by_node().into_iter().filter(|(node, _)| at(node)).flat_map(|(_, pods)| pods);
        let bound: Vec<_> = bound.map(|(uid, bound)| (uid.clone(), bound.clone())).collect();
        drop(reservations);
        for (uid, bound) in bound {
            self.assume(&uid, &bound);
        }
    }

    /// Keeps room for a pod in the cluster behind the node that it is bound to.
    pub(crate) fn assume(&self, uid: &str, bound: &Bound) {
        let (nodes, lowers) = (self.nodes.load(), self.lowers.load());
        let Some(node) = nodes.get(&bound.node) else { return };
        let Some(lower) = node.lower.as_ref().and_then(|id| lowers.get(id)) else { return };
        // What cannot run there takes nothing there, and says so elsewhere.
        let Ok(pod) = serde_json::from_str::<Value>(&bound.pod) else { return };
        let Ok(question) = self.inquiry(&pod).question(node) else { return };
        if !lower.write().assume(Uid::of(uid), &question) {
            tracing::debug!(uid, node = bound.node, "a pod was bound for which there is no room below");
        }
    }
}
