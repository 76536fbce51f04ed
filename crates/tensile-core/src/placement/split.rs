// SPDX-License-Identifier: Apache-2.0
//! What of a pod's constraints stays with the upper pod, and what is stashed.

use serde_json::{Map, Value};

use super::raw::{self, Path};
use super::{KeptKeys, Placement, PlacementError, node_affinity, topology};
use crate::names;
use crate::stash::Stash;

/// A pod's constraints in two halves, which together say what the whole said.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// The placement fields of the upper pod.
    pub upper: Placement,
    /// What the upper pod's annotation holds.
    pub stash: Stash,
}

/// Splits the constraints of a pod, combined with those in the stash it may already carry.
///
/// Splitting a split pod again changes nothing; whatever was added to it in between is combined with what is stashed.
/// Upper tolerations stay as they are. A stash that exists already has the author's own tolerations for
/// [`names::NODE_NOT_READY`] and [`names::NODE_UNREACHABLE`], so that those found on the pod then are somebody else's
/// and are not stashed: below, they would keep the pod on a dead node for ever.
pub fn split(pod: &Value, kept: &KeptKeys) -> Result<Split, PlacementError> {
    let earlier = Stash::of_pod(pod)?;
    let is_first = earlier.is_none();
    let mut split = Split { upper: Placement::of_pod(pod), stash: earlier.unwrap_or_default() };
    split.split_node_selector(kept)?;
    split.split_affinity(kept)?;
    split.stash_tolerations(is_first)?;
    topology::split_spread(&mut split.upper.topology_spread, &mut split.stash.topology_spread, kept)?;
    Ok(split)
}

impl Split {
    fn split_node_selector(&mut self, kept: &KeptKeys) -> Result<(), PlacementError> {
        let at = Path::Root("spec.nodeSelector");
        let stashed = &mut self.stash.node_selector;
        let has_kept = stashed.keys().any(|key| kept.keeps(key));
        if self.upper.node_selector.is_none() && !has_kept {
            return Ok(());
        }
        let upper = match self.upper.node_selector.take() {
            None => Map::new(),
            Some(selector) => raw::into_object(selector, at)?,
        };
        let count = upper.len();
        let mut stays = Map::new();
        for (key, value) in raw::strings(upper, at)? {
            match stashed.get(&key) {
                Some(other) if *other != value => {
                    return Err(PlacementError::Contradiction { key, spec: value, stashed: other.clone() });
                }
                _ if kept.keeps(&key) => {
                    stays.insert(key, value.into());
                }
                _ => {
                    stashed.insert(key, value);
                }
            }
        }
        // Stashed when other keys were kept.
        stashed.retain(|key, value| {
            if kept.keeps(key) {
                stays.insert(key.clone(), value.clone().into());
            }
            !kept.keeps(key)
        });
        let nothing_moved = stays.len() == count;
        self.upper.node_selector = (nothing_moved || !stays.is_empty()).then_some(Value::Object(stays));
        Ok(())
    }

    fn split_affinity(&mut self, kept: &KeptKeys) -> Result<(), PlacementError> {
        let at = Path::Root("spec.affinity");
        let mut stashed = match self.stash.affinity.take() {
            None => Map::new(),
            Some(affinity) => raw::into_object(affinity, Path::Root("affinity"))?,
        };
        let is_present = self.upper.affinity.is_some();
        let mut upper = match self.upper.affinity.take() {
            None => Map::new(),
            Some(affinity) => raw::into_object(affinity, at)?,
        };
        let mut changed =
            move_members(&mut upper, &mut stashed, &["nodeAffinity", "podAffinity", "podAntiAffinity"], at)?;
        changed |= self.split_node_affinity(&mut upper, &mut stashed, kept)?;
        changed |= topology::split_pod_affinity(&mut upper, &mut stashed, kept)?;
        self.upper.affinity = (!upper.is_empty() || (is_present && !changed)).then_some(Value::Object(upper));
        self.stash.affinity = (!stashed.is_empty()).then_some(Value::Object(stashed));
        Ok(())
    }

    fn split_node_affinity(
        &mut self,
        upper: &mut Map<String, Value>,
        stashed: &mut Map<String, Value>,
        kept: &KeptKeys,
    ) -> Result<bool, PlacementError> {
        let above = raw::take_object(upper, "nodeAffinity", Path::Root("spec.affinity"))?;
        let is_present = above.is_some();
        let mut above = above.unwrap_or_default();
        let mut below = raw::take_object(stashed, "nodeAffinity", Path::Root("affinity"))?.unwrap_or_default();
        let changed = node_affinity::split(&mut above, &mut below, &mut self.stash, kept)?;
        if !above.is_empty() || (is_present && !changed) {
            upper.insert("nodeAffinity".to_owned(), Value::Object(above));
        }
        raw::set_object(stashed, "nodeAffinity", below);
        Ok(changed)
    }

    fn stash_tolerations(&mut self, is_first: bool) -> Result<(), PlacementError> {
        let Some(tolerations) = &self.upper.tolerations else {
            return Ok(());
        };
        let at = Path::Root("spec.tolerations");
        let tolerations = tolerations.as_array().ok_or_else(|| at.must_be("a list"))?;
        for (index, toleration) in tolerations.iter().enumerate() {
            raw::object(toleration, at.item(index))?;
        }
        let authors = tolerations.iter().filter(|toleration| {
            let key = toleration.get("key").and_then(Value::as_str).unwrap_or_default();
            is_first || (key != names::NODE_NOT_READY && key != names::NODE_UNREACHABLE)
        });
        raw::extend_new(&mut self.stash.tolerations, authors.cloned());
        Ok(())
    }
}

/// Moves the members this build does not know, that is all but `known`. Returns whether there were any.
pub(super) fn move_members(
    from: &mut Map<String, Value>,
    to: &mut Map<String, Value>,
    known: &[&str],
    at: Path<'_>,
) -> Result<bool, PlacementError> {
    let unknown: Vec<String> = from.keys().filter(|name| !known.contains(&name.as_str())).cloned().collect();
    for name in &unknown {
        let Some(value) = from.remove(name) else { continue };
        if to.get(name).is_some_and(|other| *other != value) {
            return Err(PlacementError::Unmergeable { path: at.member(name).to_string() });
        }
        to.insert(name.clone(), value);
    }
    Ok(!unknown.is_empty())
}
