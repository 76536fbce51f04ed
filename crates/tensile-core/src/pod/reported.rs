// SPDX-License-Identifier: Apache-2.0
//! What is read of a lower pod for the way up: the rest of its text is passed over.
//!
//! A lower pod changes half a dozen times in its life and each time comes whole; most of it is its spec, of which only
//! names are needed here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A lower pod, as far as its upper pod tells of it.
#[derive(Debug, Deserialize)]
pub struct Reported<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    spec: Spec<'a>,
    /// Its status, whole.
    #[serde(default)]
    pub status: Value,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    annotations: Annotations<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Annotations<'a> {
    #[serde(borrow, rename = "tensile.io/applied")]
    applied: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "tensile.io/references")]
    references: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "tensile.io/tokens")]
    tokens: Option<Cow<'a, str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow)]
    node_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    containers: Vec<Named<'a>>,
    #[serde(borrow)]
    init_containers: Vec<Named<'a>>,
    #[serde(borrow)]
    ephemeral_containers: Vec<Named<'a>>,
}

#[derive(Debug, Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// The part of the record on a lower pod that names its upper pod's containers; what is recorded of each stays text.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Recorded<'a> {
    /// By list and name.
    #[serde(borrow)]
    images: BTreeMap<Cow<'a, str>, &'a RawValue>,
    #[serde(borrow)]
    ephemeral: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

impl<'a> Reported<'a> {
    /// Reads a lower pod's JSON.
    ///
    /// # Errors
    ///
    /// When it is no pod.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The node it was bound to below, if it was.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref()
    }

    /// The names its objects have below, as they were noted on it.
    #[must_use]
    pub fn references(&self) -> Option<&str> {
        self.metadata.annotations.references.as_deref()
    }

    /// The tokens that were made for it, as they were noted on it.
    #[must_use]
    pub fn tokens(&self) -> Option<&str> {
        self.metadata.annotations.tokens.as_deref()
    }

    /// It has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.status["phase"].as_str(), Some("Succeeded" | "Failed"))
    }

    /// Names of the containers that it has and its upper pod does not: injected or attached below. Without a record there
    /// are none.
    #[must_use]
    pub fn foreign_containers(&self) -> Vec<String> {
        let record = self.metadata.annotations.applied.as_deref();
        let Some(record) = record.and_then(|text| serde_json::from_str::<Recorded<'_>>(text).ok()) else {
            return Vec::new();
        };
        let Spec { containers, init_containers, ephemeral_containers, .. } = &self.spec;
        let known = |list: &str, name: &str| record.images.contains_key(format!("{list}/{name}").as_str());
        let injected = containers.iter().filter(|container| !known("containers", &container.name));
        let injected = injected.chain(init_containers.iter().filter(|init| !known("initContainers", &init.name)));
        let attached = ephemeral_containers.iter().filter(|container| !record.ephemeral.contains_key(&container.name));
        injected.chain(attached).map(|container| container.name.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names;

    #[test]
    fn the_names_read_here_are_those_of_the_names_file() {
        let text = json!({
            "metadata": { "annotations": { names::APPLIED: "{}", names::REFERENCES: "r", names::TOKENS: "t" } },
            "spec": { "nodeName": "n", "containers": [{ "name": "a", "image": "i" }] },
            "status": { "phase": "Failed" },
        })
        .to_string();
        let pod = Reported::parse(&text).unwrap();
        assert_eq!((pod.references(), pod.tokens(), pod.node()), (Some("r"), Some("t"), Some("n")));
        assert_eq!((pod.foreign_containers(), pod.has_ended()), (vec!["a".to_owned()], true));
    }

    #[test]
    fn what_a_pod_lacks_is_not_there() {
        let pod = Reported::parse(r#"{"spec":{},"status":{"phase":"Running"}}"#).unwrap();
        assert_eq!((pod.references(), pod.tokens(), pod.node(), pod.has_ended()), (None, None, None, false));
        assert_eq!(pod.foreign_containers(), Vec::<String>::new());
    }
}
