// SPDX-License-Identifier: Apache-2.0
//! The nodes of a cluster as columns over their dense ids.

use foldhash::HashMap;

use super::amounts::{Amounts, MAIN, clamped};
use super::labels::Labels;
use super::node_labels::NodeLabels;
use super::node_set::{BLOCK, Mask, NodeId, NodeSet, place};
use super::objects::{Node, Taint};
use super::text::{Text, Texts};
use crate::resources::ResourceName;

/// What a column holds: the main resources, and places for pods.
pub(super) const COLUMNS: usize = MAIN + 1;
/// The column of places for pods.
pub(super) const PODS: usize = MAIN;

/// The columns.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    ids: HashMap<Text, NodeId>,
    rows: Vec<Row>,
    freed: Vec<NodeId>,
    /// The nodes that exist; the others are only spoken of by pods.
    pub(super) known: Mask,
    count: usize,
    /// What is left on each node: what rows say, again, in the order of the hardware.
    free: [Vec<i64>; COLUMNS],
    /// The most that is left on a node of each block.
    most: [Vec<i64>; COLUMNS],
    scalars: HashMap<ResourceName, HashMap<NodeId, Scalar>>,
    pub(super) labels: NodeLabels,
    pub(super) unschedulable: NodeSet,
    /// Nodes by what taints they have. None is empty.
    pub(super) tainted: HashMap<Box<[Taint]>, NodeSet>,
}

#[derive(Debug, Default)]
struct Row {
    name: Text,
    node: Option<Known>,
    used: [i128; COLUMNS],
    /// How many records of pods name it.
    users: u32,
}

#[derive(Debug)]
struct Known {
    labels: Labels,
    unschedulable: bool,
    taints: Box<[Taint]>,
    allocatable: Amounts,
    pods: i64,
}

/// Another resource of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scalar {
    allocatable: i64,
    used: i128,
}

impl Scalar {
    pub(super) fn free(self) -> i64 {
        clamped(i128::from(self.allocatable) - self.used)
    }

    pub(super) fn allocatable(self) -> i64 {
        self.allocatable
    }
}

/// What is left on a node.
#[derive(Debug)]
pub(super) struct Left {
    columns: [i64; COLUMNS],
    scalars: HashMap<ResourceName, i64>,
}

impl Left {
    /// Whether it is more of anything.
    pub(super) fn is_more_than(&self, other: &Self) -> bool {
        let scalar = |left: &Self, name| left.scalars.get(name).copied().unwrap_or(0);
        self.columns.iter().zip(&other.columns).any(|(left, other)| left > other)
            || self.scalars.keys().chain(other.scalars.keys()).any(|name| scalar(self, name) > scalar(other, name))
    }
}

impl Nodes {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How many blocks their ids take.
    pub(super) fn blocks(&self) -> usize {
        self.known.blocks()
    }

    /// The node of this name, if it exists.
    pub(super) fn id(&self, name: &str) -> Option<NodeId> {
        self.ids.get(name).copied().filter(|id| self.known.contains(*id))
    }

    pub(super) fn name(&self, node: NodeId) -> Text {
        self.rows.get(node as usize).map(|row| row.name.clone()).unwrap_or_default()
    }

    pub(super) fn taints(&self, node: NodeId) -> &[Taint] {
        self.known_row(node).map_or(&[], |known| &known.taints)
    }

