// SPDX-License-Identifier: Apache-2.0
//! Labels of an object as one text: many objects are read, and few of their labels are ever looked at.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, MapAccess};
use serde::{Deserialize, Deserializer};

/// Labels, sorted by key: each key and each value ended by a NUL character, which neither can hold.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<str>);

/// In no label that an API server stores.
const END: char = '\0';

impl Labels {
    /// The value of the label `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.0.split_terminator(END);
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    /// Of several values for one key, the last counts, as in JSON.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let clean = |text: &str| !text.contains(END);
        let mut labels: Vec<(K, V)> = pairs.into_iter().collect();
        labels.retain(|(key, value)| clean(key.as_ref()) && clean(value.as_ref()));
        labels.sort_by(|a, b| a.0.as_ref().cmp(b.0.as_ref()));
        let length = labels.iter().map(|(key, value)| key.as_ref().len() + value.as_ref().len() + 2).sum();
        let mut text = String::with_capacity(length);
        for (at, (key, value)) in labels.iter().enumerate() {
            if labels.get(at + 1).is_none_or(|(next, _)| next.as_ref() != key.as_ref()) {
                for part in [key.as_ref(), value.as_ref()] {
                    text.push_str(part);
                    text.push(END);
                }
            }
        }
        Self(text.into())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LabelsVisitor)
    }
}

/// A key or a value, borrowed where it can be.
#[derive(Deserialize)]
#[serde(transparent)]
struct Part<'a>(#[serde(borrow)] Cow<'a, str>);

impl AsRef<str> for Part<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

struct LabelsVisitor;

impl<'de> de::Visitor<'de> for LabelsVisitor {
    type Value = Labels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of labels")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Labels, E> {
        Ok(Labels::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
        let mut pairs: Vec<(Part<'de>, Part<'de>)> = Vec::with_capacity(map.size_hint().unwrap_or(16).min(64));
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_values_of_a_key_counts() {
        let labels: Labels = serde_json::from_str(r#"{"b":"1","a":"2","b":"3","c":"","e\u0073c":"x\"y"}"#).unwrap();
        assert_eq!(
            (labels.get("a"), labels.get("b"), labels.get("c"), labels.get("d")),
            (Some("2"), Some("3"), Some(""), None)
        );
        let all: Vec<_> = labels.iter().collect();
        assert_eq!(all, [("a", "2"), ("b", "3"), ("c", ""), ("esc", "x\"y")]);
        assert!(serde_json::from_str::<Labels>("null").unwrap().is_empty());
        assert!(serde_json::from_str::<Labels>(r#"{"a\u0000b":"x"}"#).unwrap().is_empty(), "no API server stores that");
    }
}
