// SPDX-License-Identifier: Apache-2.0
//! The answers to a scheduler: which virtual nodes have a node below that a pod fits on, and which of them is best.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::Value;
use tensile_core::exclusion::Subject;
use tensile_core::names;
use tensile_core::scheduling::{Answer, Question, Uid};

use crate::args::Stale;
use crate::fleet::{Fleet, VirtualNode};
use crate::inquiry::Inquiry;
use crate::reservations::ClusterId;
use crate::together::Bond;
use crate::wake::Refusal;
use crate::wire::HostPriority;

/// Who a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    /// Its UID; empty for one that does not exist.
    pub uid: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The UID of its controller.
    pub owner: Option<&'a str>,
    /// Its index there.
    pub index: Option<&'a str>,
}

impl<'a> Identity<'a> {
    /// Of a pod.
    pub fn of(pod: &'a Value) -> Self {
        let meta = &pod["metadata"];
        let text = |member: &str| meta[member].as_str().unwrap_or_default();
        let owners = meta["ownerReferences"].as_array().into_iter().flatten();
        let mut controllers = owners.filter(|owner| owner["controller"] == true);
        Self {
            uid: text("uid"),
            namespace: text("namespace"),
            name: text("name"),
            owner: controllers.next().and_then(|owner| owner["uid"].as_str()),
            index: names::POD_INDEXES.iter().find_map(|label| meta["labels"][label].as_str()),
        }
    }
}

/// What an answer about one virtual node depends on, besides the pod.
#[derive(Clone, Copy)]
struct Asking<'a> {
    uid: &'a str,
    bond: Option<&'a Bond>,
    /// Where it fits, as far as is known.
    fits: &'a BTreeMap<ClusterId, Arc<Question>>,
    now: Instant,
}

/// What is said of a virtual node.
#[derive(Debug)]
enum Said {
    /// A pod may go there; nothing more is known.
    Unseen,
    /// It fits.
    Fits(Arc<Question>),
    /// It does not, for this reason; unless only the pod or its owner could change that, what is waited for.
    Refused(String, Option<Refusal>),
}

impl Fleet {
    /// Says why the pod may not go to which of `candidates`; all others have room for it, which is kept for a while.
    pub fn filter<'a>(
        &self,
        pod: &Value,
        candidates: &[&'a str],
        now: Instant,
        time: Timestamp,
    ) -> BTreeMap<&'a str, String> {
        let who = Identity::of(pod);
        self.expire(now);
        let kept = self.reservations().asked(who.uid);
        let lowers = self.lowers();
        for lower in kept.iter().filter_map(|cluster| lowers.get(cluster)) {
            // Nobody is woken: it is asked for again at once.
            lower.write().forget(Uid::of(who.uid));
        }

