// SPDX-License-Identifier: Apache-2.0
//! Default amounts of a namespace: what its containers request and are limited to when they do not say so.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value, json};

use super::super::text::Text;
use super::{Written, or_default};

/// A `LimitRange`. What it forbids is not followed, only what it adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRange {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// What a container requests, by resource.
    requests: BTreeMap<Box<str>, Value>,
    /// What a container is limited to, by resource.
    limits: BTreeMap<Box<str>, Value>,
}

impl LimitRange {
    /// Adds to a container what it says nothing of.
    pub(in super::super) fn complete(&self, container: &mut Value) {
        for (list, defaults) in [("requests", &self.requests), ("limits", &self.limits)] {
            for (name, quantity) in defaults {
                let resources = object(container).and_then(|container| member(container, "resources"));
                if let Some(list) = resources.and_then(|resources| member(resources, list)) {
                    list.entry(&**name).or_insert_with(|| quantity.clone());
                }
            }
        }
    }
}

/// What is no object becomes one.
fn object(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut()
}

fn member<'v>(object: &'v mut Map<String, Value>, name: &str) -> Option<&'v mut Map<String, Value>> {
    self::object(object.entry(name).or_insert(Value::Null))
}

impl<'de> Deserialize<'de> for LimitRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Meta {
            name: Text,
            #[serde(default)]
            namespace: Text,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            #[serde(deserialize_with = "or_default")]
            limits: Vec<Item>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Item {
            #[serde(rename = "type")]
            kind: Box<str>,
            #[serde(deserialize_with = "or_default")]
            default_request: BTreeMap<Box<str>, Value>,
            #[serde(deserialize_with = "or_default")]
            default: BTreeMap<Box<str>, Value>,
        }
        let written = Written::<Meta, Spec, de::IgnoredAny>::deserialize(deserializer)?;
        let Meta { name, namespace } = written.metadata;
        let mut range = Self { namespace, name, requests: BTreeMap::new(), limits: BTreeMap::new() };
        for item in written.spec.limits.into_iter().filter(|item| &*item.kind == "Container") {
            range.requests.extend(item.default_request);
            range.limits.extend(item.default);
        }
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_gets_what_it_says_nothing_of() {
        let range: LimitRange = serde_json::from_value(json!({
            "metadata": {"name": "r", "namespace": "n"},
            "spec": {"limits": [{"type": "Pod", "max": {"cpu": "9"}},
                {"type": "Container", "defaultRequest": {"cpu": "1", "memory": "1Gi"}, "default": {"cpu": "2"}}]},
        }))
        .unwrap();
        let complete = |mut container: Value| {
            range.complete(&mut container);
            container["resources"].clone()
        };
        let all = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}});
        assert_eq!(complete(json!({})), all);
        assert_eq!(complete(json!({"resources": {"requests": null}})), all);
        let own = json!({"requests": {"cpu": "3"}, "limits": {"cpu": "3"}});
        assert_eq!(
            complete(json!({"resources": own})),
            json!({"requests": {"cpu": "3", "memory": "1Gi"}, "limits": {"cpu": "3"}})
        );
    }
}
