// SPDX-License-Identifier: Apache-2.0
//! Text that many objects share.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use foldhash::HashSet;
use serde::{Deserialize, Deserializer, de};

/// A name, a key or a value: cheap to clone, and stored once where it is shared.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(Arc<str>);

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl de::Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
        Ok(text.into())
    }
}

/// Texts that many objects share. One that nobody uses any more goes when the rest has doubled.
#[derive(Debug, Default)]
pub(super) struct Texts {
    known: HashSet<Text>,
    sweep_at: usize,
}

/// Below this many texts nothing is swept.
const FEW: usize = 1024;

impl Texts {
    /// Replaces `text` by the one that is known already.
    pub(super) fn share(&mut self, text: &mut Text) {
        if let Some(known) = self.known.get(&*text) {
            *text = known.clone();
            return;
        }
        if self.known.len() >= self.sweep_at.max(FEW) {
            self.known.retain(|known| Arc::strong_count(&known.0) > 1);
            self.sweep_at = self.known.len() * 2;
        }
        self.known.insert(text.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shared_and_forgotten() {
        let mut texts = Texts::default();
        let mut kept: Vec<Text> = Vec::new();
        for number in 0..5_000 {
            let mut text = Text::from(format!("{}", number % 10));
            texts.share(&mut text);
            kept.push(text);
            texts.share(&mut format!("once-{number}").into());
        }
        assert!(Arc::ptr_eq(&kept[0].0, &kept[10].0));
        assert!(texts.known.len() < 2 * FEW + 20, "{}", texts.known.len());
    }
}
