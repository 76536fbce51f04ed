// SPDX-License-Identifier: Apache-2.0
//! Node affinity: its terms divided between the upper cluster and the stash, and put together again.

use serde_json::{Map, Value, json};

use super::raw::{self, Malformed, Path};
use super::selector::Node;
use super::term::{Term, conjunction, distinct, simplify};
use super::{KeptKeys, PlacementError};
use crate::stash::Stash;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const TERMS: &str = "nodeSelectorTerms";
const ROOT: Path<'_> = Path::Root("nodeAffinity");

/// Moves what is decided below from `upper` to `stashed`, both `NodeAffinity`, and to the whole terms in `stash`.
///
/// Returns whether anything changed.
pub(super) fn split(
    upper: &mut Map<String, Value>,
    stashed: &mut Map<String, Value>,
    stash: &mut Stash,
    kept: &KeptKeys,
) -> Result<bool, PlacementError> {
    let moved = super::split::move_members(upper, stashed, &[REQUIRED, PREFERRED], ROOT)?;
    let required = split_required(upper, stashed, stash, kept)?;
    let preferred = split_preferred(upper, stashed, stash, kept)?;
    Ok(moved || required || preferred)
}

/// Leaves in `stashed`, a `NodeAffinity`, just what is left to decide below `node`.
///
/// Returns whether the node is a right place: `false` if none of the required terms can match below it.
pub(super) fn restore(
    upper: &Map<String, Value>,
    stashed: &mut Map<String, Value>,
    stash: &Stash,
    node: Node<'_>,
    kept: &KeptKeys,
) -> Result<bool, PlacementError> {
    if let Some(terms) = whole_required(upper, stashed, stash)? {
        let here: Vec<_> = terms.iter().filter(|term| term.kept(kept).holds(node)).map(|t| t.rest(kept)).collect();
        if here.is_empty() {
            return Ok(false);
        }
        let here = to_values(&simplify(&here));
        set_terms(stashed, here);
    }
    let mut preferred = Vec::new();
    for value in whole_preferred(stashed, stash)? {
        let term = preference(value)?;
        let rest = term.rest(kept);
        if !rest.is_empty() && term.kept(kept).holds(node) {
            preferred.push(with_preference(value, &rest));
        }
    }
    raw::set_list(stashed, PREFERRED, preferred);
    Ok(true)
}

fn split_required(
    upper: &mut Map<String, Value>,
    stashed: &mut Map<String, Value>,
    stash: &mut Stash,
    kept: &KeptKeys,
) -> Result<bool, PlacementError> {
    let Some(terms) = whole_required(upper, stashed, stash)? else {
        return Ok(false);
    };
    let rests = distinct(terms.iter().map(|term| term.rest(kept)));
    let is_stashed = stashed.contains_key(REQUIRED) || !stash.required_terms.is_empty();
    // With no term left, no node can meet the requirement, whoever made it so. A split does not change that.
    if terms.is_empty() || (!is_stashed && rests.iter().all(Term::is_empty)) {
        return Ok(false);
    }
    let kept_halves = distinct(terms.iter().map(|term| term.kept(kept)));
    // Where every kept half goes with every rest, "one of the kept halves and one of the rests" says it all.
    let independent = kept_halves.len() * rests.len() == terms.len();
    let whole = if independent { Vec::new() } else { terms.iter().map(Term::to_value).collect() };
    let kept_halves = to_values(&simplify(&kept_halves));
    // A term with nothing to stash does not relax the others here: to tensile-kube, which sees only this list, they
    // would be lost. `whole`, if it is needed, goes before the list.
    let rests: Vec<Value> = rests.iter().filter(|rest| !rest.is_empty()).map(Term::to_value).collect();

    if let (Some(Value::Object(above)), false) = (upper.get_mut(REQUIRED), rests.is_empty()) {
        let mut below = raw::take_object(stashed, REQUIRED, ROOT)?.unwrap_or_default();
        super::split::move_members(above, &mut below, &[TERMS], ROOT.member(REQUIRED))?;
        raw::set_object(stashed, REQUIRED, below);
    }
    set_terms(upper, kept_halves);
    set_terms(stashed, rests);
    stash.required_terms = whole;
    Ok(true)
}

