// SPDX-License-Identifier: Apache-2.0
//! The codec of the journal of one move.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::placement::Malformed;
use crate::placement::raw::{self, Path};

/// The version that is written; later ones are left alone.
const VERSION: u64 = 1;

/// One move.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal {
    /// Namespace of the pod.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// UID of the old one.
    pub uid: Arc<str>,
    /// How far it has come.
    pub state: State,
    /// The pod as it is made again ([`super::sanitized`]).
    pub manifest: Value,
}

/// How far a move has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nothing was done to the pod but that it may bear the finalizer.
    Prepared,
    /// It is deleted, or will be.
    Deleting {
        /// Its version when that was decided.
        version: Arc<str>,
    },
}

/// Why a text is no journal. The pod it is about is left alone until a human has looked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
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

impl Journal {
    /// Reads a journal.
    pub fn decode(text: &str) -> Result<Self, JournalError> {
        let root = Path::Root("");
        let value: Value = serde_json::from_str(text).map_err(|error| JournalError::NotJson(error.to_string()))?;
        let mut members = raw::into_object(value, Path::Root("the value"))?;
        match members.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(version) if version > VERSION => return Err(JournalError::Newer { version }),
            _ => return Err(root.member("version").must_be("a positive number").into()),
        }
        let manifest = raw::take_object(&mut members, "manifest", root)?;
        let manifest = manifest.ok_or_else(|| root.member("manifest").must_be("an object"))?;
        let text = |name: &str| match members.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Ok(Arc::<str>::from(text.as_str())),
            _ => Err(root.member(name).must_be("a text")),
        };
        let state = match &*text("state")? {
            "Prepared" => State::Prepared,
            "Deleting" => State::Deleting { version: text("podVersion")? },
            _ => return Err(root.member("state").must_be("Prepared or Deleting").into()),
        };
        let journal = Self {
            namespace: text("namespace")?,
            name: text("name")?,
            uid: text("uid")?,
            state,
            manifest: Value::Object(manifest),
        };
        journal.is_about_its_manifest()?;
        Ok(journal)
    }

    /// Another pod than the one that was deleted is never made.
    fn is_about_its_manifest(&self) -> Result<(), Malformed> {
        let (root, meta) = (Path::Root("manifest"), &self.manifest["metadata"]);
        if meta["name"] != *self.name || meta["namespace"] != *self.namespace {
            return Err(root.member("metadata").must_be("of the pod that the journal names"));
        }
        if let Some(annotations) = meta.get("annotations").filter(|annotations| !annotations.is_null()) {
            raw::object(annotations, root.member("metadata.annotations"))?;
        }
        raw::object(&self.manifest["spec"], root.member("spec")).map(drop)
    }

    /// As text.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut members = Map::new();
        let (state, version) = match &self.state {
            State::Prepared => ("Prepared", None),
            State::Deleting { version } => ("Deleting", Some(version)),
        };
        members.insert("version".to_owned(), VERSION.into());
        for (name, text) in
            [("namespace", &*self.namespace), ("name", &*self.name), ("uid", &*self.uid), ("state", state)]
        {
            members.insert(name.to_owned(), text.into());
        }
        members.extend(version.map(|version| ("podVersion".to_owned(), json!(**version))));
        members.insert("manifest".to_owned(), self.manifest.clone());
        Value::Object(members).to_string()
    }
}
