// SPDX-License-Identifier: Apache-2.0
//! When the tokens of a pod are requested anew.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Tokens, key};
use crate::names;

/// Renewed after this part of its life at the earliest, and at the latest, in ten-thousandths. The latest is a kubelet's
/// (Kubernetes `pkg/kubelet/token/token_manager.go`, `requiresRefresh`). Tokens of pods that were made together are
/// spread in between.
const PART: (u64, u64) = (6_000, 8_000);
const WHOLE: u64 = 10_000;
/// No token is kept for longer, however long it lives: a kubelet's rule too.
const LONGEST_SECONDS: u64 = 24 * 60 * 60;

/// The life of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// When it ends, by the clock of the upper API server.
    pub expires: Timestamp,
    /// How long it was given.
    pub seconds: u64,
}

/// The lives of the tokens that a Secret holds, by key. Noted on it in annotation [`names::TOKENS`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lives(BTreeMap<String, Life>);

impl Lives {
    /// Those noted on a Secret; what cannot be read is not known to live.
    #[must_use]
    pub fn noted(annotation: Option<&str>) -> Self {
        annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// As they are noted.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// The token with this key lives so long.
    pub fn insert(&mut self, key: String, life: Life) {
        self.0.insert(key, life);
    }

    fn get(&self, key: &str) -> Option<&Life> {
        self.0.get(key)
    }
}

/// What to do for the tokens of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Request those in these places, now.
    Request(Vec<usize>),
    /// Nothing before this time.
    Wait(Timestamp),
}

/// What to do for the `tokens` of the pod with this UID, of which those in `held` are in the Secret; `None`: there is none.
#[must_use]
pub fn plan(tokens: &Tokens, uid: &str, held: Option<&Lives>, now: Timestamp) -> Step {
    let mut due = Vec::new();
    let mut next = Timestamp::MAX;
    for place in 0..tokens.tokens.len() {
        let key = key(place);
        match held.and_then(|held| held.get(&key)) {
            Some(life) => {
                let at = renew_at(life, &format!("{uid}/{key}"));
                if at <= now {
                    due.push(place);
                } else {
                    next = next.min(at);
                }
            }
            None => due.push(place),
        }
    }
    if due.is_empty() { Step::Wait(next) } else { Step::Request(due) }
}

/// When a token is requested anew: after 60 to 80 % of its life, but always the same for one token of `whose`.
#[must_use]
pub fn renew_at(life: &Life, whose: &str) -> Timestamp {
    let chance = names::fnv1a(format!("{whose}/{}", life.expires).as_bytes()) % (PART.1 - PART.0 + 1);
    let kept = life.seconds.min(LONGEST_SECONDS).saturating_mul(PART.0 + chance) / WHOLE;
    let left = i64::try_from(life.seconds - kept.min(life.seconds)).unwrap_or(i64::MAX);
    // A time that no calendar has: at once.
    life.expires.checked_sub(SignedDuration::from_secs(left)).unwrap_or(Timestamp::MIN)
}
