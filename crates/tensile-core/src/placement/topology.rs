// SPDX-License-Identifier: Apache-2.0
//! Constraints over topologies (pod affinity, pod anti-affinity, spread), divided by the level of their topology key.

use serde_json::{Map, Value};

use super::raw::{self, Malformed, Path};
use super::{KeptKeys, PlacementError, split};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const POD_AFFINITY: &str = "podAffinity";
const KINDS: [&str; 2] = [POD_AFFINITY, "podAntiAffinity"];
const TOPOLOGY_KEY: &str = "topologyKey";
/// What holds the term in the preferred lists, next to its weight.
const WEIGHTED: &str = "podAffinityTerm";
const ROOT: Path<'_> = Path::Root("affinity");

/// Moves the terms of pod affinity and anti-affinity below the cluster level from `upper` to `stashed`, both `Affinity`.
///
/// Returns whether anything changed.
pub(super) fn split_pod_affinity(
    upper: &mut Map<String, Value>,
    stashed: &mut Map<String, Value>,
    kept: &KeptKeys,
) -> Result<bool, PlacementError> {
    let Some(cluster_key) = kept.cluster_key() else {
        return Ok(false);
    };
    let mut changed = false;
    for kind in KINDS {
        let Some(mut above) = raw::take_object(upper, kind, ROOT)? else {
            continue;
        };
        let mut below = raw::take_object(stashed, kind, ROOT)?.unwrap_or_default();
        let mut moved = split::move_members(&mut above, &mut below, &[REQUIRED, PREFERRED], ROOT.member(kind))?;
        for list in [REQUIRED, PREFERRED] {
            let together = (kind == POD_AFFINITY).then_some(cluster_key);
            moved |= split_list(&mut above, &mut below, list, kept, together)?;
        }
        raw::set_object(stashed, kind, below);
        if !moved || !above.is_empty() {
            upper.insert(kind.to_owned(), Value::Object(above));
        }
        changed |= moved;
    }
    Ok(changed)
}

/// Moves the spread constraints below the cluster level from `upper` to `stashed`.
pub(super) fn split_spread(
    upper: &mut Option<Value>,
    stashed: &mut Vec<Value>,
    kept: &KeptKeys,
) -> Result<(), PlacementError> {
    let name = "topologySpreadConstraints";
    let Some(constraints) = upper.take() else {
        return Ok(());
    };
    let (mut above, mut below) = (Map::new(), Map::new());
    above.insert(name.to_owned(), constraints);
    raw::set_list(&mut below, name, std::mem::take(stashed));
    if !kept.topology.is_empty() {
        split_list(&mut above, &mut below, name, kept, None)?;
    }
    *upper = above.remove(name);
    *stashed = raw::take_list(&mut below, name, ROOT)?;
    Ok(())
}

/// Moves the terms of one list. For each term moved, one like it stays above with topology `together`, if given.
fn split_list(
    above: &mut Map<String, Value>,
    below: &mut Map<String, Value>,
    list: &str,
    kept: &KeptKeys,
    together: Option<&str>,
) -> Result<bool, Malformed> {
    let (mut stays, mut moved) = (Vec::new(), Vec::new());
    let at = Path::Root(list);
    for (index, value) in raw::list(above, list, Path::Root(""))?.iter().enumerate() {
        let at = at.item(index);
        let term = raw::object(value.get(WEIGHTED).unwrap_or(value), at)?;
        let topology_key = raw::text(term, TOPOLOGY_KEY, at)?;
        if kept.topology.iter().any(|key| key == topology_key) {
            raw::extend_new(&mut stays, [value.clone()]);
            continue;
        }
        if let Some(cluster_key) = together {
            raw::extend_new(&mut stays, [with_topology_key(value, cluster_key)]);
        }
        moved.push(value.clone());
    }
    if moved.is_empty() {
        return Ok(false);
    }
    let mut stashed = raw::take_list(below, list, Path::Root(""))?;
    raw::extend_new(&mut stashed, moved);
    raw::set_list(above, list, stays);
    raw::set_list(below, list, stashed);
    Ok(true)
}

fn with_topology_key(term: &Value, key: &str) -> Value {
    let mut term = term.clone();
    let inner = match term.get_mut(WEIGHTED) {
        Some(inner) => inner,
        None => &mut term,
    };
    if let Value::Object(members) = inner {
        members.insert(TOPOLOGY_KEY.to_owned(), key.into());
    }
    term
}

/// Adds the pod affinity and anti-affinity of `upper` to `stashed`, both `Affinity`.
pub(super) fn add_pod_affinity(
    mut upper: Map<String, Value>,
    stashed: &mut Map<String, Value>,
) -> Result<(), PlacementError> {
    for kind in KINDS {
        let Some(mut above) = raw::take_object(&mut upper, kind, ROOT)? else {
            continue;
        };
        let mut below = raw::take_object(stashed, kind, ROOT)?.unwrap_or_default();
        for list in [REQUIRED, PREFERRED] {
            let mut terms = raw::take_list(&mut below, list, ROOT.member(kind))?;
            raw::extend_new(&mut terms, raw::take_list(&mut above, list, ROOT.member(kind))?);
            raw::set_list(&mut below, list, terms);
        }
        split::move_members(&mut above, &mut below, &[], ROOT.member(kind))?;
        raw::set_object(stashed, kind, below);
    }
    Ok(())
}

/// Takes `matchLabelKeys` out where the API server has already merged them into the label selectors.
///
/// It merges them when a pod is created, and refuses a pod where a key is in both.
pub(super) fn unmerge_pod_affinity(affinity: &mut Map<String, Value>) {
    for kind in KINDS {
        for list in [REQUIRED, PREFERRED] {
            let terms = affinity.get_mut(kind).and_then(|kind| kind.get_mut(list)?.as_array_mut());
            for term in terms.into_iter().flatten() {
                match term.get_mut(WEIGHTED) {
                    Some(inner) => unmerge(inner),
                    None => unmerge(term),
                }
            }
        }
    }
}

/// The same for one pod affinity term or one spread constraint.
pub(super) fn unmerge(term: &mut Value) {
    let expressions = term.get("labelSelector").and_then(|selector| selector.get("matchExpressions")?.as_array());
    let merged: Vec<Value> =
        expressions.into_iter().flatten().filter_map(|expression| expression.get("key").cloned()).collect();
    let Value::Object(members) = term else {
        return;
    };
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        if let Some(Value::Array(keys)) = members.get_mut(name) {
            keys.retain(|key| !merged.contains(key));
            if keys.is_empty() {
                members.remove(name);
            }
        }
    }
}
