// SPDX-License-Identifier: Apache-2.0
//! What is to be done next about the certificates. Pure.
//!
//! A rotation of the CA never leaves an API server without trust: first the new CA is told beside the old one, then,
//! once they have had time to hear of it, it signs; the old one is told on until it ends, which is after everything
//! that it signed. Its key is gone from the moment the new CA is there.
//!
//! When something is due follows from the certificates alone, not from how long new ones would last: replicas with
//! different settings, as during an upgrade, do not undo each other's work.

use jiff::{SignedDuration, Timestamp};
use tensile_runtime::tls::Validity;

/// What the Secret holds, as far as decisions need it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The CAs, newest first; the first is the one whose key is there.
    pub cas: Vec<Validity>,
    /// The serving certificate.
    pub leaf: Option<LeafFacts>,
}

/// A serving certificate, as far as decisions need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafFacts {
    /// From when until when it is valid.
    pub validity: Validity,
    /// Which of the CAs signed it.
    pub issuer: Option<usize>,
    /// Whether it is for all names it has to be for.
    pub fits: bool,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// There is nothing to go on from: a new CA, and a serving certificate of it.
    Begin,
    /// A new CA beside the old ones; the serving certificate stays.
    AddCa,
    /// A serving certificate of the newest CA.
    Issue,
    /// CAs that have ended are no longer told.
    Forget,
    /// Nothing before this time, unless something changes.
    Wait(Timestamp),
}

/// The next step with what the Secret holds, when API servers were `told` of the newest CA at that time and need up to
/// `settle` to hear of it.
pub fn plan(facts: &Facts, told: Option<Timestamp>, settle: SignedDuration, now: Timestamp) -> Action {
    let Some(newest) = facts.cas.first().filter(|ca| !has_ended(**ca, now)) else { return Action::Begin };
    let Some(leaf) = facts.leaf.filter(|leaf| !has_ended(leaf.validity, now)) else { return Action::Issue };
    match leaf.issuer {
        // Nobody can trust it.
        None => return Action::Issue,
        Some(0) => {}
        Some(_) => {
            let heard = told.map(|told| told.saturating_add(settle).unwrap_or(Timestamp::MAX));
            return match heard {
                Some(heard) if heard <= now => Action::Issue,
                heard => Action::Wait(heard.unwrap_or(Timestamp::MAX).min(end(leaf.validity))),
            };
        }
    }
    if renewal(*newest) <= now {
        return Action::AddCa;
    }
    if renewal(leaf.validity) <= now || !leaf.fits {
        return Action::Issue;
    }
    if facts.cas.iter().any(|ca| has_ended(*ca, now)) {
        return Action::Forget;
    }
    let ends = facts.cas.iter().skip(1).map(|ca| end(*ca));
    let next = ends.fold(renewal(*newest).min(renewal(leaf.validity)), Timestamp::min);
    Action::Wait(next)
}

/// When two thirds of its life are over.
fn renewal(validity: Validity) -> Timestamp {
    let (from, until) = (validity.from.as_second(), validity.until.as_second());
    Timestamp::from_second(until - (until - from) / 3).unwrap_or(validity.until)
}

/// The first second in which it is no longer valid.
fn end(validity: Validity) -> Timestamp {
    validity.until.saturating_add(SignedDuration::from_secs(1)).unwrap_or(Timestamp::MAX)
}

fn has_ended(validity: Validity, now: Timestamp) -> bool {
    end(validity) <= now
}

#[cfg(test)]
mod tests;
