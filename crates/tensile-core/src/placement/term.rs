//! The algebra of node selector terms: AND inside a term, OR between terms, and the two halves of each.

use serde_json::{Map, Value};

use super::raw::{self, Malformed};
use super::selector::{Node, Requirement};
use super::{KeptKeys, PlacementError};

/// Combining and comparing takes time with the square of this.
const MAX_TERMS: usize = 1000;

/// A node selector term as a set of conditions that all hold, in the order in which they were written.
#[derive(Debug, Clone, Default)]
pub(super) struct Term(Vec<Condition>);

/// One condition, and the JSON it was read from, which may say more than this build understands.
#[derive(Debug, Clone, PartialEq)]
struct Condition {
    kind: Kind,
    raw: Value,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Expression(Requirement),
    Field(Requirement),
    /// A member of the term this build does not know, by name.
    Member(String),
}

impl Condition {
    fn is_kept(&self, kept: &KeptKeys) -> bool {
        match &self.kind {
            Kind::Expression(requirement) => kept.keeps(&requirement.key),
            // Fields are those of upper nodes: their names mean nothing below.
            Kind::Field(_) => true,
            Kind::Member(_) => false,
        }
    }

    fn matches(&self, node: Node<'_>) -> bool {
        match &self.kind {
            Kind::Expression(requirement) => requirement.matches_labels(node.labels),
            Kind::Field(requirement) => requirement.matches_fields(node.name),
            Kind::Member(_) => false,
        }
    }
}

impl Term {
    pub(super) fn read(value: &Value, at: &str) -> Result<Self, Malformed> {
        let mut term = Self::default();
        for (name, raw) in raw::object(value, at)? {
            let kind: fn(Requirement) -> Kind = match name.as_str() {
                "matchExpressions" => Kind::Expression,
                "matchFields" => Kind::Field,
                _ => {
                    term.push(Condition { kind: Kind::Member(name.clone()), raw: raw.clone() });
                    continue;
                }
            };
            for (index, raw) in raw::list(raw::object(value, at)?, name, at)?.iter().enumerate() {
                let requirement = Requirement::read(raw, &format!("{at}.{name}[{index}]"))?;
                term.push(Condition { kind: kind(requirement), raw: raw.clone() });
            }
        }
        Ok(term)
    }

    /// Reads a list of terms. Those without any condition match nothing, so that an OR is the same without them.
    pub(super) fn read_all(values: &[Value], at: &str) -> Result<Vec<Self>, Malformed> {
        let terms = values.iter().enumerate().map(|(index, value)| Self::read(value, &format!("{at}[{index}]")));
        terms.filter(|term| term.as_ref().map_or(true, |term| !term.is_empty())).collect()
    }

    pub(super) fn to_value(&self) -> Value {
        let (mut expressions, mut fields, mut term) = (Vec::new(), Vec::new(), Map::new());
        for Condition { kind, raw } in &self.0 {
            match kind {
                Kind::Expression(_) => expressions.push(raw.clone()),
                Kind::Field(_) => fields.push(raw.clone()),
                Kind::Member(name) => {
                    term.insert(name.clone(), raw.clone());
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
        Self(self.0.iter().filter(|condition| condition.is_kept(kept)).cloned().collect())
    }

    /// The half that is decided below.
    pub(super) fn rest(&self, kept: &KeptKeys) -> Self {
        Self(self.0.iter().filter(|condition| !condition.is_kept(kept)).cloned().collect())
    }

    /// Whether all conditions hold for a node; so for an empty half, always.
    pub(super) fn holds(&self, node: Node<'_>) -> bool {
        self.0.iter().all(|condition| condition.matches(node))
    }

    fn push(&mut self, condition: Condition) {
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
            let differs = |own: &Condition| {
                matches!(own.kind, Kind::Member(_)) && own.kind == condition.kind && own.raw != condition.raw
            };
            if let (Kind::Member(name), true) = (&condition.kind, self.0.iter().any(differs)) {
                return Err(PlacementError::Unmergeable { path: format!("nodeSelectorTerms[].{name}") });
            }
            both.push(condition.clone());
        }
        Ok(both)
    }
}

/// The same OR in the fewest terms: one that implies another adds nothing. An empty half leaves only itself.
///
/// This makes combining idempotent: a stash combined with the upper half that was made of it is the stash again.
pub(super) fn simplify(terms: &[Term]) -> Vec<Term> {
    let adds_nothing = |(index, term): (usize, &Term)| {
        terms.iter().enumerate().any(|(other_index, other)| {
            index != other_index && term.implies(other) && (other_index < index || !other.implies(term))
        })
    };
    let needed = terms.iter().enumerate().filter(|(index, term)| !adds_nothing((*index, term)));
    needed.map(|(_, term)| term.clone()).collect()
}

/// The terms without repetitions.
pub(super) fn distinct(terms: impl IntoIterator<Item = Term>) -> Vec<Term> {
    let mut seen: Vec<Term> = Vec::new();
    for term in terms {
        if !seen.iter().any(|other| term.implies(other) && other.implies(&term)) {
            seen.push(term);
        }
    }
    seen
}

/// Both requirements at once, in the order of the first. `None` requires nothing, no terms at all cannot be met.
pub(super) fn conjunction(
    first: Option<Vec<Term>>,
    second: Option<Vec<Term>>,
) -> Result<Option<Vec<Term>>, PlacementError> {
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

fn limited(terms: Vec<Term>) -> Result<Vec<Term>, PlacementError> {
    if terms.len() > MAX_TERMS {
        return Err(PlacementError::TooManyTerms { count: terms.len(), limit: MAX_TERMS });
    }
    Ok(terms)
}