    /// The nodes that are in the same domain as this one in each of these topologies.
    pub(super) fn around<'k>(&self, node: NodeId, topologies: impl Iterator<Item = &'k Text>) -> Mask {
        let mut left = self.known.clone();
        for key in topologies {
            let mut domain = Mask::empty(left.blocks());
            self.labels.key(key).and_then(|key| key.around(node)).into_iter().for_each(|nodes| domain.add(nodes));
            left.keep(&domain);
        }
        left
    }

    /// What there is of a column when the node is empty.
    pub(super) fn allocatable(&self, column: usize, node: NodeId) -> i64 {
        self.known_row(node).map_or(0, |known| known.amount(column))
    }

    /// What is left in a column.
    pub(super) fn free(&self, column: usize, node: NodeId) -> i64 {
        self.column(column).get(node as usize).copied().unwrap_or(i64::MIN)
    }

    /// What is left on the nodes of a block, by bit.
    pub(super) fn free_in(&self, column: usize, block: usize) -> &[i64] {
        self.column(column).get(block * BLOCK..(block + 1) * BLOCK).unwrap_or_default()
    }

    /// The most that is left on a node of the block.
    pub(super) fn most_in(&self, column: usize, block: usize) -> i64 {
        self.most.get(column).and_then(|most| most.get(block)).copied().unwrap_or(i64::MIN)
    }

    /// Another resource of a node.
    pub(super) fn scalar(&self, name: &ResourceName, node: NodeId) -> Scalar {
        self.scalars.get(name).and_then(|nodes| nodes.get(&node)).copied().unwrap_or_default()
    }

    /// All that is left on a node.
    pub(super) fn left_on(&self, node: NodeId) -> Left {
        let mut columns = [i64::MIN; COLUMNS];
        columns.iter_mut().enumerate().for_each(|(column, left)| *left = self.free(column, node));
        let scalar =
            |(name, nodes): (&ResourceName, &HashMap<_, Scalar>)| Some((name.clone(), nodes.get(&node)?.free()));
        Left { columns, scalars: self.scalars.iter().filter_map(scalar).collect() }
    }

    /// Whether there is less than nothing left of anything on a node.
    pub(super) fn is_overfull(&self, node: NodeId) -> bool {
        let overdrawn = |nodes: &HashMap<NodeId, Scalar>| nodes.get(&node).is_some_and(|scalar| scalar.free() < 0);
        (0..COLUMNS).any(|column| self.free(column, node) < 0) || self.scalars.values().any(overdrawn)
    }

    fn column(&self, column: usize) -> &[i64] {
        self.free.get(column).map_or(&[], Vec::as_slice)
    }

    fn known_row(&self, node: NodeId) -> Option<&Known> {
        self.rows.get(node as usize)?.node.as_ref()
    }

    /// Brings in a node, new or changed. Returns whether anything that decides is different.
    pub(super) fn apply(&mut self, mut node: Node, texts: &mut Texts) -> bool {
        texts.share(&mut node.name);
        let id = self.id_for(&node.name);
        let Node { name: _, labels, unschedulable, taints, allocatable, pods } = node;
        let known = Known { labels, unschedulable, taints, allocatable, pods };
        if self.known_row(id).is_some_and(|before| before.same(&known)) {
            return false;
        }
        self.take_down(id);
        self.count += 1;
        self.known.insert(id);
        self.labels.insert(id, &known.labels);
        if known.unschedulable {
            self.unschedulable.insert(id);
        }
        if !known.taints.is_empty() {
            self.tainted.entry(known.taints.clone()).or_default().insert(id);
        }
        for (name, amount) in &known.allocatable.scalars {
            self.scalars.entry(name.clone()).or_default().entry(id).or_default().allocatable = *amount;
        }
        if let Some(row) = self.rows.get_mut(id as usize) {
            row.node = Some(known);
        }
        self.refresh(id);
        true
    }

    /// Removes a node. Pods may still name it.
    pub(super) fn remove(&mut self, name: &str) -> Option<NodeId> {
        let id = self.id(name)?;
        self.take_down(id);
        self.refresh(id);
        self.release(id);
        Some(id)
    }

    /// Names of all nodes.
    pub(super) fn names(&self) -> impl Iterator<Item = &Text> {
        self.rows.iter().filter(|row| row.node.is_some()).map(|row| &row.name)
    }

    fn take_down(&mut self, id: NodeId) {
        let Some(known) = self.rows.get_mut(id as usize).and_then(|row| row.node.take()) else { return };
        self.count -= 1;
        self.known.remove(id);
        self.labels.remove(id, &known.labels);
        self.unschedulable.remove(id);
        if let Some(nodes) = self.tainted.get_mut(&known.taints) {
            nodes.remove(id);
            if nodes.is_empty() {
                self.tainted.remove(&known.taints);
            }
        }
        for (name, _) in &known.allocatable.scalars {
            self.change_scalar(name, id, |scalar| scalar.allocatable = 0);
        }
    }

    fn change_scalar(&mut self, name: &ResourceName, id: NodeId, change: impl FnOnce(&mut Scalar)) {
        let nodes = self.scalars.entry(name.clone()).or_default();
        let scalar = nodes.entry(id).or_default();
        change(scalar);
        if *scalar == Scalar::default() {
            nodes.remove(&id);
            if nodes.is_empty() {
                self.scalars.remove(name);
            }
        }
    }

    /// The id of the node of this name, also when it is not known yet: for pods that name it.
    pub(super) fn hold(&mut self, name: &Text) -> NodeId {
        let id = self.id_for(name);
        if let Some(row) = self.rows.get_mut(id as usize) {
            row.users += 1;
        }
        id
    }

    /// Ends what [`Nodes::hold`] began.
    pub(super) fn let_go(&mut self, id: NodeId) {
        if let Some(row) = self.rows.get_mut(id as usize) {
            row.users = row.users.saturating_sub(1);
        }
        self.release(id);
    }

    /// A pod that takes this is on the node now, or not any more.
    pub(super) fn occupy(&mut self, id: NodeId, request: &Amounts, pods: i128) {
        let Some(row) = self.rows.get_mut(id as usize) else { return };
        for (used, amount) in row.used.iter_mut().zip(request.main) {
            *used += i128::from(amount) * pods;
        }
        if let Some(used) = row.used.get_mut(PODS) {
            *used += pods;
        }
        for (name, amount) in &request.scalars {
            self.change_scalar(name, id, |scalar| scalar.used += i128::from(*amount) * pods);
        }
        self.refresh(id);
    }

    fn id_for(&mut self, name: &Text) -> NodeId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.freed.pop().unwrap_or_else(|| u32::try_from(self.rows.len()).unwrap_or(u32::MAX));
        let row = Row { name: name.clone(), ..Row::default() };
        if let Some(free) = self.rows.get_mut(id as usize) {
            *free = row;
        } else {
            self.rows.push(row);
            let rows = self.rows.len().next_multiple_of(BLOCK);
            self.free.iter_mut().for_each(|column| column.resize(rows, i64::MIN));
            self.most.iter_mut().for_each(|column| column.resize(rows / BLOCK, i64::MIN));
            // Makes the set as long as the columns.
            self.known.insert(id);
            self.known.remove(id);
        }
        self.ids.insert(name.clone(), id);
        id
    }

    /// What is left over when nothing is known.
    #[cfg(test)]
    pub(super) fn residue(&self) -> usize {
        let used = self.rows.iter().filter(|row| row.used != [0; COLUMNS] || row.users > 0).count();
        let labels = usize::from(!self.labels.is_empty()) + self.tainted.len() + self.scalars.len();
        self.ids.len() + used + labels + usize::from(!self.unschedulable.is_empty()) + self.known.count()
    }

    /// Frees the id of a node that does not exist and is not spoken of.
    fn release(&mut self, id: NodeId) {
        let Some(row) = self.rows.get(id as usize) else { return };
        if row.node.is_none() && row.users == 0 && self.ids.remove(&row.name).is_some() {
            self.freed.push(id);
        }
    }

    /// Reckons anew what is left on a node, and the most of its block.
    fn refresh(&mut self, id: NodeId) {
        let Some(row) = self.rows.get(id as usize) else { return };
        let (block, _) = place(id);
        for (index, ((column, most), used)) in self.free.iter_mut().zip(&mut self.most).zip(row.used).enumerate() {
            let left = row.node.as_ref().map_or(i64::MIN, |node| clamped(i128::from(node.amount(index)) - used));
            let Some(free) = column.get_mut(id as usize) else { continue };
            let before = std::mem::replace(free, left);
            let Some(most) = most.get_mut(block) else { continue };
            if left >= *most {
                *most = left;
            } else if before == *most {
                let nodes = column.get(block * BLOCK..(block + 1) * BLOCK).unwrap_or_default();
                *most = nodes.iter().copied().max().unwrap_or(i64::MIN);
            }
        }
    }
}

impl Known {
    fn same(&self, other: &Self) -> bool {
        self.labels == other.labels
            && self.unschedulable == other.unschedulable
            && self.taints == other.taints
            && self.allocatable == other.allocatable
            && self.pods == other.pods
    }

    fn amount(&self, column: usize) -> i64 {
        self.allocatable.main.get(column).copied().unwrap_or(self.pods)
    }
}
