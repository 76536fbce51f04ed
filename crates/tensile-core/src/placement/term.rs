// SPDX-License-Identifier: Apache-2.0
//! The algebra of node selector terms: AND inside a term, OR between terms, and the two halves of each.

use serde_json::{Map, Value};

use super::raw::{self, Malformed, Path};
use super::selector::{Node, Requirement};
use super::{KeptKeys, PlacementError};

/// Combining and comparing takes time with the square of this.
const MAX_TERMS: usize = 1000;

/// A node selector term as a set of conditions that all hold, in the order in which they were written.
#[derive(Debug, Clone, Default)]
pub(super) struct Term<'a>(Vec<Condition<'a>>);

/// One condition. It keeps the JSON it was read from, which may say more than this build understands.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Condition<'a> {
    kind: Kind,
    /// The key it is about, or the member's name.
    name: &'a str,
    raw: &'a Value,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Expression,
    Field,
    /// A member of the term this build does not know.
    Member,
}

impl Condition<'_> {
    fn is_kept(&self, kept: &KeptKeys) -> bool {
        match self.kind {
            Kind::Expression => kept.keeps(self.name),
            // Fields are those of upper nodes: their names mean nothing below.
            Kind::Field => true,
            Kind::Member => false,
        }
    }

    fn holds(&self, node: Node<'_>) -> bool {
        // That it can be read was seen when the term was.
        let requirement = || Requirement::read(self.raw, Path::Root(""));
        match self.kind {
            Kind::Expression => requirement().is_ok_and(|requirement| requirement.matches_labels(node.labels)),
            Kind::Field => requirement().is_ok_and(|requirement| requirement.matches_fields(node.name)),
            Kind::Member => false,
        }
    }
}

impl<'a> Term<'a> {
    pub(super) fn read(value: &'a Value, at: Path<'_>) -> Result<Self, Malformed> {
        let mut term = Self::default();
        let members = raw::object(value, at)?;
        for (name, raw) in members {
            let kind = match name.as_str() {
                "matchExpressions" => Kind::Expression,
                "matchFields" => Kind::Field,
                _ => {
                    term.push(Condition { kind: Kind::Member, name, raw });
                    continue;
                }
            };
            for (index, raw) in raw::list(members, name, at)?.iter().enumerate() {
                let requirement = Requirement::read(raw, at.member(name).item(index))?;
                term.push(Condition { kind, name: requirement.key, raw });
            }
        }
        Ok(term)
    }

    /// Reads a list of terms. Those without any condition match nothing, so that an OR is the same without them.
    pub(super) fn read_all(values: &'a [Value], at: Path<'_>) -> Result<Vec<Self>, Malformed> {
        let terms = values.iter().enumerate().map(|(index, value)| Self::read(value, at.item(index)));
        terms.filter(|term| term.as_ref().map_or(true, |term| !term.is_empty())).collect()
    }

    pub(super) fn to_value(&self) -> Value {
        let (mut expressions, mut fields, mut term) = (Vec::new(), Vec::new(), Map::new());
        for Condition { kind, name, raw } in &self.0 {
            match kind {
                Kind::Expression => expressions.push((*raw).clone()),
                Kind::Field => fields.push((*raw).clone()),
                Kind::Member => {
                    term.insert((*name).to_owned(), (*raw).clone());
                }
            }
        }
        raw::set_list(&mut term, "matchExpressions", expressions);
        raw::set_list(&mut term, "matchFields", fields);
        Value::Object(term)
    }

    /// Without any condition. As one half of a term, this holds everywhere.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The half that upper scheduling decides.
    pub(super) fn kept(&self, kept: &KeptKeys) -> Self {
        Self(self.0.iter().filter(|condition| condition.is_kept(kept)).copied().collect())
    }

    /// The half that is decided below.
    pub(super) fn rest(&self, kept: &KeptKeys) -> Self {
        Self(self.0.iter().filter(|condition| !condition.is_kept(kept)).copied().collect())
    }

    /// Whether all conditions hold for a node; so for an empty half, always.
    pub(super) fn holds(&self, node: Node<'_>) -> bool {
        self.0.iter().all(|condition| condition.holds(node))
    }

    fn push(&mut self, condition: Condition<'a>) {
        if !self.0.contains(&condition) {
            self.0.push(condition);
        }
    }

    /// Whether it has every condition of `other`: wherever this one holds, so does the other.
    fn implies(&self, other: &Self) -> bool {
        other.0.iter().all(|condition| self.0.contains(condition))
    }

    fn and(&self, other: &Self) -> Result<Self, PlacementError> {
        let mut both = self.clone();
        for condition in &other.0 {
            let is_member = condition.kind == Kind::Member;
            if is_member && self.0.iter().any(|own| own.name == condition.name && own.raw != condition.raw) {
                return Err(PlacementError::Unmergeable { path: format!("nodeSelectorTerms[].{}", condition.name) });
            }
            both.push(*condition);
        }
        Ok(both)
    }
}

/// The same OR in the fewest terms: one that implies another adds nothing. An empty half leaves only itself.
///
/// This makes combining idempotent: a stash combined with the upper half that was made of it is the stash again.
pub(super) fn simplify<'a>(terms: &[Term<'a>]) -> Vec<Term<'a>> {
    let adds_nothing = |index: usize, term: &Term<'a>| {
        terms.iter().enumerate().any(|(other_index, other)| {
            index != other_index && term.implies(other) && (other_index < index || !other.implies(term))
        })
    };
    let needed = terms.iter().enumerate().filter(|(index, term)| !adds_nothing(*index, term));
    needed.map(|(_, term)| term.clone()).collect()
}

/// The terms without repetitions.
pub(super) fn distinct<'a>(terms: impl IntoIterator<Item = Term<'a>>) -> Vec<Term<'a>> {
    let mut seen: Vec<Term<'a>> = Vec::new();
    for term in terms {
        if !seen.iter().any(|other| term.implies(other) && other.implies(&term)) {
            seen.push(term);
        }
    }
    seen
}

/// Both requirements at once, in the order of the first. `None` requires nothing, no terms at all cannot be met.
pub(super) fn conjunction<'a>(
    first: Option<Vec<Term<'a>>>,
    second: Option<Vec<Term<'a>>>,
) -> Result<Option<Vec<Term<'a>>>, PlacementError> {
    let terms = match (first, second) {
        (None, None) => return Ok(None),
        (Some(terms), None) | (None, Some(terms)) => limited(terms)?,
        (Some(first), Some(second)) => {
            let (first, second) = (limited(first)?, limited(second)?);
            let mut terms = Vec::new();
            for one in first {
                if second.iter().any(|other| one.implies(other)) {
                    terms.push(one);
                } else {
                    for other in &second {
                        terms.push(one.and(other)?);
                    }
                }
                terms = limited(terms)?;
            }
            terms
        }
    };
    Ok(Some(simplify(&terms)))
}

fn limited(terms: Vec<Term<'_>>) -> Result<Vec<Term<'_>>, PlacementError> {
    if terms.len() > MAX_TERMS {
        return Err(PlacementError::TooManyTerms { count: terms.len(), limit: MAX_TERMS });
    }
    Ok(terms)
}
