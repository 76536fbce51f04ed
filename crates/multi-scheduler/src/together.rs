// SPDX-License-Identifier: Apache-2.0
//! How a group of pods is kept in one lower cluster that can take all of it ([`Gangs`](crate::gangs::Gangs)).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tensile_core::scheduling::{Cluster, Question};

use crate::fleet::Fleet;
use crate::gangs::Group;
use crate::reservations::ClusterId;

/// How many replicas are counted to tell clusters apart.
const COUNTED: u64 = 1_000;

/// What the group of a pod wants.
#[derive(Debug)]
pub struct Bond {
    group: Group,
    /// The lower cluster that it goes to, if that is known.
    at: Option<ClusterId>,
    /// Members are bound there already.
    is_bound: bool,
    /// How many members, this one included, must find room at once.
    missing: u64,
}

impl Bond {
    /// Why the cluster is no place for the group.
    pub fn refuses(&self, id: &ClusterId, cluster: &Cluster, question: &Question) -> Option<String> {
        let name = self.group.name();
        if self.at.as_ref().is_some_and(|at| at != id) {
            return Some(format!("its group {name} goes to another lower cluster"));
        }
        let room = cluster.capacity(question, self.missing);
        let missing = self.missing;
        (room < missing).then(|| format!("room for {room} of the {missing} pods of group {name} that are to come"))
    }
}

impl Fleet {
    /// What the group of a pod wants, if it is in one.
    pub fn bond(&self, pod: &Value, uid: &str, now: Instant) -> Option<Bond> {
        let (group, said) = Group::wanted(pod)?;
        let (gangs, nodes) = (self.gangs(), self.nodes());
        let least = gangs.least(&group, said)?;
        let bound = gangs.nodes(&group, uid).find_map(|node| nodes.get(node)?.lower.clone());
        let is_bound = bound.is_some();
        let at = bound.or_else(|| gangs.offered(&group, now).cloned());
        let there = u64::try_from(gangs.count(&group, uid)).unwrap_or(u64::MAX);
        drop(gangs);
        Some(Bond { group, at, is_bound, missing: least.saturating_sub(there).max(1) })
    }

    /// Chooses one of the clusters that a member fits in for all of its group: the one with most room. Returns the others.
    pub fn settle(
        &self,
        bond: Bond,
        uid: &str,
        fits: &mut BTreeMap<ClusterId, Arc<Question>>,
        now: Instant,
    ) -> Vec<ClusterId> {
        let lowers = self.lowers();
        let room = |(id, question): (&ClusterId, &Arc<Question>)| {
            let room = lowers.get(id).map_or(0, |lower| lower.read().capacity(question, COUNTED));
            (room, id.clone())
        };
        let chosen = fits.iter().map(room).max_by_key(|(room, _)| *room).map(|(_, id)| id);
        let mut gangs = self.gangs();
        let Some(chosen) = chosen else {
            if !bond.is_bound {
                gangs.withdraw(&bond.group);
            }
            return Vec::new();
        };
        gangs.told(uid, bond.group.clone());
        gangs.offer(bond.group, chosen.clone(), now + self.policy.reservation, now);
        drop(gangs);
        let others: Vec<ClusterId> = fits.keys().filter(|id| **id != chosen).cloned().collect();
        fits.retain(|id, _| *id == chosen);
        others
    }
}
