// SPDX-License-Identifier: Apache-2.0
//! What makes a pod move: a plugin of a policy, and the pods it looks at.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::back_off::later;
use super::balance::Levels;
use super::node::VirtualNode;
use super::pod::{Phase, Pod};
use crate::names;
use crate::placement::selector::Taint;

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
    /// `RemovePodsViolatingNodeTaints`: pods that do not tolerate a taint of their node. A cordon is such a taint.
    NodeTaints {
        /// Which taints.
        taints: Taints,
        /// A Deployment whose strategy has it make new pods first is rolled out anew instead.
        surge: bool,
    },
    /// `LowNodeUtilization`: pods move off nodes that are fuller than `high` while there are some emptier than `low`.
    LowNodeUtilization {
        /// Below all of these a node is nearly empty.
        low: Levels,
        /// Above one of these it is too full.
        high: Levels,
        /// Both are about the distance from the mean of all nodes.
        deviation: bool,
        /// Only where more nodes than this are nearly empty.
        nodes: usize,
    },
    /// `HighNodeUtilization`: nodes that are emptier than `low` are emptied.
    HighNodeUtilization {
        /// Below all of these a node is nearly empty.
        low: Levels,
        /// Only where more nodes than this are nearly empty.
        nodes: usize,
    },
}

/// Some of the taints of a node: `KEY` or `KEY=VALUE` each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taints {
    /// Only these, if any.
    pub included: Vec<String>,
    /// Not these.
    pub excluded: Vec<String>,
    /// Also those that schedulers only prefer to avoid.
    pub prefer: bool,
}

impl Taints {
    /// Whether it is one of them. The one that marks virtual nodes never is.
    fn has(&self, taint: &Taint) -> bool {
        let is = |one: &String| match one.split_once('=') {
            Some((key, value)) => taint.key == key && taint.value == value,
            None => taint.key == *one,
        };
        let counts = taint.effect == "NoSchedule" || self.prefer && taint.effect == "PreferNoSchedule";
        counts
            && taint.key != names::PROVIDER_TAINT
            && (self.included.is_empty() || self.included.iter().any(is))
            && !self.excluded.iter().any(is)
    }
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
            Self::NodeTaints { .. } => "RemovePodsViolatingNodeTaints",
            Self::LowNodeUtilization { .. } => "LowNodeUtilization",
            Self::HighNodeUtilization { .. } => "HighNodeUtilization",
        }
    }

    /// Whether it weighs nodes against each other instead of looking at each pod.
    pub fn balances(&self) -> bool {
        matches!(self, Self::LowNodeUtilization { .. } | Self::HighNodeUtilization { .. })
    }

    /// Whether nothing is wrong with the pods that it finds: they are taken one by one, and exclusions that others rely on
    /// stay.
    pub fn disturbs(&self) -> bool {
        self.balances() || matches!(self, Self::NodeTaints { .. })
    }

    /// Whether many such pods on a node are an outage. Many without room are fragmentation.
    pub fn shows_failure(&self) -> bool {
        !self.disturbs() && !matches!(self, Self::UnschedulableBelow { .. })
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
                let count = u64::from(pod.restarts) + if *init { u64::from(pod.init_restarts) } else { 0 };
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
            Self::NodeTaints { taints, .. } => {
                let node = node.filter(|node| node.not_ready_since.is_none() && !pod.finished())?;
                let mut counting = node.taints.iter().filter(|taint| taints.has(taint)).peekable();
                // Most nodes have none, and tolerations are read for each pod.
                counting.peek()?;
                let Taint { key, effect, .. } = pod.untolerated(counting)?;
                Some((pod.created, format!("it does not tolerate the taint {key}:{effect} of its node")))
            }
            Self::LowNodeUtilization { .. } | Self::HighNodeUtilization { .. } => None,
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

fn among<'a>(reasons: &'a [Arc<str>], wanted: &[String]) -> Option<&'a str> {
    reasons.iter().map(AsRef::as_ref).find(|reason| wanted.iter().any(|wanted| wanted == reason))
}
