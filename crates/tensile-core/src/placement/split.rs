//! What of a pod's constraints stays with the upper pod, and what is stashed.

use serde_json::{Map, Value};

use super::raw;
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
        let mut upper = match &self.upper.node_selector {
            None => Map::new(),
            Some(selector) => raw::object(selector, "spec.nodeSelector")?.clone(),
        };
        let stashed = &mut self.stash.node_selector;
        let mut changed = false;
        for (key, value) in raw::strings(&upper, "spec.nodeSelector")? {
            match stashed.get(&key) {
                Some(other) if *other != value => {
                    return Err(PlacementError::Contradiction { key, spec: value, stashed: other.clone() });
                }
                _ if kept.keeps(&key) => {}
                _ => {
                    upper.remove(&key);
                    stashed.insert(key, value);
                    changed = true;
                }
            }
        }
        // Stashed when other keys were kept.
        stashed.retain(|key, value| {
            if kept.keeps(key) {
                upper.insert(key.clone(), value.clone().into());
                changed = true;
            }
            !kept.keeps(key)
        });
        if changed {
            self.upper.node_selector = (!upper.is_empty()).then_some(Value::Object(upper));
        }
        Ok(())
    }

    fn split_affinity(&mut self, kept: &KeptKeys) -> Result<(), PlacementError> {
        let upper_before = match &self.upper.affinity {
            None => Map::new(),
            Some(affinity) => raw::object(affinity, "spec.affinity")?.clone(),
        };
        let mut upper = upper_before.clone();
        let mut stashed = match self.stash.affinity.take() {
            Some(Value::Object(affinity)) => affinity,
            _ => Map::new(),
        };
        move_members(&mut upper, &mut stashed, &["nodeAffinity", "podAffinity", "podAntiAffinity"], "spec.affinity")?;

        let upper_node_before = raw::take_object(&mut upper, "nodeAffinity", "affinity")?;
        let mut upper_node = upper_node_before.clone().unwrap_or_default();
        let mut stashed_node = raw::take_object(&mut stashed, "nodeAffinity", "affinity")?.unwrap_or_default();
        node_affinity::split(&mut upper_node, &mut stashed_node, &mut self.stash, kept)?;
        raw::set_object(&mut stashed, "nodeAffinity", stashed_node);
        if upper_node_before.is_some_and(|before| before == upper_node) || !upper_node.is_empty() {
            upper.insert("nodeAffinity".to_owned(), Value::Object(upper_node));
        }
        topology::split_pod_affinity(&mut upper, &mut stashed, kept)?;

        if upper != upper_before {
            self.upper.affinity = (!upper.is_empty()).then_some(Value::Object(upper));
        }
        self.stash.affinity = (!stashed.is_empty()).then_some(Value::Object(stashed));
        Ok(())
    }

    fn stash_tolerations(&mut self, is_first: bool) -> Result<(), PlacementError> {
        let Some(tolerations) = &self.upper.tolerations else {
            return Ok(());
        };
        let tolerations = tolerations.as_array().ok_or_else(|| raw::Malformed::new("spec.tolerations", "a list"))?;
        for toleration in tolerations {
            let key = toleration.get("key").and_then(Value::as_str).unwrap_or_default();
            let is_ours = !is_first && (key == names::NODE_NOT_READY || key == names::NODE_UNREACHABLE);
            if !is_ours && !self.stash.tolerations.contains(toleration) {
                self.stash.tolerations.push(toleration.clone());
            }
        }
        Ok(())
    }
}

/// Moves the members this build does not know, that is all but `known`.
pub(super) fn move_members(
    from: &mut Map<String, Value>,
    to: &mut Map<String, Value>,
    known: &[&str],
    at: &str,
) -> Result<(), PlacementError> {
    let unknown: Vec<String> = from.keys().filter(|name| !known.contains(&name.as_str())).cloned().collect();
    for name in unknown {
        let Some(value) = from.remove(&name) else { continue };
        match to.get(&name) {
            Some(other) if *other != value => {
                return Err(PlacementError::Unmergeable { path: raw::path(at, &name) });
            }
            _ => to.insert(name, value),
        };
    }
    Ok(())
}
