// SPDX-License-Identifier: Apache-2.0
//! What a cluster says to a question, in words that a person understands.

use std::fmt;

use super::text::Text;

/// Whether a pod finds a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It fits on this node, and maybe on others.
    Fits {
        /// The node's name.
        node: Text,
    },
    /// It fits nowhere.
    Refused {
        /// Whether pods that go away could change that, as far as a scheduler can tell.
        resolvable: bool,
        /// Why.
        why: Why,
    },
}

impl Answer {
    /// Whether it fits.
    #[must_use]
    pub const fn fits(&self) -> bool {
        matches!(self, Self::Fits { .. })
    }

    pub(super) fn refused(resolvable: bool, plugin: &'static str, reason: Reason) -> Self {
        Self::Refused { resolvable, why: Why { plugin, reason } }
    }
}

/// Why a pod fits nowhere. Displayed, it is half a sentence: `3 of 120 nodes match its node selector, none has 4 CPUs
/// free; largest free: 2.5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    plugin: &'static str,
    reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It holds for all nodes.
    Everywhere(String),
    /// The nodes became fewer and fewer.
    Fewer {
        /// How many there are.
        nodes: usize,
        /// What some of them are, and how many are that and all that is said before.
        steps: Vec<(usize, &'static str)>,
        /// What none of the rest does.
        lack: String,
    },
}

impl Why {
    /// The plugin that none of the last nodes got past.
    #[must_use]
    pub const fn plugin(&self) -> &'static str {
        self.plugin
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, steps, lack) = match &self.reason {
            Reason::Everywhere(text) => return f.write_str(text),
            Reason::Fewer { nodes: 0, .. } => return f.write_str("the cluster has no nodes"),
            Reason::Fewer { nodes, steps, lack } => (nodes, steps, lack),
        };
        for (at, (left, step)) in steps.iter().enumerate() {
            match at {
                0 => write!(f, "{left} of {nodes} nodes {step}, ")?,
                _ => write!(f, "{left} of them {step}, ")?,
            }
        }
        if steps.is_empty() { write!(f, "none of {nodes} nodes {lack}") } else { write!(f, "none {lack}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_half_sentences() {
        let why = |nodes, steps: &[(usize, &'static str)], lack: &str| {
            Why { plugin: "P", reason: Reason::Fewer { nodes, steps: steps.to_vec(), lack: lack.to_owned() } }
                .to_string()
        };
        let lack = "has 4 CPUs free; largest free: 2.5";
        let matching = (3, "match its node selector");
        assert_eq!(why(0, &[], lack), "the cluster has no nodes");
        assert_eq!(why(120, &[], lack), "none of 120 nodes has 4 CPUs free; largest free: 2.5");
        assert_eq!(
            why(120, &[matching], lack),
            "3 of 120 nodes match its node selector, none has 4 CPUs free; largest free: 2.5"
        );
        assert_eq!(
            why(120, &[(9, "have taints that it tolerates"), matching], "has room"),
            "9 of 120 nodes have taints that it tolerates, 3 of them match its node selector, none has room"
        );
    }
}
