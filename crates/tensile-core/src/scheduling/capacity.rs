// SPDX-License-Identifier: Apache-2.0
//! How many replicas of a pod a cluster would take.

use std::sync::Arc;

use super::ask::Search;
use super::cluster::Cluster;
use super::framework::Cycle;
use super::objects::AccessMode;
use super::plugins;
use super::question::Question;

/// Replicas that matter to one another are placed one by one, up to this many; more are not looked for.
const PLACED: u64 = 1_000;

/// How many replicas would find a node, up to `most`.
pub(super) fn capacity(cluster: &Cluster, question: &Question, most: u64) -> u64 {
    let cycle = Cycle::new(cluster, question, &[]);
    if matter_to_one_another(cluster, question) {
        return place(cluster, question, most.min(plugins::quota_room(&cycle)).min(PLACED));
    }
    Search::new(cluster, &cycle).map_or(0, |search| search.count(most))
}

/// Whether where one replica is says where another can be, besides the room it takes on its node.
fn matter_to_one_another(cluster: &Cluster, question: &Question) -> bool {
    let shape = &question.shape;
    let claims = shape.claims.iter().filter_map(|name| cluster.storage.claim(&shape.namespace, name));
    !question.affinity.is_empty()
        || !shape.anti_affinity.is_empty()
        || !question.spread.is_empty()
        || claims.into_iter().any(|claim| claim.access.contains(&AccessMode::ReadWriteOncePod))
}

/// Places one after the other, each on the first node that it fits on.
fn place(cluster: &Cluster, question: &Question, most: u64) -> u64 {
    let mut placed = Vec::new();
    while (placed.len() as u64) < most {
        let cycle = Cycle::new(cluster, question, &placed);
        let Some(node) = Search::new(cluster, &cycle).ok().and_then(|search| search.first()) else { break };
        placed.push((node, Arc::clone(&question.shape)));
    }
    placed.len() as u64
}
