//! Reading raw JSON with the path of what is wrong, so that fields this build does not know survive.

use std::collections::BTreeMap;

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

impl Malformed {
    pub(crate) fn new(path: impl Into<String>, expected: &'static str) -> Self {
        Self { path: path.into(), expected }
    }
}

/// `name` as seen from `at`; either may be empty.
pub(crate) fn path(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

/// The value as an object.
pub(crate) fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Map<String, Value>, Malformed> {
    value.as_object().ok_or_else(|| Malformed::new(at, "an object"))
}

/// The elements of member `name`; none if it is absent or `null`.
pub(crate) fn list<'a>(map: &'a Map<String, Value>, name: &str, at: &str) -> Result<&'a [Value], Malformed> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(Malformed::new(path(at, name), "a list")),
    }
}

/// The text of member `name`; empty if it is absent or `null`, as Go reads it.
pub(crate) fn text<'a>(map: &'a Map<String, Value>, name: &str, at: &str) -> Result<&'a str, Malformed> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Malformed::new(path(at, name), "a string")),
    }
}

/// A map of strings.
pub(crate) fn strings(map: &Map<String, Value>, at: &str) -> Result<BTreeMap<String, String>, Malformed> {
    map.iter()
        .map(|(key, value)| match value {
            Value::String(text) => Ok((key.clone(), text.clone())),
            _ => Err(Malformed::new(path(at, key), "a string")),
        })
        .collect()
}

/// Takes the object `name` out of `map`; `None` if it is absent or `null`.
pub(crate) fn take_object(
    map: &mut Map<String, Value>,
    name: &str,
    at: &str,
) -> Result<Option<Map<String, Value>>, Malformed> {
    match map.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(Malformed::new(path(at, name), "an object")),
    }
}

/// Takes the list `name` out of `map`; empty if it is absent or `null`.
pub(crate) fn take_list(map: &mut Map<String, Value>, name: &str, at: &str) -> Result<Vec<Value>, Malformed> {
    match map.remove(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(Malformed::new(path(at, name), "a list")),
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
