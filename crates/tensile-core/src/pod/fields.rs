// SPDX-License-Identifier: Apache-2.0
//! Allow-lists: what of one level of the API goes down, and that nothing else disappears unseen.

use serde_json::{Map, Value};

/// The members of one kind of object that a rule names.
pub(crate) struct Fields {
    /// Copied as they are, whole.
    pub(crate) kept: &'static [&'static str],
    /// Left out or rewritten, by a decision that the reference (`docs/src/reference/pod-fields.md`) explains.
    pub(crate) decided: &'static [&'static str],
}

impl Fields {
    /// The kept members of `object`; the paths of those that no rule names are added to `dropped`.
    pub(crate) fn sift(
        &self,
        object: &Map<String, Value>,
        path: &str,
        dropped: &mut Vec<String>,
    ) -> Map<String, Value> {
        let mut kept = Map::new();
        for (name, value) in object {
            if self.kept.contains(&name.as_str()) {
                kept.insert(name.clone(), value.clone());
            } else if !self.decided.contains(&name.as_str()) {
                dropped.push(join(path, name));
            }
        }
        kept
    }
}

/// The object with these members.
pub(crate) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The path of member `name` below `path`.
fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
