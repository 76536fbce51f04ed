// SPDX-License-Identifier: Apache-2.0
//! Moving pods that one lower cluster cannot run: which, when, and what must be written before.
//!
//! A pod is moved by evicting it; its controller makes another, which an exclusion ([`crate::exclusion`]) keeps off the
//! node. [`plan`] is a function of what was watched: nothing is evicted off a node unless an exclusion that says so *was
//! seen* in the cluster. So whoever acts on the plan may be killed anywhere: it leaves a pod where it was and a node that
//! is avoided for a time, or an evicted pod whose successor goes elsewhere. Counts are read from what is there (records,
//! pods that are ending) and never kept aside; only the token buckets are, and they forgive.
//!
//! Before any of that a canary has shown that exclusions are enforced ([`Guard`]). A pod without a controller is made again
//! by us, if the policy allows it, with a journal of its move ([`bare`]).
//!
//! A Deployment that makes new pods before old ones go can be rolled out anew instead ([`Rollout`]); its pods are not evicted
//! then.
//!
//! A pod that is bound nowhere is evicted without an exclusion, in one case: it bears one that has run out, and nothing
//! else keeps it from that node ([`Cause::Outlived`]).

mod back_off;
mod balance;
pub mod bare;
mod explain;
mod fit;
mod guard;
mod job;
mod limits;
mod node;
mod plan;
mod planner;
mod plugin;
mod pod;
mod pool;
mod rollout;
#[cfg(test)]
mod tests;
mod why;

pub use self::back_off::BackOff;
pub use self::balance::Levels;
pub use self::explain::{Explanation, Finding, explain};
pub use self::fit::Fit;
pub use self::guard::{Guard, Permit, canary, shown};
pub use self::job::JobFacts;
pub use self::limits::{Buckets, Limits};
pub use self::node::VirtualNode;
pub use self::plan::{Cause, Eviction, Exclude, Inquiry, Places, Plan, Restart, World, plan};
pub use self::plugin::{Namespaces, Plugin, Strategy, Taints};
pub use self::pod::{Owner, Phase, Pod, Trouble};
pub use self::pool::Pools;
pub use self::rollout::{Rollout, Turn, Version};
pub use self::why::{Held, Why};

/// What is moved, and how much of it.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Whatever one of them finds is moved; the first that does gives the reason.
    pub strategies: Vec<Strategy>,
    /// What is never moved.
    pub protections: Protections,
    /// How long a node is avoided.
    pub back_off: BackOff,
    /// How many times the pods of an owner are excluded from some node within [`BackOff::most`] before they are left
    /// where they are.
    pub moves: u32,
    /// When a node's pods fail in such number that it is an outage, not fragmentation.
    pub breaker: Breaker,
    /// Moves pods only off nodes with these labels (`--node-selector`).
    pub nodes: Vec<(String, String)>,
}

impl Policy {
    /// Whether Deployments are rolled out anew.
    pub fn surges(&self) -> bool {
        self.strategies.iter().any(|strategy| matches!(strategy.plugin, Plugin::NodeTaints { surge: true, .. }))
    }

    /// Whether pods may be moved off the node at all.
    fn selects(&self, node: &VirtualNode) -> bool {
        self.nodes.iter().all(|(key, value)| node.labels.get(key) == Some(value))
    }
}

/// What is never moved. Pods of a `DaemonSet` and mirror pods never are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protections {
    /// Pods of this priority and above (Kubernetes: system-critical from 2,000,000,000 on).
    pub priority: i32,
    /// Pods with a persistent volume claim: the claim is bound where its volume is. Those of a `StatefulSet` always are.
    pub claims: bool,
    /// Pods that have started and hold data in an `emptyDir` or `hostPath`.
    pub local_storage: bool,
    /// Pods younger than this.
    pub min_age: std::time::Duration,
    /// Pods without a controller are not: those that have not started are made again ([`bare`]).
    pub recreate: bool,
}

impl Default for Protections {
    fn default() -> Self {
        Self {
            priority: SYSTEM_CRITICAL,
            claims: true,
            local_storage: true,
            min_age: std::time::Duration::ZERO,
            recreate: false,
        }
    }
}

/// Lowest priority of system-critical pods (Kubernetes `pkg/apis/scheduling/types.go`, `SystemCriticalPriority`).
pub const SYSTEM_CRITICAL: i32 = 2_000_000_000;

/// Opens for a node when that many of its pods fail for another reason than room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Fewer are never an outage.
    pub at_least: usize,
    /// More than this share of the node's pods, in percent.
    pub percent: usize,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { at_least: 10, percent: 50 }
    }
}
