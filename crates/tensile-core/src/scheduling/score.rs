// SPDX-License-Identifier: Apache-2.0
//! How good a place a cluster is for a pod that fits there.

use serde::Deserialize;

use super::amounts::{CPU, MEMORY};
use super::answer::Answer;
use super::ask::Search;
use super::capacity::capacity;
use super::cluster::Cluster;
use super::framework::{Cycle, Score as _};
use super::node_set::NodeId;
use super::plugins::Balance;
use super::question::Question;

/// What is wanted of a whole of clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Pods go where most room is.
    #[default]
    Spread,
    /// Pods go where least room is.
    Binpack,
    /// Neither: what is left keeps its proportions.
    Balanced,
}

/// What counts how much. Only the proportions matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Weights {
    /// What is wanted.
    pub mode: Mode,
    /// How many more such pods fit: many in mode spread, few in mode binpack.
    pub headroom: u32,
    /// How little is left on the node it fits on best.
    pub tightness: u32,
    /// How much of the node's larger rest it does not break up: CPU and memory are left in proportion.
    pub stranding: u32,
    /// How many of its preferred terms the node matches.
    pub preferred: u32,
}

impl Default for Weights {
    fn default() -> Self {
        Self { mode: Mode::Spread, headroom: 4, tightness: 2, stranding: 2, preferred: 2 }
    }
}

/// The best of a part of the score.
const TOP: u64 = 10;
/// As many replicas as count as much room.
const MANY: u64 = 1 << TOP;

/// How good a place the cluster is.
pub(super) fn score(cluster: &Cluster, question: &Question, answer: &Answer, weights: &Weights) -> u8 {
    let cycle = Cycle::new(cluster, question, &[]);
    let Ok(search) = Search::new(cluster, &cycle) else { return 0 };
    let fit = search.all();
    if !answer.fits() || fit.count() == 0 {
        return 0;
    }
    // What is left when this one is there.
    let more = capacity(cluster, question, MANY).saturating_sub(1);
    let headroom = u64::from(more.checked_ilog2().unwrap_or(0));
    let headroom = match weights.mode {
        Mode::Spread => headroom,
        Mode::Binpack => TOP - headroom.min(TOP),
        Mode::Balanced => TOP / 2,
    };
    let balance = Balance(&cycle);
    let best = |of: &dyn Fn(NodeId) -> u64| fit.iter().map(of).max().unwrap_or(0).min(TOP);
    let parts = [
        (weights.headroom, headroom),
        (weights.tightness, best(&|node| TOP - left(&cycle, node))),
        (weights.stranding, best(&|node| u64::try_from(balance.score(node) / 10).unwrap_or(0))),
        (weights.preferred, best(&|node| preferred(&cycle, node))),
    ];
    let sum: u64 = parts.iter().map(|(weight, part)| u64::from(*weight) * part).sum();
    let all: u64 = parts.iter().map(|(weight, _)| u64::from(*weight)).sum();
    u8::try_from((sum + all / 2).checked_div(all).unwrap_or(TOP / 2)).unwrap_or(0)
}

/// Tenths of the node's CPU or memory, whichever is more, that would be left.
fn left(cycle: &Cycle<'_>, node: NodeId) -> u64 {
    let tenths = |column: usize| {
        let whole = cycle.nodes.allocatable(column, node);
        let wanted = cycle.question.shape.request.main.get(column).copied().unwrap_or(0);
        let left = cycle.nodes.free(column, node).saturating_sub(wanted).max(0);
        let tenths = i128::from(left) * i128::from(TOP) / i128::from(whole.max(1));
        u64::try_from(tenths).unwrap_or(TOP).min(TOP)
    };
    tenths(CPU).max(tenths(MEMORY))
}

/// Tenths of the weights of preferred terms that the node matches.
fn preferred(cycle: &Cycle<'_>, node: NodeId) -> u64 {
    let (mut matched, mut all) = (0_i64, 0_i64);
    for (weight, term) in &cycle.question.preferred {
        all = all.saturating_add(*weight);
        if term.select(cycle.nodes, &cycle.nodes.known).contains(node) {
            matched = matched.saturating_add(*weight);
        }
    }
    if all <= 0 { 0 } else { u64::try_from(i128::from(matched) * i128::from(TOP) / i128::from(all)).unwrap_or(0) }
}

/// The node that the cluster's scheduler would choose, as far as its scores are modelled.
pub(super) fn best_node(cluster: &Cluster, question: &Question) -> Option<NodeId> {
    let cycle = Cycle::new(cluster, question, &[]);
    let fit: Vec<NodeId> = Search::new(cluster, &cycle).ok()?.all().iter().collect();
    let mut totals = vec![0_i64; fit.len()];
    for enabled in cluster.profile.plugins.iter().filter(|enabled| enabled.weight > 0) {
        let Some(scores) = enabled.plugin.pre_score(&cycle) else { continue };
        let raw: Vec<i64> = fit.iter().map(|node| scores.score(*node)).collect();
        let largest = if scores.normalized() { raw.iter().copied().max().unwrap_or(0) } else { 100 };
        for (total, raw) in totals.iter_mut().zip(raw) {
            let score = if largest == 0 { 0 } else { raw.saturating_mul(100) / largest };
            let score = if scores.reversed() { 100 - score } else { score };
            *total = total.saturating_add(score.saturating_mul(enabled.weight));
        }
    }
    // Of equals the first: replicas of this service choose alike.
    fit.into_iter().zip(totals).max_by_key(|(node, total)| (*total, std::cmp::Reverse(*node))).map(|(node, _)| node)
}
