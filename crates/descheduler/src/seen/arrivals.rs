// SPDX-License-Identifier: Apache-2.0
//! Pods that were moved and whose successors do not run yet: how long a move took as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tensile_core::deschedule::{Phase, Pod};

/// A successor that has not run by then is waited for no longer.
const PATIENCE: SignedDuration = SignedDuration::from_hours(1);
/// Creation times are whole seconds.
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Moves that have not come to an end.
#[derive(Debug, Default)]
pub(super) struct Arrivals(Vec<Awaited>);

#[derive(Debug)]
struct Awaited {
    /// UID of the pod's owner, or its own.
    of: Arc<str>,
    /// When its lower scheduler gave up.
    since: Timestamp,
    /// When it was evicted.
    left: Timestamp,
}

impl Arrivals {
    /// The pod was evicted. Only of those without room is told how long it took.
    pub(super) fn left(&mut self, pod: &Pod, now: Timestamp) {
        let of = pod.owner.as_ref().map_or(&pod.uid, |owner| &owner.uid).clone();
        self.0.extend(pod.unschedulable.as_ref().map(|trouble| Awaited { of, since: trouble.since, left: now }));
    }

    /// How long those took whose successor runs now; they are told once.
    pub(super) fn arrived<'a>(&mut self, pods: impl Iterator<Item = &'a Pod>, now: Timestamp) -> Vec<Duration> {
        self.0.retain(|awaited| now.duration_since(awaited.left) < PATIENCE);
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut running: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
        for pod in pods.filter(|pod| !pod.deleting && matches!(pod.phase, Phase::Running | Phase::Succeeded)) {
            if let Some(of) = pod.owner.as_ref().map(|owner| &*owner.uid).or(pod.origin.as_deref()) {
                running.entry(of).or_default().push(pod.created);
            }
        }
        let mut took = Vec::new();
        self.0.retain(|awaited| {
            let created = running.get_mut(&*awaited.of);
            let successor = created.and_then(|created| {
                let at = created.iter().position(|created| *created + SECOND > awaited.left)?;
                Some(created.swap_remove(at))
            });
            if successor.is_some() {
                took.push(Duration::try_from(now.duration_since(awaited.since)).unwrap_or_default());
            }
            successor.is_none()
        });
        took
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn pod(uid: &str, created: i64, more: &Value) -> Pod {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o", "controller": true});
        Pod::read(&json!({
            "metadata": {"namespace": "n", "name": uid, "uid": uid, "resourceVersion": "1", "ownerReferences": [owner],
                "creationTimestamp": at(created).to_string()},
            "spec": {}, "status": more,
        }))
        .unwrap()
    }

    #[test]
    fn a_move_ends_when_its_successor_runs() {
        let stuck = json!({"conditions": [{"type": "virtual-kubelet.io/Scheduled", "status": "False", "reason": "Unschedulable",
            "lastTransitionTime": at(-9).to_string()}]});
        let (stuck, running) = (pod("a", -20, &stuck), json!({"phase": "Running"}));
        let mut arrivals = Arrivals::default();
        arrivals.left(&stuck, at(0));
        arrivals.left(&stuck, at(1));
        let mut pods = vec![pod("b", -20, &running), pod("c", 1, &json!({"phase": "Pending"}))];
        assert!(arrivals.arrived(pods.iter(), at(2)).is_empty(), "one was there before, one does not run");
        pods.push(pod("d", 1, &running));
        assert_eq!(arrivals.arrived(pods.iter(), at(3)), [Duration::from_secs(12)], "one successor ends one move");
        pods[1] = pod("c", 1, &running);
        pods.remove(2);
        assert_eq!(arrivals.arrived(pods.iter(), at(4)), [Duration::from_secs(13)]);
        arrivals.left(&stuck, at(5));
        assert!(arrivals.arrived([].into_iter(), at(5 + 3600)).is_empty());
        assert!(arrivals.0.is_empty());
    }
}
