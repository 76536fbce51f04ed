//! Labels of an object, reduced: sorted pairs of shared texts.

use std::fmt;

use serde::de::{self, MapAccess};
use serde::{Deserialize, Deserializer};

use super::text::{Text, Texts};

/// Labels, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[(Text, Text)]>);

impl Labels {
    /// The value of the label `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| &**value)
    }

    /// Keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Uses the texts of `texts` instead of its own.
    pub(super) fn share(&mut self, texts: &mut Texts) {
        for (key, value) in &mut self.0 {
            texts.share(key);
            texts.share(value);
        }
    }
}

impl<K: Into<Text>, V: Into<Text>> FromIterator<(K, V)> for Labels {
    /// Of several values for one key, the last counts, as in JSON.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut labels: Vec<(Text, Text)> = pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        labels.reverse();
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        labels.dedup_by(|later, earlier| later.0 == earlier.0);
        Self(labels.into())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LabelsVisitor)
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
        let mut pairs: Vec<(Text, Text)> = Vec::with_capacity(map.size_hint().unwrap_or(8).min(64));
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
        let labels: Labels = serde_json::from_str(r#"{"b":"1","a":"2","b":"3"}"#).unwrap();
        assert_eq!((labels.get("a"), labels.get("b"), labels.get("c")), (Some("2"), Some("3"), None));
        assert!(serde_json::from_str::<Labels>("null").unwrap().is_empty());
    }
}
