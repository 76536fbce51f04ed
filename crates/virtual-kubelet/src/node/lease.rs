// SPDX-License-Identifier: Apache-2.0
//! The node's lease: the sign of life that the control plane watches.
//!
//! It says that this process lives and reaches the API server, nothing about the backend. So it is renewed also while
//! the backend is away, as a real kubelet renews its own while its container runtime is down: what the node can do is
//! said by condition Ready, which the controller sets to False itself. Stopping the lease instead would leave the
//! control plane to guess (Unknown), later, and for a reason that nobody can read.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::api::{ApiError, RawApi, set};
use crate::{
    back_off::{back_off, chance},
    time,
};

#[cfg(test)]
mod tests;

/// Namespace of all node leases.
pub(super) const NAMESPACE: &str = "kube-node-lease";
/// Failed renewals that are repeated at once before the lease is looked at again and waits begin.
const QUICK_RETRIES: u32 = 5;
/// First and longest wait between tries to get hold of the lease.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(7));
/// Up to this share of the interval is added by chance, so that leases do not all come at once.
const JITTER: f64 = 0.04;

/// Whose lease it is and how long it holds.
#[derive(Clone, Debug)]
pub(super) struct LeaseTerms {
    /// Name of the node, of the lease and of its holder.
    pub(super) node: Arc<str>,
    /// How long after a renewal the node still counts as alive.
    pub(super) duration: Duration,
    /// Time between renewals.
    pub(super) interval: Duration,
}

/// One request about the lease.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    /// Look whether there is one.
    Get,
    /// Make it.
    Create(Value),
    /// Renew it.
    Replace(Value),
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// Well: this is the lease now.
    Lease(Value),
    /// There is none.
    NotFound,
    /// Somebody else was faster.
    Conflict,
    /// Some other way.
    Failed,
}

/// How far the keeping of a lease has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Renewal {
    step: Step,
    /// Renewals that failed and were repeated at once.
    repeated: u32,
    /// Tries after that, each with its wait.
    failures: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Step {
    #[default]
    Look,
    Make,
    /// As long as nobody else writes the lease, what we wrote last is still true and need not be read again.
    Renew(Value),
}

/// What comes after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The lease was renewed: the next renewal is due after the interval.
    Renewed,
    /// Not yet: the next request is due after this wait.
    Again(Duration),
}

impl Renewal {
    /// The next request. The owner is the Node's UID: a lease does not outlive its Node, and follows it when the Node is
    /// made anew.
    pub(super) fn request(&self, terms: &LeaseTerms, owner: &str, now: Timestamp) -> Request {
        match &self.step {
            Step::Look => Request::Get,
            Step::Make => Request::Create(renewed(&json!({}), terms, owner, now)),
            Step::Renew(lease) => Request::Replace(renewed(lease, terms, owner, now)),
        }
    }

    /// Takes in the answer to the last request. `spread` (0 to 1) is chance.
    pub(super) fn answered(&mut self, answer: Answer, spread: f64) -> Next {
        match (std::mem::take(&mut self.step), answer) {
            (Step::Look, Answer::Lease(lease)) => {
                self.step = Step::Renew(lease);
                Next::Again(Duration::ZERO)
            }
            (Step::Look, Answer::NotFound) => {
                self.step = Step::Make;
                Next::Again(Duration::ZERO)
            }
            (Step::Make | Step::Renew(_), Answer::Lease(lease)) => {
                *self = Self { step: Step::Renew(lease), ..Self::default() };
                Next::Renewed
            }
            (Step::Renew(lease), Answer::Failed) if self.repeated < QUICK_RETRIES => {
                self.step = Step::Renew(lease);
                self.repeat()
            }
            // What we knew is outdated: look again.
            (Step::Make | Step::Renew(_), Answer::NotFound | Answer::Conflict) if self.repeated < QUICK_RETRIES => {
                self.repeat()
            }
            _ => {
                self.failures = self.failures.saturating_add(1);
                Next::Again(back_off(RETRY.0, RETRY.1, self.failures, spread))
            }
        }
    }

    fn repeat(&mut self) -> Next {
        self.repeated += 1;
        Next::Again(Duration::ZERO)
    }
}

/// `lease` as it is after a renewal at `now`; everything that is not ours stays.
fn renewed(lease: &Value, terms: &LeaseTerms, owner: &str, now: Timestamp) -> Value {
    let mut lease = lease.clone();
    let ours = json!({"apiVersion": "v1", "kind": "Node", "name": &*terms.node, "uid": owner});
    let others = lease["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let owners: Vec<Value> = others.into_iter().filter(|other| other["kind"] != "Node").chain([ours]).collect();
    let members: [(&[&str], Value); 8] = [
        (&["apiVersion"], "coordination.k8s.io/v1".into()),
        (&["kind"], "Lease".into()),
        (&["metadata", "name"], (*terms.node).into()),
        (&["metadata", "namespace"], NAMESPACE.into()),
        (&["metadata", "ownerReferences"], owners.into()),
        (&["spec", "holderIdentity"], (*terms.node).into()),
        (&["spec", "leaseDurationSeconds"], terms.duration.as_secs().into()),
        (&["spec", "renewTime"], time::in_micros(now).into()),
    ];
    for (path, member) in members {
        set(&mut lease, path, member);
    }
    lease
}

/// Renews the lease for ever, while there is a Node to own it; at once when that has a new UID.
pub(super) async fn keep(api: &RawApi, terms: &LeaseTerms, mut owner: watch::Receiver<Option<String>>) {
    let mut renewal = Renewal::default();
    loop {
        let Some(uid) = owner.borrow_and_update().clone() else {
            if owner.changed().await.is_err() {
                return;
            }
            continue;
        };
        let sent = match renewal.request(terms, &uid, Timestamp::now()) {
            Request::Get => api.get().await,
            Request::Create(lease) => api.create(&lease).await,
            Request::Replace(lease) => api.replace(&lease).await,
        };
        let answer = match sent {
            Ok(lease) => Answer::Lease(lease),
            Err(ApiError::NotFound) => Answer::NotFound,
            Err(ApiError::Conflict(_)) => Answer::Conflict,
            Err(error) => {
                tracing::warn!(node = &*terms.node, %error, "lease was not renewed, trying again");
                Answer::Failed
            }
        };
        let wait = match renewal.answered(answer, chance()) {
            Next::Renewed => terms.interval.mul_f64(1.0 + JITTER * chance()),
            Next::Again(wait) => wait,
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            changed = owner.changed() => if changed.is_err() { return },
        }
    }
}
