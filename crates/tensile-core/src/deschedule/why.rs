// SPDX-License-Identifier: Apache-2.0
//! Why a pod stays where it is, though a strategy found it.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// A pod that is left where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// Its UID.
    pub pod: Arc<str>,
    /// Why.
    pub why: Why,
}

/// Why a pod is left where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Nobody would make it again.
    NoController,
    /// The policy protects pods like it.
    Protected(&'static str),
    /// So many pods of the node fail that it is an outage.
    Outage(Arc<str>),
    /// Its Job would count a failure too many.
    JobWouldFail,
    /// No other virtual node may take it.
    NowhereElse,
    /// No other lower cluster has room for it, says the multi-scheduler.
    NowhereFits,
    /// Its owner was moved too often.
    Parked(Timestamp),
    /// Nothing shows that exclusions are enforced; what is missing.
    NobodyEnforces(Arc<str>),
    /// It came back to the node that its owner is excluded from.
    NotEnforced(Arc<str>),
    /// A later build wrote the exclusions of its owner, in this version.
    NewerRecord(u64),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoController => f.write_str("it has no controller that would make it again"),
            Self::Protected(what) => write!(f, "the policy protects {what}"),
            Self::Outage(node) => write!(f, "most pods of {node} fail: an outage there is not mended by moving them"),
            Self::JobWouldFail => f.write_str(
                "its Job would count the eviction as one of its last failures; a podFailurePolicy whose first rule \
                 ignores DisruptionTarget allows it",
            ),
            Self::NowhereElse => f.write_str("no other virtual node that is ready meets its constraints"),
            Self::NowhereFits => f.write_str(
                "the multi-scheduler finds room for it in no other lower cluster that meets its constraints",
            ),
            Self::Parked(until) => write!(f, "pods of its owner were moved too often; they are not before {until}"),
            Self::NobodyEnforces(missing) => write!(f, "nobody would keep its successor off this node: {missing}"),
            Self::NotEnforced(node) => write!(
                f,
                "it came back to {node} though its owner is excluded from it: exclusions are not enforced when pods \
                 are created. Is the webhook there?"
            ),
            Self::NewerRecord(version) => write!(
                f,
                "a later build wrote the exclusions of its owner, in version {version}; this one does not know what they \
                 say, and leaves them as they are"
            ),
        }
    }
}

impl Why {
    /// The reason of the event that tells it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoController => "NoController",
            Self::Protected(_) => "Protected",
            Self::Outage(_) => "Outage",
            Self::JobWouldFail => "JobWouldFail",
            Self::NowhereElse => "NowhereElse",
            Self::NowhereFits => "NowhereFits",
            Self::Parked(_) => "Parked",
            Self::NobodyEnforces(_) | Self::NotEnforced(_) => "ExclusionNotEnforced",
            Self::NewerRecord(_) => "ExclusionNotReadable",
        }
    }
}
