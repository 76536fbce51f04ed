// SPDX-License-Identifier: Apache-2.0
//! Pods that were refused everywhere, and how they learn that there is room.
//!
//! A scheduler tries a pod that an extender refused again when something happens to a node or a pod of its own cluster, or
//! after five minutes. What happens below is neither. So a virtual node gets another value of an annotation when its lower
//! cluster may have room for a pod that was refused: that is something that happens to a node.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tensile_core::names;
use tensile_core::scheduling::Question;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::reservations::ClusterId;

/// Time between two wake-ups of a virtual node.
const PAUSE: Duration = Duration::from_secs(1);
/// Owners whose pods were refused that are remembered; when there are more, any gain of room is told.
const REMEMBERED: usize = 1_000;

/// Why a pod was refused in a lower cluster.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The lower cluster.
    pub lower: ClusterId,
    /// What was asked there; `None`: it was not asked, because it was not known well enough.
    pub question: Option<Arc<Question>>,
}

/// What was refused, and where there is room since.
#[derive(Debug, Default)]
pub struct Wakes {
    memory: Mutex<Memory>,
    changed: Notify,
}

/// Pods of one owner look alike: one of them stands for all.
#[derive(Debug, Default)]
struct Memory {
    owners: BTreeMap<String, Refused>,
    owner_of: HashMap<String, String>,
    forgotten: bool,
    gained: BTreeSet<ClusterId>,
}

#[derive(Debug, Default)]
struct Refused {
    refusals: Vec<Refusal>,
    pods: BTreeSet<String>,
}

impl Wakes {
    /// A pod was refused everywhere.
    pub fn refused(&self, uid: &str, owner: Option<&str>, refusals: Vec<Refusal>) {
        let owner = owner.unwrap_or(uid);
        let mut memory = self.memory();
        if !memory.owners.contains_key(owner) && memory.owners.len() >= REMEMBERED {
            memory.forgotten = true;
            return;
        }
        let refused = memory.owners.entry(owner.to_owned()).or_default();
        refused.refusals = refusals;
        refused.pods.insert(uid.to_owned());
        memory.owner_of.insert(uid.to_owned(), owner.to_owned());
    }

    /// A pod needs no room any more, or found it.
    pub fn forget(&self, uid: &str) {
        let mut memory = self.memory();
        let Some(owner) = memory.owner_of.remove(uid) else { return };
        if let Some(refused) = memory.owners.get_mut(&owner) {
            refused.pods.remove(uid);
            if refused.pods.is_empty() {
                memory.owners.remove(&owner);
            }
        }
    }

    /// A lower cluster may have room.
    pub fn gained(&self, lower: &ClusterId) {
        let mut memory = self.memory();
        if memory.is_waited_for(lower) && memory.gained.insert(lower.clone()) {
            self.changed.notify_one();
        }
    }

    /// How many pods are waited for.
    pub fn waiting(&self) -> usize {
        self.memory().owner_of.len()
    }

    /// Clusters that may have room since the last time, each with what was refused there; `None`: more than is remembered.
    fn take(&self) -> Vec<(ClusterId, Option<Vec<Refusal>>)> {
        let mut memory = self.memory();
        let gained = std::mem::take(&mut memory.gained);
        let all_known = !memory.forgotten;
        if memory.owners.is_empty() {
            memory.forgotten = false;
        }
        let there = |lower: &ClusterId| {
            let all = memory.owners.values().flat_map(|refused| &refused.refusals);
            all.filter(|refusal| refusal.lower == *lower).cloned().collect()
        };
        let gained = gained.into_iter();
        gained
            .map(|lower| {
                let refusals = all_known.then(|| there(&lower));
                (lower, refusals)
            })
            .collect()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn is_waited_for(&self, lower: &ClusterId) -> bool {
        self.forgotten
            || self.owners.values().any(|refused| refused.refusals.iter().any(|refusal| refusal.lower == *lower))
    }
}

/// Tells the upper cluster of room until `stop`.
pub async fn run(fleet: &Fleet, client: Client, metrics: Metrics, stop: CancellationToken) {
    let nodes: Api<Node> = Api::all(client);
    let work = async {
        loop {
            fleet.wakes.changed.notified().await;
            for node in nodes_with_room(fleet) {
                let annotations = json!({ names::ROOM: Timestamp::now().to_string() });
                let change = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
                match nodes.patch_metadata(&node, &PatchParams::default(), &change).await {
                    Ok(_) => {
                        metrics.wakes.inc();
                        tracing::debug!(node, "there may be room again");
                    }
                    Err(error) => {
                        tracing::warn!(node, %error, "schedulers could not be told of room; the next gain tells them");
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    stop.run_until_cancelled(work).await;
}

/// The virtual nodes behind which something that was refused fits now.
fn nodes_with_room(fleet: &Fleet) -> Vec<String> {
    let (lowers, now) = (fleet.lowers(), Instant::now());
    let fits = |lower: &ClusterId, refusal: &Refusal| match &refusal.question {
        Some(question) => lowers.get(lower).is_some_and(|lower| lower.write().look(question).fits()),
        None => lowers.get(lower).is_some_and(|lower| lower.state(now, fleet.patience).is_ok()),
    };
    let gained = fleet.wakes.take().into_iter();
    let roomy: BTreeSet<ClusterId> = gained
        .filter(|(lower, refusals)| refusals.as_ref().is_none_or(|all| all.iter().any(|refusal| fits(lower, refusal))))
        .map(|(lower, _)| lower)
        .collect();
    let nodes = fleet.nodes();
    let behind = nodes.iter().filter(|(_, node)| node.lower.as_ref().is_some_and(|lower| roomy.contains(lower)));
    behind.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(lower: &str) -> Vec<Refusal> {
        vec![Refusal { lower: lower.into(), question: None }]
    }

    fn gained(wakes: &Wakes) -> Vec<(String, Option<usize>)> {
        let all = wakes.take().into_iter();
        all.map(|(lower, refusals)| (lower.to_string(), refusals.map(|all| all.len()))).collect()
    }

    #[test]
    fn room_is_told_only_where_somebody_was_refused_and_pods_of_one_owner_count_once() {
        let wakes = Wakes::default();
        wakes.refused("p", Some("o"), refusal("a"));
        wakes.refused("q", Some("o"), refusal("a"));
        for lower in ["a", "a", "b"] {
            wakes.gained(&lower.into());
        }
        assert_eq!(gained(&wakes), [("a".to_owned(), Some(1))]);
        assert_eq!(gained(&wakes), []);
    }

    #[test]
    fn who_found_room_is_not_waited_for() {
        let wakes = Wakes::default();
        wakes.refused("p", None, refusal("a"));
        wakes.refused("q", Some("o"), refusal("a"));
        assert_eq!(wakes.waiting(), 2);
        wakes.forget("p");
        wakes.forget("q");
        wakes.gained(&"a".into());
        assert_eq!((wakes.waiting(), gained(&wakes)), (0, vec![]));
    }

    #[test]
    fn when_more_are_refused_than_are_remembered_every_gain_is_told() {
        let wakes = Wakes::default();
        for number in 0..=REMEMBERED {
            wakes.refused(&number.to_string(), None, refusal("a"));
        }
        assert_eq!(wakes.waiting(), REMEMBERED);
        wakes.gained(&"b".into());
        assert_eq!(gained(&wakes), [("b".to_owned(), None)]);
    }
}