        let (nodes, exclusions) = (self.nodes(), self.exclusions.load());
        let excluded = exclusions.of(&Subject::of_pod(who.owner, who.index, who.namespace, who.name), time);
        self.gangs().untold(who.uid);
        let (mut inquiry, bond) = (self.inquiry(pod), self.bond(pod, who.uid, now));
        let (mut refused, mut refusals, mut fits) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        for &name in candidates {
            let Some(node) = nodes.get(name) else { continue };
            let said = if excluded.contains(name) {
                Said::Refused(
                    "pods of its owner keep off this node for a while: one found no room there".to_owned(),
                    None,
                )
            } else {
                self.ask(&mut inquiry, node, Asking { uid: who.uid, bond: bond.as_ref(), fits: &fits, now })
            };
            match (said, &node.lower) {
                (Said::Fits(question), Some(lower)) => drop(fits.insert(lower.clone(), question)),
                (Said::Refused(reason, refusal), _) => {
                    refused.insert(name, reason);
                    refusals.extend(refusal);
                }
                _ => {}
            }
        }
        if let Some(bond) = bond.filter(|_| !who.uid.is_empty()) {
            let others = self.settle(bond, who.uid, &mut fits, now);
            self.give_back(who.uid, &others);
            let elsewhere = |name: &&&str| {
                nodes.get(**name).is_some_and(|node| node.lower.as_ref().is_some_and(|id| others.contains(id)))
            };
            let reason = "its group goes to another lower cluster";
            refused.extend(candidates.iter().filter(elsewhere).map(|name| (*name, reason.to_owned())));
        }
        if !refused.is_empty() && refused.len() == candidates.len() && !who.uid.is_empty() {
            self.wakes.refused(who.uid, who.owner, refusals);
        } else {
            self.wakes.forget(who.uid);
        }
        if !who.uid.is_empty() {
            self.keep(who.uid, fits.into_keys().collect(), now);
        }
        refused
    }

    /// Whether the pod fits behind a virtual node. If so, room is taken for it in the same moment, so that no other pod can
    /// be told of the same; once in a cluster, though several virtual nodes may stand for it.
    fn ask(&self, inquiry: &mut Inquiry<'_>, node: &VirtualNode, asking: Asking<'_>) -> Said {
        let Asking { uid, bond, fits, now } = asking;
        let refusal = |question| node.lower.clone().map(|lower| Refusal { lower, question });
        let lower = match (self.lower_of(node, now), self.policy.stale) {
            (Ok(lower), _) => lower,
            (Err(_), Stale::Open) => return Said::Unseen,
            (Err(reason), Stale::Closed) => return Said::Refused(reason, refusal(None)),
        };
        let question = match inquiry.question(node) {
            Ok(question) => question,
            Err(refused) => return Said::Refused(refused, None),
        };
        let before = fits.get(&lower.id);
        let mut cluster = lower.write();
        if before.is_some() {
            cluster.forget(Uid::of(uid));
        }
        let refused = match bond {
            Some(bond) if cluster.look(&question).fits() => bond.refuses(&lower.id, &cluster, &question),
            _ => None,
        };
        let answer = if refused.is_some() || uid.is_empty() {
            cluster.look(&question)
        } else {
            cluster.offer(Uid::of(uid), &question)
        };
        let reason = match (refused, answer) {
            (None, Answer::Fits { .. }) => return Said::Fits(question),
            (Some(reason), _) => reason,
            (None, Answer::Refused { why, .. }) => why.to_string(),
        };
        if let Some(before) = before {
            cluster.offer(Uid::of(uid), before);
        }
        Said::Refused(format!("lower cluster {}: {reason}", lower.name), refusal(Some(question)))
    }

    /// Notes that room was taken for the pod in these clusters: the scheduler will choose one of them.
    fn keep(&self, uid: &str, clusters: Vec<ClusterId>, now: Instant) {
        let mut reservations = self.reservations();
        let Some(bound) = reservations.bound_to(uid).cloned() else {
            return reservations.told(uid, clusters, now + self.policy.reservation);
        };
        drop(reservations);
        // The binding overtook the question: the pod counts where it went, and nowhere else.
        self.give_back(uid, &clusters);
        self.assume(uid, &bound);
    }

    /// How good each of `candidates` is for the pod. The room that is kept for it does not stand in its way.
    pub fn prioritize<'a>(&self, pod: &Value, candidates: &[&'a str], now: Instant) -> Vec<HostPriority<'a>> {
        let (nodes, uid, mut inquiry) = (self.nodes(), Uid::of(Identity::of(pod).uid), self.inquiry(pod));
        let mut score = |name: &str| {
            let node = nodes.get(name)?;
            let lower = self.lower_of(node, now).ok()?;
            let question = inquiry.question(node).ok()?;
            Some(lower.write().without(uid, |cluster| {
                let answer = cluster.ask(&question);
                cluster.score(&question, &answer, &self.policy.weights)
            }))
        };
        candidates.iter().map(|&host| HostPriority { host, score: score(host).unwrap_or_default() }).collect()
    }

    /// Names of clusters whose virtual nodes are unknown to the upper cluster, or the other way round: for people.
    pub fn unmatched(&self) -> BTreeSet<String> {
        let (nodes, lowers) = (self.nodes(), self.lowers());
        let used: BTreeSet<&ClusterId> = nodes.values().filter_map(|node| node.lower.as_ref()).collect();
        lowers.values().filter(|lower| !used.contains(&lower.id)).map(|lower| lower.name.clone()).collect()
    }
}
