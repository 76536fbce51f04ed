// SPDX-License-Identifier: Apache-2.0
//! The codec of one subject's exclusions.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::placement::Malformed;
use crate::placement::raw::{self, Path};

/// The version that is written; later ones are passed over.
const VERSION: u64 = 1;

/// The nodes that one subject is excluded from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// One for each node.
    pub nodes: Vec<Exclusion>,
    /// Members this build does not know. They are written again as they were read.
    pub other: Map<String, Value>,
}

/// One node that is not gone to for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Exclusion {
    /// The virtual node's `metadata.name`.
    pub node: String,
    /// It counts before this time.
    pub until: Timestamp,
    /// How many times the subject was moved off this node in a row.
    pub attempts: u32,
    /// Members this build does not know. They are written again as they were read.
    pub other: Map<String, Value>,
}

/// Why a record, or one exclusion of it, does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The text is not one JSON value.
    #[error("it is not JSON: {0}")]
    NotJson(String),
    /// It was written by a later build.
    #[error("it is of version {version}, this build knows up to {VERSION}")]
    Newer {
        /// Its version.
        version: u64,
    },
    /// JSON of another shape.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl Record {
    /// Reads an entry's value: the record, and what of it is damaged and left out.
    pub fn decode(text: &str) -> Result<(Self, Vec<RecordError>), RecordError> {
        let root = Path::Root("");
        let value: Value = serde_json::from_str(text).map_err(|error| RecordError::NotJson(error.to_string()))?;
        let mut members = raw::into_object(value, Path::Root("the value"))?;
        let version = members.remove("version").unwrap_or(VERSION.into());
        match version.as_u64() {
            Some(VERSION) => {}
            Some(version) if version > VERSION => return Err(RecordError::Newer { version }),
            _ => return Err(root.member("version").must_be("a positive number").into()),
        }
        let list = raw::take_list(&mut members, "nodes", root)?;
        let at = root.member("nodes");
        let (mut nodes, mut damaged) = (Vec::new(), Vec::new());
        for (index, value) in list.into_iter().enumerate() {
            match Exclusion::read(value, at.item(index)) {
                Ok(exclusion) => nodes.push(exclusion),
                Err(error) => damaged.push(error.into()),
            }
        }
        Ok((Self { nodes, other: members }, damaged))
    }

    /// An entry's value, as compact JSON.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut members = self.other.clone();
        members.insert("version".to_owned(), VERSION.into());
        members.insert("nodes".to_owned(), self.nodes.iter().map(Exclusion::to_value).collect());
        Value::Object(members).to_string()
    }

    /// The nodes that are excluded at `now`.
    pub fn nodes_at(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter(move |exclusion| now < exclusion.until).map(|exclusion| exclusion.node.as_str())
    }
}

impl Exclusion {
    fn read(value: Value, at: Path<'_>) -> Result<Self, Malformed> {
        let mut members = raw::into_object(value, at)?;
        let mut text = |name| match members.remove(name) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text),
            _ => Err(at.member(name).must_be("a text")),
        };
        let (node, until) = (text("node")?, text("until")?);
        let until = until.parse().map_err(|_| at.member("until").must_be("a time such as 2026-01-02T15:04:05Z"))?;
        let attempts = members.remove("attempts").unwrap_or_default();
        let attempts = match attempts.as_u64().map(u32::try_from) {
            Some(Ok(attempts)) => attempts,
            None if attempts.is_null() => 0,
            _ => return Err(at.member("attempts").must_be("a number")),
        };
        Ok(Self { node, until, attempts, other: members })
    }

    fn to_value(&self) -> Value {
        let mut members = self.other.clone();
        members.insert("node".to_owned(), self.node.clone().into());
        members.insert("until".to_owned(), self.until.to_string().into());
        members.insert("attempts".to_owned(), self.attempts.into());
        Value::Object(members)
    }
}
