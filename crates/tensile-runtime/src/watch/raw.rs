// SPDX-License-Identifier: Apache-2.0
//! Objects of any kind as their text: whoever follows them reads just what it needs, and nothing else is ever built.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tensile_core::thin::Read::{self, Members, Whole};
use tensile_core::thin::thin;

/// One object as it came.
#[derive(Clone)]
pub struct Raw {
    /// Only what a watch needs to go on, and what an object is called by.
    meta: ObjectMeta,
    text: Box<RawValue>,
}

impl Raw {
    /// Its JSON.
    pub fn text(&self) -> &str {
        self.text.get()
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the text: a Secret may be among it.
        let ObjectMeta { namespace, name, .. } = &self.meta;
        f.debug_struct("Raw").field("namespace", namespace).field("name", name).finish_non_exhaustive()
    }
}

/// What is read of an object.
const IDENTITY: Read =
    Members(&[("metadata", Members(&[("name", Whole), ("namespace", Whole), ("resourceVersion", Whole)]))]);

#[derive(Deserialize, Default)]
#[serde(default)]
struct Identified {
    metadata: Identity,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

impl From<Identity> for ObjectMeta {
    fn from(Identity { name, namespace, resource_version }: Identity) -> Self {
        Self { name, namespace, resource_version, ..Self::default() }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let identity = thin(text.get(), &IDENTITY).unwrap_or_default();
        let Identified { metadata } = serde_json::from_str(&identity).unwrap_or_default();
        Ok(Self { meta: metadata.into(), text })
    }
}

impl Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        kind.kind.as_str().into()
    }
    fn group(kind: &ApiResource) -> Cow<'_, str> {
        kind.group.as_str().into()
    }
    fn version(kind: &ApiResource) -> Cow<'_, str> {
        kind.version.as_str().into()
    }
    fn api_version(kind: &ApiResource) -> Cow<'_, str> {
        kind.api_version.as_str().into()
    }
    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        kind.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};

    use super::*;

    #[test]
    fn an_event_keeps_its_text_and_says_where_the_watch_is() {
        let line = r#"{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"new":1.50}}"#;
        let WatchEvent::Modified(object) = serde_json::from_str::<WatchEvent<Raw>>(line).unwrap() else { panic!() };
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        assert!(object.text().ends_with(r#""new":1.50}"#), "{}", object.text());
        assert_eq!(format!("{object:?}"), r#"Raw { namespace: Some("n"), name: Some("a"), .. }"#);
    }

    #[test]
    fn a_malformed_object_does_not_spoil_a_list() {
        let list = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":[1]},{"metadata":{"name":"b"}}]}"#;
        let list: ObjectList<Raw> = serde_json::from_str(list).unwrap();
        assert_eq!((list.items[0].meta().name.clone(), list.items[1].meta().name.as_deref()), (None, Some("b")));
    }
}
