// SPDX-License-Identifier: Apache-2.0
//! Reading raw JSON with the path of what is wrong, so that fields this build does not know survive.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

/// A value that has not the type the core API gives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} must be {expected}")]
pub struct Malformed {
    /// Where, such as `spec.affinity.nodeAffinity`.
    pub path: String,
    /// What should be there, such as `an object`.
    pub expected: &'static str,
}

/// The way to a value, put into words only when something is wrong there.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    /// From here.
    Root(&'a str),
    /// A member of an object.
    Member(&'a Path<'a>, &'a str),
    /// An element of a list.
    Item(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub(crate) fn member(&'a self, name: &'a str) -> Self {
        Self::Member(self, name)
    }

    pub(crate) fn item(&'a self, index: usize) -> Self {
        Self::Item(self, index)
    }

    pub(crate) fn must_be(&self, expected: &'static str) -> Malformed {
        Malformed { path: self.to_string(), expected }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(name) | Self::Member(Path::Root(""), name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// The value as an object.
pub(crate) fn object<'v>(value: &'v Value, at: Path<'_>) -> Result<&'v Map<String, Value>, Malformed> {
    value.as_object().ok_or_else(|| at.must_be("an object"))
}

/// The value as an object of one's own.
pub(crate) fn into_object(value: Value, at: Path<'_>) -> Result<Map<String, Value>, Malformed> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(at.must_be("an object")),
    }
}

/// The elements of member `name`; none if it is absent or `null`.
pub(crate) fn list<'v>(map: &'v Map<String, Value>, name: &str, at: Path<'_>) -> Result<&'v [Value], Malformed> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(at.member(name).must_be("a list")),
    }
}

/// The text of member `name`; empty if it is absent or `null`, as Go reads it.
pub(crate) fn text<'v>(map: &'v Map<String, Value>, name: &str, at: Path<'_>) -> Result<&'v str, Malformed> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(at.member(name).must_be("a string")),
    }
}

/// A map of strings.
pub(crate) fn strings(map: Map<String, Value>, at: Path<'_>) -> Result<BTreeMap<String, String>, Malformed> {
    map.into_iter()
        .map(|(key, value)| match value {
            Value::String(text) => Ok((key, text)),
            _ => Err(at.member(&key).must_be("a string")),
        })
        .collect()
}

/// Takes the object `name` out of `map`; `None` if it is absent or `null`.
pub(crate) fn take_object(
    map: &mut Map<String, Value>,
    name: &str,
    at: Path<'_>,
) -> Result<Option<Map<String, Value>>, Malformed> {
    match map.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(at.member(name).must_be("an object")),
    }
}

/// Takes the list `name` out of `map`; empty if it is absent or `null`.
pub(crate) fn take_list(map: &mut Map<String, Value>, name: &str, at: Path<'_>) -> Result<Vec<Value>, Malformed> {
    match map.remove(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(at.member(name).must_be("a list")),
    }
}

/// Sets the list `name`, or removes it when `items` is empty.
pub(crate) fn set_list(map: &mut Map<String, Value>, name: &str, items: Vec<Value>) {
    if items.is_empty() {
        map.remove(name);
    } else {
        map.insert(name.to_owned(), Value::Array(items));
    }
}

/// Sets the object `name`, or removes it when `object` is empty.
pub(crate) fn set_object(map: &mut Map<String, Value>, name: &str, object: Map<String, Value>) {
    if object.is_empty() {
        map.remove(name);
    } else {
        map.insert(name.to_owned(), Value::Object(object));
    }
}

/// Adds the values that are not there already.
pub(crate) fn extend_new(list: &mut Vec<Value>, values: impl IntoIterator<Item = Value>) {
    for value in values {
        if !list.contains(&value) {
            list.push(value);
        }
    }
}
