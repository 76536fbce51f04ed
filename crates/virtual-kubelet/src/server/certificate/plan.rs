// SPDX-License-Identifier: Apache-2.0
//! What is due about the certificate: pure, with time and chance as arguments.
//!
//! One request at a time. It is kept until somebody decides it or it is gone, however long that takes: a new one every
//! quarter of an hour would only bury the one that an operator looks for.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Addresses, Validity};
use crate::back_off::back_off;

/// How long a decision is waited for in silence (as a kubelet: `certificateWaitTimeout`).
const OVERDUE: SignedDuration = SignedDuration::from_mins(15);
/// The pause between two looks at a request is a quarter of its age, within these bounds; the last one when it is overdue.
const LOOK: (SignedDuration, SignedDuration, SignedDuration) =
    (SignedDuration::from_secs(1), SignedDuration::from_secs(10), SignedDuration::from_mins(5));
/// First and longest wait after the API server did not take a request.
const AWAY: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(300));
/// First and longest wait after a request was refused, or was removed before it was decided: somebody meant that.
const REFUSED: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(3600));
/// A certificate is replaced after this share of its life, and up to `SPREAD` later by chance.
const ROTATE: f64 = 0.7;
const SPREAD: f64 = 0.2;
/// However short its life is, it is shown for so long.
const LEAST: SignedDuration = SignedDuration::from_secs(10);

/// How far it has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    /// What the node is reached at.
    addresses: Addresses,
    /// What was issued last.
    served: Option<Served>,
    /// What is asked for.
    request: Option<Request>,
    failures: u32,
    /// Nothing is asked before then.
    pause: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
struct Served {
    addresses: Addresses,
    rotate: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
struct Request {
    addresses: Addresses,
    /// When the API server took it, if it has.
    sent: Option<Timestamp>,
    /// When it was looked at last.
    looked: Timestamp,
    /// Whether it was said that it is overdue.
    told: bool,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing before this time; without one, until the addresses change.
    Wait(Option<Timestamp>),
    /// Make a key and a request for [`State::addresses`]; what was asked for before is forgotten.
    Begin,
    /// Send the request.
    Send,
    /// Look whether it is decided.
    Look,
    /// Tell that nobody decided it for long.
    Tell,
}

/// What came of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// There is a key and a request.
    Begun,
    /// The API server has the request.
    Sent,
    /// It is not decided.
    Undecided,
    /// It was told.
    Told,
    /// A certificate was issued and is shown.
    Issued(Validity),
    /// It was denied, cannot be signed, or was removed.
    Refused,
    /// The API server did not answer, or did not take it.
    Away,
}

impl State {
    /// For a node that is reached at these addresses.
    pub(super) fn new(addresses: Addresses) -> Self {
        Self { addresses, ..Self::default() }
    }

    /// What the certificate is to name.
    pub(super) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Whether the API server has a request that nobody decided.
    pub(super) fn is_undecided(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.sent.is_some())
    }

    /// Takes in what the node is reached at from now on. Earlier failures were about others.
    pub(super) fn reached_at(&mut self, addresses: Addresses) {
        if addresses != self.addresses {
            self.addresses = addresses;
            self.pause = None;
        }
    }

    /// What is due at `now`.
    pub(super) fn plan(&self, now: Timestamp) -> Action {
        if self.addresses.is_empty() {
            // Nobody can dial the node, and a signer wants at least one.
            return Action::Wait(None);
        }
        let (action, due) = match &self.request {
            Some(request) if request.addresses == self.addresses => match request.sent {
                None => (Action::Send, self.pause),
                Some(sent) => request.next(sent, now),
            },
            _ => (Action::Begin, self.rotation().max(self.pause)),
        };
        match due {
            Some(due) if now < due => Action::Wait(Some(due)),
            _ => action,
        }
    }

    /// When what is served is to be replaced; at once if it is for other addresses, or there is none.
    fn rotation(&self) -> Option<Timestamp> {
        self.served.as_ref().filter(|served| served.addresses == self.addresses).map(|served| served.rotate)
    }

    /// Takes in what came of the planned action. `spread` (0 to 1) is chance.
    pub(super) fn answered(&mut self, answer: Answer, now: Timestamp, spread: f64) {
        match (answer, &mut self.request) {
            (Answer::Begun, _) => {
                self.request =
                    Some(Request { addresses: self.addresses.clone(), sent: None, looked: now, told: false });
            }
            (Answer::Sent, Some(request)) => (request.sent, request.looked) = (Some(now), now),
            (Answer::Undecided, Some(request)) => request.looked = now,
            (Answer::Told, Some(request)) => request.told = true,
            (Answer::Issued(validity), Some(request)) => {
                let addresses = std::mem::take(&mut request.addresses);
                self.served = Some(Served { addresses, rotate: rotate(validity, now, spread) });
                (self.request, self.failures, self.pause) = (None, 0, None);
            }
            (Answer::Refused, _) => {
                self.request = None;
                self.fail(REFUSED, now, spread);
            }
            // A look that failed is repeated as if it had been answered.
            (Answer::Away, Some(request)) if request.sent.is_some() => request.looked = now,
            (Answer::Away, _) => self.fail(AWAY, now, spread),
            (_, None) => {}
        }
    }

    fn fail(&mut self, (first, most): (Duration, Duration), now: Timestamp, spread: f64) {
        self.failures = self.failures.saturating_add(1);
        let wait =
            SignedDuration::try_from(back_off(first, most, self.failures, spread)).unwrap_or(SignedDuration::MAX);
        self.pause = Some(later(now, wait));
    }
}

impl Request {
    fn next(&self, sent: Timestamp, now: Timestamp) -> (Action, Option<Timestamp>) {
        let (least, most, overdue) = LOOK;
        let tell = later(sent, OVERDUE);
        if !self.told && tell <= now {
            return (Action::Tell, None);
        }
        let most = if self.told { overdue } else { most };
        let look = later(self.looked, (self.looked.duration_since(sent) / 4).clamp(least, most));
        (Action::Look, Some(if self.told { look } else { look.min(tell) }))
    }
}

/// When a certificate that was received at `now` is to be replaced. Signers date certificates back (the controller
/// manager by five minutes): only what was left of its life counts.
fn rotate(validity: Validity, now: Timestamp, spread: f64) -> Timestamp {
    let from = validity.from.max(now);
    let life = validity.until.duration_since(from).mul_f64(ROTATE + SPREAD * spread.clamp(0.0, 1.0));
    later(from, life).max(later(now, LEAST))
}

fn later(time: Timestamp, wait: SignedDuration) -> Timestamp {
    time.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
