//! Node affinity: its terms divided between the upper cluster and the stash, and put together again.

use serde_json::{Map, Value};

use super::raw::{self, Malformed};
use super::selector::Node;
use super::term::{Term, conjunction, distinct, simplify};
use super::{KeptKeys, PlacementError};
use crate::stash::Stash;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const TERMS: &str = "nodeSelectorTerms";

/// Moves what is decided below from `upper` to `stashed`, both `NodeAffinity`, and to the whole terms in `stash`.
pub(super) fn split(
    upper: &mut Map<String, Value>,
    stashed: &mut Map<String, Value>,
    stash: &mut Stash,
    kept: &KeptKeys,
) -> Result<(), PlacementError> {
    split_required(upper, stashed, stash, kept)?;
    split_preferred(upper, stashed, stash, kept)
}

/// Puts into `stashed`, a `NodeAffinity`, just what is left to decide below `node`.
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
        let here: Vec<Term> = terms.iter().filter(|term| term.kept(kept).holds(node)).map(|t| t.rest(kept)).collect();
        if here.is_empty() {
            return Ok(false);
        }
        let shell = raw::take_object(stashed, REQUIRED, "nodeAffinity")?.unwrap_or_default();
        set_terms(stashed, shell, &simplify(&here));
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
) -> Result<(), PlacementError> {
    let terms = match whole_required(upper, stashed, stash)? {
        // Nothing is required, or something that no node can meet: neither is changed by a split.
        None => return Ok(()),
        Some(terms) if terms.is_empty() => return Ok(()),
        Some(terms) => terms,
    };
    let rests = distinct(terms.iter().map(|term| term.rest(kept)));
    let nothing_to_stash = rests.iter().all(Term::is_empty);
    if nothing_to_stash && !stashed.contains_key(REQUIRED) && stash.required_terms.is_empty() {
        return Ok(());
    }
    let kept_halves = distinct(terms.iter().map(|term| term.kept(kept)));
    // Where every kept half goes with every rest, "one of the kept halves and one of the rests" says it all.
    let independent = kept_halves.len() * rests.len() == terms.len();
    stash.required_terms = if independent { Vec::new() } else { terms.iter().map(Term::to_value).collect() };

    let upper_shell = raw::take_object(upper, REQUIRED, "nodeAffinity")?.unwrap_or_default();
    let mut stashed_shell = raw::take_object(stashed, REQUIRED, "nodeAffinity")?.unwrap_or_default();
    super::split::move_members(&mut upper_shell.clone(), &mut stashed_shell, &[TERMS], REQUIRED)?;
    set_terms(upper, upper_shell, &simplify(&kept_halves));
    // Without their kept halves these say less than `required_terms` does, which goes before them.
    let rests: Vec<Term> = rests.into_iter().filter(|rest| !rest.is_empty()).collect();
    if rests.is_empty() {
        stashed.remove(REQUIRED);
    } else {
        set_terms(stashed, stashed_shell, &rests);
    }
    Ok(())
}

fn split_preferred(
    upper: &mut Map<String, Value>,
    stashed: &mut Map<String, Value>,
    stash: &mut Stash,
    kept: &KeptKeys,
) -> Result<(), PlacementError> {
    let mut whole = whole_preferred(stashed, stash)?.to_vec();
    let (mut stays, mut moves) = (Vec::new(), false);
    for value in raw::list(upper, PREFERRED, "nodeAffinity")? {
        let term = preference(value)?;
        if term.rest(kept).is_empty() {
            stays.push(value.clone());
            continue;
        }
        moves = true;
        let kept_half = term.kept(kept);
        if !kept_half.is_empty() {
            stays.push(with_preference(value, &kept_half));
        }
        if !whole.contains(value) {
            whole.push(value.clone());
        }
    }
    if !moves {
        return Ok(());
    }
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
    Ok(())
}

/// The required terms of pod and stash together. The stash goes first: its terms are the whole ones.
fn whole_required(
    upper: &Map<String, Value>,
    stashed: &Map<String, Value>,
    stash: &Stash,
) -> Result<Option<Vec<Term>>, PlacementError> {
    let of_stash = if stash.required_terms.is_empty() {
        required_terms(stashed)?
    } else {
        Some(Term::read_all(&stash.required_terms, "requiredTerms")?)
    };
    conjunction(of_stash, required_terms(upper)?)
}

fn required_terms(node_affinity: &Map<String, Value>) -> Result<Option<Vec<Term>>, Malformed> {
    match node_affinity.get(REQUIRED) {
        None | Some(Value::Null) => Ok(None),
        Some(required) => {
            let at = format!("nodeAffinity.{REQUIRED}");
            let terms = raw::list(raw::object(required, &at)?, TERMS, &at)?;
            Term::read_all(terms, &format!("{at}.{TERMS}")).map(Some)
        }
    }
}

/// Sets the required terms inside `shell`, which may hold members this build does not know. An empty term holds
/// everywhere, so that nothing is required.
fn set_terms(node_affinity: &mut Map<String, Value>, mut shell: Map<String, Value>, terms: &[Term]) {
    if terms.iter().any(Term::is_empty) {
        node_affinity.remove(REQUIRED);
    } else {
        shell.insert(TERMS.to_owned(), terms.iter().map(Term::to_value).collect());
        node_affinity.insert(REQUIRED.to_owned(), Value::Object(shell));
    }
}

fn whole_preferred<'a>(stashed: &'a Map<String, Value>, stash: &'a Stash) -> Result<&'a [Value], Malformed> {
    if stash.preferred_terms.is_empty() {
        raw::list(stashed, PREFERRED, "nodeAffinity")
    } else {
        Ok(&stash.preferred_terms)
    }
}

fn preference(preferred: &Value) -> Result<Term, Malformed> {
    match raw::object(preferred, PREFERRED)?.get("preference") {
        None | Some(Value::Null) => Ok(Term::default()),
        Some(preference) => Term::read(preference, &format!("{PREFERRED}[].preference")),
    }
}

fn with_preference(preferred: &Value, preference: &Term) -> Value {
    let mut preferred = preferred.clone();
    if let Value::Object(members) = &mut preferred {
        members.insert("preference".to_owned(), preference.to_value());
    }
    preferred
}
