//! What makes a pod move: a plugin of a policy, and the pods it looks at.

use std::time::Duration;

use jiff::Timestamp;

use super::back_off::later;
use super::node::VirtualNode;
use super::pod::{Phase, Pod};

/// One enabled plugin of one profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strategy {
    /// The profile's name.
    pub profile: String,
    /// Where it looks.
    pub namespaces: Namespaces,
    /// What it looks for.
    pub plugin: Plugin,
}

/// Some namespaces; all, if neither list has any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespaces {
    /// Only these, if any.
    pub include: Vec<String>,
    /// Not these.
    pub exclude: Vec<String>,
}

impl Namespaces {
    /// Whether it is one of them.
    pub fn has(&self, namespace: &str) -> bool {
        let among = |list: &[String]| list.iter().any(|known| known == namespace);
        (self.include.is_empty() || among(&self.include)) && !among(&self.exclude)
    }
}

/// What a strategy looks for. The names of those that the field's descheduler has too are its own, and they mean the
/// same here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plugin {
    /// Pods for which the lower scheduler has found no node for so long.
    UnschedulableBelow {
        /// How long.
        after: Duration,
    },
    /// Pods that the lower cluster has not taken (quota, admission) for so long.
    RefusedBelow {
        /// How long.
        after: Duration,
    },
    /// Pods that have not started, on a node that has not been ready for so long.
    NodeNotReady {
        /// How long.
        after: Duration,
    },
    /// `PodLifeTime`: pods that are old.
    LifeTime {
        /// Older than this.
        max: Duration,
        /// Only with one of these as phase or reason; none: any.
        states: Vec<String>,
    },
    /// `RemovePodsHavingTooManyRestarts`.
    TooManyRestarts {
        /// So many or more.
        threshold: u64,
        /// Those of init containers count.
        init: bool,
        /// Only with one of these as phase or reason; none: any.
        states: Vec<String>,
    },
    /// `RemoveFailedPods`.
    Failed {
        /// Older than this.
        min_life: Duration,
        /// Only with one of these reasons; none: any.
        reasons: Vec<String>,
        /// Not of these kinds of owners.
        not_owned_by: Vec<String>,
    },
}

impl Plugin {
    /// Its name in policies, metrics and events.
    pub fn name(&self) -> &'static str {
        match self {
            Self::UnschedulableBelow { .. } => "RemovePodsUnschedulableBelow",
            Self::RefusedBelow { .. } => "RemovePodsRefusedBelow",
            Self::NodeNotReady { .. } => "RemovePodsOnNotReadyNodes",
            Self::LifeTime { .. } => "PodLifeTime",
            Self::TooManyRestarts { .. } => "RemovePodsHavingTooManyRestarts",
            Self::Failed { .. } => "RemoveFailedPods",
        }
    }

    /// Whether it is about room: many such pods are fragmentation, not an outage.
    pub fn is_about_room(&self) -> bool {
        matches!(self, Self::UnschedulableBelow { .. })
    }

    /// From when on the pod is to be moved, if it stays as it is, and why.
    pub fn due(&self, pod: &Pod, node: Option<&VirtualNode>) -> Option<(Timestamp, String)> {
        match self {
            Self::UnschedulableBelow { after } => {
                let trouble = pod.unschedulable.as_ref().filter(|_| !pod.started)?;
                Some((later(trouble.since, *after), format!("no room in its cluster: {}", trouble.message)))
            }
            Self::RefusedBelow { after } => {
                let trouble = pod.refused.as_ref().filter(|_| !pod.started)?;
                Some((later(trouble.since, *after), format!("its cluster does not take it: {}", trouble.message)))
            }
            Self::NodeNotReady { after } => {
                let since = node?.not_ready_since.filter(|_| !pod.started && !pod.finished())?;
                Some((later(since, *after), "its node is not ready".to_owned()))
            }
            Self::LifeTime { max, states } => {
                let state = in_state(pod, states)?;
                (!pod.finished() || !states.is_empty())
                    .then(|| (later(pod.created, *max), format!("it is older than {} s and {state}", max.as_secs())))
            }
            Self::TooManyRestarts { threshold, init, states } => {
                let count = pod.restarts.saturating_add(if *init { pod.init_restarts } else { 0 });
                let state = in_state(pod, states)?;
                (count >= *threshold).then(|| (pod.created, format!("it was restarted {count} times and is {state}")))
            }
            Self::Failed { min_life, reasons, not_owned_by } => {
                let kind = pod.owner.as_ref().map(|owner| &*owner.kind);
                let left_out = not_owned_by.iter().any(|other| Some(other.as_str()) == kind);
                let reason = if reasons.is_empty() { Some("Failed") } else { among(&pod.reasons, reasons) };
                let reason = reason.filter(|_| pod.phase == Phase::Failed && !left_out)?;
                Some((later(pod.created, *min_life), format!("it has failed: {reason}")))
            }
        }
    }
}

/// The state of `states` that the pod is in; its phase where any will do.
fn in_state<'a>(pod: &'a Pod, states: &[String]) -> Option<&'a str> {
    let phase = pod.phase.name();
    if states.is_empty() || states.iter().any(|state| state == phase) {
        return Some(phase);
    }
    among(&pod.reasons, states)
}

fn among<'a>(reasons: &'a [Box<str>], wanted: &[String]) -> Option<&'a str> {
    reasons.iter().map(AsRef::as_ref).find(|reason| wanted.iter().any(|wanted| wanted == reason))
}
