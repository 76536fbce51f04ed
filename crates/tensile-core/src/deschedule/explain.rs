// SPDX-License-Identifier: Apache-2.0
//! What is going to be done about one pod, and why.

use jiff::Timestamp;

use super::plan::{Plan, World};
use super::{Permit, Pod, Policy};

/// What is going to be done about a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// In a word that does not change: `evict`, `exclude`, `recreate`, `restart`, `stay`, `wait` or `nothing`.
    pub verdict: &'static str,
    /// Why; the reason of an event where there is one.
    pub reason: &'static str,
    /// In words.
    pub why: String,
    /// What finds it, or will.
    pub found: Vec<Finding>,
}

/// A strategy that finds the pod, or will if it stays as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The profile.
    pub profile: String,
    /// The plugin.
    pub plugin: &'static str,
    /// From when on.
    pub from: Timestamp,
    /// In words.
    pub reason: String,
}

/// What `plan`, made of `world`, has for `pod`.
pub fn explain(world: &World<'_>, policy: &Policy, plan: &Plan, pod: &Pod, now: Timestamp) -> Explanation {
    let node = pod.node.as_deref().and_then(|node| world.nodes.get(node));
    let selected = node.is_some_and(|node| policy.selects(node));
    let strategies = policy.strategies.iter().filter(|strategy| selected && strategy.namespaces.has(&pod.namespace));
    let found: Vec<Finding> = strategies
        .filter_map(|strategy| {
            let (from, reason) = strategy.plugin.due(pod, node)?;
            Some(Finding { profile: strategy.profile.clone(), plugin: strategy.plugin.name(), from, reason })
        })
        .collect();
    let (verdict, reason, why) = verdict(world, plan, pod, selected, &found, now);
    Explanation { verdict, reason, why, found }
}

fn verdict(
    world: &World<'_>,
    plan: &Plan,
    pod: &Pod,
    selected: bool,
    found: &[Finding],
    now: Timestamp,
) -> (&'static str, &'static str, String) {
    let said = |verdict, reason, why: &str| (verdict, reason, why.to_owned());
    let is_it = |uid: &str| *uid == *pod.uid;
    if let Some(held) = plan.held.iter().find(|held| is_it(&held.pod)) {
        return ("stay", held.why.reason(), held.why.to_string());
    }
    let due = found.iter().any(|finding| finding.from <= now);
    if pod.deleting {
        said("nothing", "Ending", "it is ending")
    } else if plan.evict.iter().any(|eviction| is_it(&eviction.pod)) {
        said("evict", "Descheduled", "its owner is excluded from its node, or no exclusion is needed")
    } else if plan.restart.iter().any(|restart| is_it(&restart.pod)) {
        said("restart", "RolledOut", "its Deployment is rolled out anew, and makes new pods first")
    } else if plan.recreate.iter().any(|eviction| is_it(&eviction.pod)) {
        said("recreate", "Descheduled", "it is excluded from its node, and made again elsewhere")
    } else if plan.exclude.iter().any(|exclude| is_it(&exclude.pod)) {
        said("exclude", "Excluded", "its successor is kept off its node first; then it is evicted")
    } else if plan.ask.iter().any(|uid| is_it(uid)) {
        said("wait", "OwnerUnknown", "its Job or its Deployment is looked at first")
    } else if pod.kept || world.moves.contains(&pod.uid) {
        said("wait", "Moving", "it is being moved; the journal of that is a ConfigMap")
    } else if world.asked.contains(&pod.uid) {
        said("wait", "Asked", "its eviction was asked for a moment ago, or was refused and is asked for again soon")
    } else if due && pod.owner.is_some() && world.guard.permit(now) == Permit::NotYet {
        said("wait", "ExclusionNotEnforced", "it is not known yet whether exclusions are enforced")
    } else if due {
        said(
            "wait",
            "Limited",
            "another pod of its owner is on its way or does not serve yet, or a limit on the number of moves is reached",
        )
    } else if !found.is_empty() {
        said("wait", "Patience", "a strategy finds it if it stays like this")
    } else if pod.node.is_none() {
        said("nothing", "Unbound", "it is bound to no node, and no exclusion that it bears has run out")
    } else if !selected {
        said("nothing", "NotSelected", "its node is no virtual node, or not one that the policy selects")
    } else {
        said("nothing", "NotFound", "no strategy finds it")
    }
}