fn split_preferred(
    upper: &mut Map<String, Value>,
    stashed: &mut Map<String, Value>,
    stash: &mut Stash,
    kept: &KeptKeys,
) -> Result<bool, PlacementError> {
    let (mut stays, mut moved) = (Vec::new(), Vec::new());
    for value in raw::list(upper, PREFERRED, ROOT)? {
        let term = preference(value)?;
        if term.rest(kept).is_empty() {
            stays.push(value.clone());
            continue;
        }
        moved.push(value.clone());
        let kept_half = term.kept(kept);
        if !kept_half.is_empty() {
            stays.push(with_preference(value, &kept_half));
        }
    }
    if moved.is_empty() {
        return Ok(false);
    }
    let mut whole = whole_preferred(stashed, stash)?.to_vec();
    moved.retain(|value| !whole.contains(value));
    whole.extend(moved);
    let (mut rests, mut paired) = (Vec::new(), false);
    for value in &whole {
        let term = preference(value)?;
        paired |= !term.kept(kept).is_empty();
        let rest = term.rest(kept);
        if !rest.is_empty() {
            rests.push(with_preference(value, &rest));
        }
    }
    raw::set_list(upper, PREFERRED, stays);
    raw::set_list(stashed, PREFERRED, rests);
    stash.preferred_terms = if paired { whole } else { Vec::new() };
    Ok(true)
}

/// The required terms of pod and stash together. The stash goes first: its terms are the whole ones.
fn whole_required<'a>(
    upper: &'a Map<String, Value>,
    stashed: &'a Map<String, Value>,
    stash: &'a Stash,
) -> Result<Option<Vec<Term<'a>>>, PlacementError> {
    let of_stash = if stash.required_terms.is_empty() {
        required_terms(stashed)?
    } else {
        Some(Term::read_all(&stash.required_terms, Path::Root("requiredTerms"))?)
    };
    conjunction(of_stash, required_terms(upper)?)
}

fn required_terms(node_affinity: &Map<String, Value>) -> Result<Option<Vec<Term<'_>>>, Malformed> {
    match node_affinity.get(REQUIRED) {
        None | Some(Value::Null) => Ok(None),
        Some(required) => {
            let at = ROOT.member(REQUIRED);
            let terms = raw::list(raw::object(required, at)?, TERMS, at)?;
            Term::read_all(terms, at.member(TERMS)).map(Some)
        }
    }
}

/// The terms of an OR, none if nothing is required: one that is empty holds everywhere.
fn to_values(terms: &[Term<'_>]) -> Vec<Value> {
    if terms.iter().any(Term::is_empty) { Vec::new() } else { terms.iter().map(Term::to_value).collect() }
}

/// Sets the required terms and leaves the members next to them that this build does not know; without terms, removes
/// the requirement.
fn set_terms(node_affinity: &mut Map<String, Value>, terms: Vec<Value>) {
    if terms.is_empty() {
        node_affinity.remove(REQUIRED);
    } else if let Some(Value::Object(required)) = node_affinity.get_mut(REQUIRED) {
        required.insert(TERMS.to_owned(), Value::Array(terms));
    } else {
        node_affinity.insert(REQUIRED.to_owned(), json!({ TERMS: terms }));
    }
}

fn whole_preferred<'a>(stashed: &'a Map<String, Value>, stash: &'a Stash) -> Result<&'a [Value], Malformed> {
    if stash.preferred_terms.is_empty() { raw::list(stashed, PREFERRED, ROOT) } else { Ok(&stash.preferred_terms) }
}

fn preference(preferred: &Value) -> Result<Term<'_>, Malformed> {
    let at = ROOT.member(PREFERRED);
    match raw::object(preferred, at)?.get("preference") {
        None | Some(Value::Null) => Ok(Term::default()),
        Some(preference) => Term::read(preference, at.member("preference")),
    }
}

fn with_preference(preferred: &Value, preference: &Term<'_>) -> Value {
    let mut preferred = preferred.clone();
    if let Value::Object(members) = &mut preferred {
        members.insert("preference".to_owned(), preference.to_value());
    }
    preferred
}
