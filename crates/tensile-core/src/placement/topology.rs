//! Constraints over topologies (pod affinity, pod anti-affinity, spread), divided by the level of their topology key.

use serde_json::{Map, Value};

use super::raw::{self, Malformed};
use super::{KeptKeys, PlacementError, split};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const POD_AFFINITY: &str = "podAffinity";
const KINDS: [&str; 2] = [POD_AFFINITY, "podAntiAffinity"];
const TOPOLOGY_KEY: &str = "topologyKey";

/// Moves the terms of pod affinity and anti-affinity below the cluster level from `upper` to `stashed`, both `Affinity`.
pub(super) fn split_pod_affinity(
    upper: &mut Map<String, Value>,
    stashed: &mut Map<String, Value>,
    kept: &KeptKeys,
) -> Result<(), PlacementError> {
    let Some(cluster_key) = kept.topology.first() else {
        return Ok(());
    };
    for kind in KINDS {
        let Some(mut above) = raw::take_object(upper, kind, "affinity")? else {
            continue;
        };
        let mut below = raw::take_object(stashed, kind, "affinity")?.unwrap_or_default();
        let was_empty = above.is_empty();
        split::move_members(&mut above, &mut below, &[REQUIRED, PREFERRED], kind)?;
        for list in [REQUIRED, PREFERRED] {
            let together = (kind == POD_AFFINITY).then_some(cluster_key.as_str());
            split_list(&mut above, &mut below, list, kept, together)?;
        }
        raw::set_object(stashed, kind, below);
        if was_empty || !above.is_empty() {
            upper.insert(kind.to_owned(), Value::Object(above));
        }
    }
    Ok(())
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
    *stashed = raw::take_list(&mut below, name, "")?;
    Ok(())
}

/// Moves the terms of one list. For each term moved, one like it stays above with topology `together`, if given.
fn split_list(
    above: &mut Map<String, Value>,
    below: &mut Map<String, Value>,
    list: &str,
    kept: &KeptKeys,
    together: Option<&str>,
) -> Result<(), Malformed> {
    let mut stays = Vec::new();
    let mut moved = raw::list(below, list, "")?.to_vec();
    let mut moves = false;
    for value in raw::list(above, list, "")? {
        let at = format!("{list}[]");
        let term = raw::object(value.get("podAffinityTerm").unwrap_or(value), &at)?;
        let topology_key = raw::text(term, TOPOLOGY_KEY, &at)?;
        if kept.topology.iter().any(|key| key == topology_key) {
            push_new(&mut stays, value.clone());
            continue;
        }
        moves = true;
        if let Some(cluster_key) = together {
            push_new(&mut stays, with_topology_key(value, cluster_key));
        }
        push_new(&mut moved, value.clone());
    }
    if moves {
        raw::set_list(above, list, stays);
        raw::set_list(below, list, moved);
    }
    Ok(())
}

fn push_new(list: &mut Vec<Value>, value: Value) {
    if !list.contains(&value) {
        list.push(value);
    }
}

fn with_topology_key(term: &Value, key: &str) -> Value {
    let mut term = term.clone();
    let inner = match term.get_mut("podAffinityTerm") {
        Some(inner) => inner,
        None => &mut term,
    };
    if let Value::Object(members) = inner {
        members.insert(TOPOLOGY_KEY.to_owned(), key.into());
    }
    term
}

/// Copies the pod affinity and anti-affinity of `upper` into `stashed`, both `Affinity`.
pub(super) fn copy_pod_affinity(
    upper: &Map<String, Value>,
    stashed: &mut Map<String, Value>,
) -> Result<(), PlacementError> {
    for kind in KINDS {
        let Some(mut above) = raw::take_object(&mut upper.clone(), kind, "affinity")? else {
            continue;
        };
        let mut below = raw::take_object(stashed, kind, "affinity")?.unwrap_or_default();
        for list in [REQUIRED, PREFERRED] {
            let mut terms = raw::take_list(&mut below, list, kind)?;
            for term in raw::take_list(&mut above, list, kind)? {
                push_new(&mut terms, term);
            }
            raw::set_list(&mut below, list, terms);
        }
        split::move_members(&mut above, &mut below, &[], kind)?;
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
                match term.get_mut("podAffinityTerm") {
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
