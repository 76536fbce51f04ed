// SPDX-License-Identifier: Apache-2.0
//! Election of one leader among replicas, by a Lease (coordination/v1) and client-go's rules (`tools/leaderelection`).
//!
//! [`Candidate`] decides and touches nothing: which request is next, and what its answer means. [`campaign`] performs
//! the requests and tells whether we lead. A leader that cannot renew knows that it has lost before anybody else may
//! take over, because it gives up after [`Terms::renew_deadline`], and others wait for the longer [`Terms::duration`].
//! Clocks of different machines are never compared: how long a lease lasts is measured from when *we* saw it change.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What the candidates for one lease agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Name of the lease.
    pub name: String,
    /// Who we are: different for each replica.
    pub identity: String,
    /// How long a lease lasts that is not renewed.
    pub duration: Duration,
    /// How long a leader goes on without a renewal; shorter than [`Terms::duration`].
    pub renew_deadline: Duration,
    /// Time between tries.
    pub retry: Duration,
}

impl Terms {
    /// client-go's usual times: 15 s, 10 s and 2 s.
    pub fn new(name: &str, identity: &str) -> Self {
        Self {
            name: name.to_owned(),
            identity: identity.to_owned(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// One request about the lease.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Look who holds it.
    Get,
    /// Make it, held by us.
    Create(Box<Lease>),
    /// Take it or renew it; refused when somebody else was faster (`resourceVersion`).
    Replace(Box<Lease>),
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Well: this is the lease now.
    Lease(Box<Lease>),
    /// There is none.
    NotFound,
    /// Somebody else was faster, or nobody knows.
    Failed,
}

/// One that wants to lead.
#[derive(Debug, Clone)]
pub struct Candidate {
    terms: Terms,
    /// What the lease said when it last changed, and when we saw that.
    seen: Option<(LeaseSpec, Instant)>,
    /// The lease that may be replaced without another look.
    current: Option<Box<Lease>>,
    /// There is none to look at.
    absent: bool,
    /// When the last renewal that succeeded was sent.
    renewed: Option<Instant>,
}

impl Candidate {
    /// One that has seen nothing yet.
    pub fn new(terms: Terms) -> Self {
        Self { terms, seen: None, current: None, absent: false, renewed: None }
    }

    /// Whether we lead, at `now`.
    pub fn leads(&self, now: Instant) -> bool {
        self.until().is_some_and(|end| now < end)
    }

    /// Until when we lead, unless we renew it.
    pub fn until(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + self.terms.renew_deadline)
    }

    /// The next request, at `now` and, by the wall clock, `time`.
    pub fn request(&self, now: Instant, time: Timestamp) -> Request {
        match &self.current {
            None if self.absent => Request::Create(Box::new(self.held(None, time))),
            Some(lease) if self.may_take(now) => Request::Replace(Box::new(self.held(Some(lease), time))),
            _ => Request::Get,
        }
    }

    /// Takes in the answer to `request`, which was sent at `sent`. Whether the next one is due at once; else it is due
    /// after [`Terms::retry`].
    pub fn answered(&mut self, request: &Request, answer: Answer, sent: Instant) -> bool {
        let absent = std::mem::take(&mut self.absent);
        match (request, answer) {
            (Request::Get, Answer::Lease(lease)) => {
                self.observe(&lease, sent);
                self.current = Some(lease);
                self.may_take(sent)
            }
            (Request::Get, Answer::NotFound) => {
                self.absent = true;
                !absent
            }
            (Request::Create(_) | Request::Replace(_), Answer::Lease(lease)) => {
                self.observe(&lease, sent);
                self.current = Some(lease);
                self.renewed = Some(sent);
                false
            }
            // Somebody else's is looked at again at the next try.
            _ => {
                self.current = None;
                false
            }
        }
    }

    /// The request that gives the lease back, so that the next leader need not wait.
    pub fn release(&self, now: Instant, time: Timestamp) -> Option<Box<Lease>> {
        let lease = self.current.as_ref().filter(|_| self.leads(now))?;
        let mut released = self.held(Some(lease), time);
        if let Some(spec) = &mut released.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        Some(Box::new(released))
    }

    fn observe(&mut self, lease: &Lease, now: Instant) {
        let spec = lease.spec.clone().unwrap_or_default();
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != spec) {
            self.seen = Some((spec, now));
        }
    }

    /// Ours, nobody's, or not renewed for its own duration since we saw it change.
    fn may_take(&self, now: Instant) -> bool {
        let Some((spec, since)) = &self.seen else { return true };
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let lasts = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
        holder.is_empty() || holder == self.terms.identity || now > *since + Duration::from_secs(lasts)
    }

    /// `lease` as it is when we hold it at `time`; what is not ours to say stays.
    fn held(&self, lease: Option<&Lease>, time: Timestamp) -> Lease {
        let mut lease = lease.cloned().unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.terms.name.clone()), ..ObjectMeta::default() },
            ..Lease::default()
        });
        let spec = lease.spec.get_or_insert_default();
        let time = Some(MicroTime(time));
        if spec.holder_identity.as_deref() != Some(&*self.terms.identity) {
            spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count.saturating_add(1)));
            spec.holder_identity = Some(self.terms.identity.clone());
            spec.acquire_time.clone_from(&time);
        }
        spec.renew_time = time;
        spec.lease_duration_seconds = Some(i32::try_from(self.terms.duration.as_secs()).unwrap_or(i32::MAX));
        lease
    }
}

