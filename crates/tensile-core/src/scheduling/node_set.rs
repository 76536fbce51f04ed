// SPDX-License-Identifier: Apache-2.0
//! Sets of nodes by their dense ids: sparse ones that are kept, dense ones to reckon with.

/// Number of a node within its cluster. Freed numbers are used again.
pub(super) type NodeId = u32;

/// Nodes of a block: as many as a word has bits.
pub(super) const BLOCK: usize = 64;

/// The block a node is in, and its bit there.
pub(super) fn place(node: NodeId) -> (usize, u64) {
    (node as usize / BLOCK, 1 << (node as usize % BLOCK))
}

/// The nodes of a block's bits.
pub(super) fn nodes_of(block: usize, bits: u64) -> impl Iterator<Item = NodeId> {
    let first = u32::try_from(block * BLOCK).unwrap_or(u32::MAX);
    let mut left = bits;
    std::iter::from_fn(move || {
        let bit = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        (bit < 64).then(|| first + bit)
    })
}

/// A set that takes little when it holds few: blocks that are not empty, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeSet(Vec<(u32, u64)>);

impl NodeSet {
    fn block(node: NodeId) -> (u32, u64) {
        let (block, bit) = place(node);
        (u32::try_from(block).unwrap_or(u32::MAX), bit)
    }

    pub(super) fn insert(&mut self, node: NodeId) {
        let (block, bit) = Self::block(node);
        match self.0.binary_search_by_key(&block, |(known, _)| *known) {
            Ok(at) => self.0.iter_mut().skip(at).take(1).for_each(|(_, bits)| *bits |= bit),
            Err(at) => self.0.insert(at, (block, bit)),
        }
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        let (block, bit) = Self::block(node);
        let Ok(at) = self.0.binary_search_by_key(&block, |(known, _)| *known) else { return };
        if let Some((_, bits)) = self.0.get_mut(at) {
            *bits &= !bit;
            if *bits == 0 {
                self.0.remove(at);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn blocks(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().map(|(block, bits)| (*block as usize, *bits))
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.blocks().flat_map(|(block, bits)| nodes_of(block, bits))
    }
}

/// A set with a word for each block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask(Vec<u64>);

impl Mask {
    /// The empty set over that many blocks.
    pub(super) fn empty(blocks: usize) -> Self {
        Self(vec![0; blocks])
    }

    /// The bits of a block.
    pub(super) fn bits(&self, block: usize) -> u64 {
        self.0.get(block).copied().unwrap_or_default()
    }

    pub(super) fn set_bits(&mut self, block: usize, bits: u64) {
        if let Some(known) = self.0.get_mut(block) {
            *known = bits;
        }
    }

    /// Adds a node; the set grows if it has to.
    pub(super) fn insert(&mut self, node: NodeId) {
        let (block, bit) = place(node);
        if self.0.len() <= block {
            self.0.resize(block + 1, 0);
        }
        self.set_bits(block, self.bits(block) | bit);
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        let (block, bit) = place(node);
        self.set_bits(block, self.bits(block) & !bit);
    }

    pub(super) fn contains(&self, node: NodeId) -> bool {
        let (block, bit) = place(node);
        self.bits(block) & bit != 0
    }

    pub(super) fn add(&mut self, set: &NodeSet) {
        for (block, bits) in set.blocks() {
            self.set_bits(block, self.bits(block) | bits);
        }
    }

    pub(super) fn take_out(&mut self, set: &NodeSet) {
        for (block, bits) in set.blocks() {
            self.set_bits(block, self.bits(block) & !bits);
        }
    }

    /// Keeps what is in both.
    pub(super) fn keep(&mut self, other: &Self) {
        for (at, bits) in self.0.iter_mut().enumerate() {
            *bits &= other.bits(at);
        }
    }

    /// Adds what is in the other.
    pub(super) fn join(&mut self, other: &Self) {
        for (at, bits) in self.0.iter_mut().enumerate() {
            *bits |= other.bits(at);
        }
    }

    /// The nodes that are not in it. The last block is filled up.
    pub(super) fn invert(&mut self) {
        self.0.iter_mut().for_each(|bits| *bits = !*bits);
    }

    pub(super) fn blocks(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.0.iter().enumerate().flat_map(|(block, bits)| nodes_of(block, *bits))
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sets_hold_what_was_put_in_and_not_taken_out(steps in prop::collection::vec((0_u32..300, any::<bool>()), 0..200)) {
            let (mut set, mut mask, mut expected) = (NodeSet::default(), Mask::default(), BTreeSet::new());
            for (node, add) in steps {
                if add {
                    set.insert(node);
                    mask.insert(node);
                    expected.insert(node);
                } else {
                    set.remove(node);
                    mask.remove(node);
                    expected.remove(&node);
                }
            }
            prop_assert_eq!(set.iter().collect::<BTreeSet<_>>(), expected.clone());
            prop_assert_eq!(mask.iter().collect::<BTreeSet<_>>(), expected.clone());
            prop_assert_eq!(mask.count(), expected.len());
            prop_assert_eq!(set.is_empty(), expected.is_empty());
            prop_assert!((0..300).all(|node| mask.contains(node) == expected.contains(&node)));
            let mut sum = Mask::empty(5);
            sum.add(&set);
            prop_assert_eq!(sum.iter().collect::<BTreeSet<_>>(), expected);
            sum.take_out(&set);
            prop_assert_eq!(sum.count(), 0);
        }
    }
}
