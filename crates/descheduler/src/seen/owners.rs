// SPDX-License-Identifier: Apache-2.0
//! What the owners of pods said, and when a pod of theirs was evicted.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use tensile_core::deschedule::{JobFacts, Rollout};

/// How long what an owner said is believed, in seconds.
const LASTS: i64 = 5;
/// How long it is known that a pod was evicted, in seconds: longer than anybody waits for its successor.
const EVICTED_LASTS: i64 = 60;

/// What is known of owners, by UID, each with when it was said.
#[derive(Debug, Default)]
pub struct Owners {
    jobs: BTreeMap<Arc<str>, (JobFacts, Timestamp)>,
    rollouts: BTreeMap<Arc<str>, (Rollout, Timestamp)>,
    evicted: BTreeMap<Arc<str>, Timestamp>,
}

/// What of it counts.
#[derive(Debug)]
pub(super) struct Recent<'a> {
    pub(super) jobs: BTreeMap<Arc<str>, JobFacts>,
    pub(super) rollouts: BTreeMap<Arc<str>, Rollout>,
    pub(super) evicted: &'a BTreeMap<Arc<str>, Timestamp>,
}

impl Owners {
    /// What a Job says now.
    pub fn job(&mut self, uid: &str, facts: JobFacts, now: Timestamp) {
        self.jobs.insert(uid.into(), (facts, now));
    }

    /// What a `ReplicaSet` and its Deployment say now.
    pub fn rollout(&mut self, uid: &str, rollout: Rollout, now: Timestamp) {
        self.rollouts.insert(uid.into(), (rollout, now));
    }

    /// A pod of it was evicted.
    pub(super) fn evicted(&mut self, uid: &str, now: Timestamp) {
        self.evicted.insert(uid.into(), now);
    }

    /// What it said is not so any more: the next of its pods is weighed against what it says then.
    pub fn forget(&mut self, uid: &str) {
        self.jobs.remove(uid);
        self.rollouts.remove(uid);
    }

    /// Forgets what is too old.
    pub(super) fn recent(&mut self, now: Timestamp) -> Recent<'_> {
        self.evicted.retain(|_, at| now.duration_since(*at).as_secs() < EVICTED_LASTS);
        Recent { jobs: recent(&mut self.jobs, now), rollouts: recent(&mut self.rollouts, now), evicted: &self.evicted }
    }
}

fn recent<T: Clone>(said: &mut BTreeMap<Arc<str>, (T, Timestamp)>, now: Timestamp) -> BTreeMap<Arc<str>, T> {
    said.retain(|_, (_, since)| now.duration_since(*since).as_secs() < LASTS);
    said.iter().map(|(uid, (facts, _))| (uid.clone(), facts.clone())).collect()
}