/// Runs for the lease in the API's namespace until `stop`, and tells in `leads` whether we lead. Gives it back at the
/// end. Errors are logged and tried again.
pub async fn campaign(leases: Api<Lease>, terms: Terms, leads: watch::Sender<bool>, stop: CancellationToken) {
    let mut candidate = Candidate::new(terms);
    while !stop.is_cancelled() {
        let again = step(&leases, &mut candidate).await;
        tell(&candidate, &leads);
        if again {
            continue;
        }
        let next = tokio::time::Instant::now() + candidate.terms.retry;
        let lost = candidate.until().map_or(next, tokio::time::Instant::from_std).min(next);
        for when in [lost, next] {
            if stop.run_until_cancelled(tokio::time::sleep_until(when)).await.is_none() {
                break;
            }
            tell(&candidate, &leads);
        }
    }
    leads.send_replace(false);
    if let Some(lease) = candidate.release(Instant::now(), Timestamp::now())
        && let Err(error) = leases.replace(&candidate.terms.name, &PostParams::default(), &lease).await
    {
        tracing::warn!(lease = candidate.terms.name, %error, "lease was not given back; it runs out");
    }
}

/// Sends one request; whether the next is due at once.
async fn step(leases: &Api<Lease>, candidate: &mut Candidate) -> bool {
    let (sent, params) = (Instant::now(), PostParams::default());
    let request = candidate.request(sent, Timestamp::now());
    let name = candidate.terms.name.clone();
    let answer = async {
        match &request {
            Request::Get => leases.get_opt(&name).await,
            Request::Create(lease) => leases.create(&params, lease).await.map(Some),
            Request::Replace(lease) => leases.replace(&name, &params, lease).await.map(Some),
        }
    };
    // An answer that comes later than this would find us deposed.
    let answer = match tokio::time::timeout(candidate.terms.renew_deadline / 2, answer).await {
        Ok(Ok(Some(lease))) => Answer::Lease(Box::new(lease)),
        Ok(Ok(None)) => Answer::NotFound,
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Answer::Failed,
        Ok(Err(error)) => {
            tracing::warn!(lease = name, %error, "lease was not renewed, trying again");
            Answer::Failed
        }
        Err(_) => {
            tracing::warn!(lease = name, "no answer about the lease in time, trying again");
            Answer::Failed
        }
    };
    candidate.answered(&request, answer, sent)
}

fn tell(candidate: &Candidate, leads: &watch::Sender<bool>) {
    let now = candidate.leads(Instant::now());
    let changed = leads.send_if_modified(|told| std::mem::replace(told, now) != now);
    if changed {
        let (lease, identity) = (&candidate.terms.name, &candidate.terms.identity);
        tracing::info!(lease, identity, leads = now, "leadership changed");
    }
}

#[cfg(test)]
mod tests;
