// SPDX-License-Identifier: Apache-2.0
//! Pods whose claim was given to a virtual node already go there.
//!
//! The scheduler writes the node it chose for a claim into an annotation, and the volume is made where that node is. For
//! a virtual node that is its lower cluster: a pod that comes later, such as the next of the same StatefulSet ordinal,
//! finds the volume only there. For other nodes the volume itself says where it can be used, which is left to the
//! scheduler: the annotation stays for ever, the node may not.

use std::collections::BTreeMap;

/// What is known of claims and virtual nodes. A lookup is all that a request costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelectedNodes {
    /// The node of each claim that has one, by namespace and name as `NAMESPACE/NAME`.
    pub claims: BTreeMap<String, String>,
    /// The virtual nodes, and whether pods may be scheduled to them.
    pub nodes: BTreeMap<String, bool>,
}

/// Where a pod's claims send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice<'a> {
    /// To no virtual node.
    Free,
    /// To this one.
    Node(&'a str),
    /// It is left to the scheduler, because of this.
    Undecided(String),
}

impl SelectedNodes {
    /// Where a pod of `namespace` that uses `claims` goes.
    pub fn choose<'a>(&'a self, namespace: &str, claims: impl IntoIterator<Item = &'a str>) -> Choice<'a> {
        if self.claims.is_empty() {
            return Choice::Free;
        }
        let mut chosen: Option<(&str, &str, bool)> = None;
        for claim in claims {
            let Some(node) = self.claims.get(&key(namespace, claim)) else { continue };
            let Some((node, schedulable)) = self.nodes.get_key_value(node.as_str()) else { continue };
            match chosen {
                Some((before, other, _)) if other != node => {
                    return Choice::Undecided(format!(
                        "claim {before:?} is on virtual node {other} and claim {claim:?} on {node}: no node has both"
                    ));
                }
                _ => chosen = Some((claim, node, *schedulable)),
            }
        }
        match chosen {
            None => Choice::Free,
            Some((_, node, true)) => Choice::Node(node),
            Some((claim, node, false)) => {
                Choice::Undecided(format!("claim {claim:?} is on virtual node {node}, which takes no new pods"))
            }
        }
    }
}

/// How a claim is known.
pub fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_goes_to_the_virtual_node_of_its_claims_unless_they_disagree() {
        let text = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let known = SelectedNodes {
            claims: text(&[
                ("ns/east", "edge-east"),
                ("ns/east-too", "edge-east"),
                ("ns/west", "edge-west"),
                ("ns/real", "worker-1"),
                ("ns/drained", "edge-drained"),
                ("other/elsewhere", "edge-east"),
            ]),
            nodes: [("edge-east", true), ("edge-west", true), ("edge-drained", false)]
                .map(|(name, schedulable)| (name.to_owned(), schedulable))
                .into(),
        };
        let undecided = |text: &str| Choice::Undecided(text.to_owned());
        for (claims, expected) in [
            (["", ""], Choice::Free),
            (["east", "unknown"], Choice::Node("edge-east")),
            (["east", "east-too"], Choice::Node("edge-east")),
            (["real", "west"], Choice::Node("edge-west")),
            (["real", "unknown"], Choice::Free),
            (["elsewhere", ""], Choice::Free),
            (
                ["east", "west"],
                undecided(
                    r#"claim "east" is on virtual node edge-east and claim "west" on edge-west: no node has both"#,
                ),
            ),
            (["drained", ""], undecided(r#"claim "drained" is on virtual node edge-drained, which takes no new pods"#)),
        ] {
            assert_eq!(known.choose("ns", claims), expected, "{claims:?}");
        }
        assert_eq!(SelectedNodes::default().choose("ns", ["east"]), Choice::Free);
    }
}
