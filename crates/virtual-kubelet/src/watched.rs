// SPDX-License-Identifier: Apache-2.0
//! Objects as a watch delivers them: the raw JSON, and a slim view of what decisions need.
//!
//! A typed Pod costs 22-44 KB in memory and silently drops fields that this build does not know. Here the text is kept
//! as it came, so unknown fields survive, and only the view is parsed; but for `managedFields`, half of a pod's text, which
//! nobody here reads. An object whose view cannot be parsed is still delivered, with the error: one malformed object must
//! not stall the watch for the others.

use std::{borrow::Cow, fmt};

use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher},
};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;

/// A slim view of one kind of object, parsed from its JSON text.
pub trait View: Sized + Clone + fmt::Debug + Send + Sync + 'static {
    /// The Kubernetes kind this is a view of; gives the API path.
    type Kind: Resource<DynamicType = ()>;

    /// Parses the view.
    ///
    /// # Errors
    /// When the text lacks what the view cannot do without, or has it in another shape.
    fn parse(raw: &str) -> Result<Self, serde_json::Error>;
}

/// One object from a list, a watch or an answer of the API server.
#[derive(Clone)]
pub struct Watched<V> {
    /// Only `name`, `namespace`, `uid` and `resourceVersion` are filled: what a watch needs to go on.
    meta: ObjectMeta,
    /// The object's JSON text, as it came, with empty `managedFields`.
    pub raw: Box<RawValue>,
    /// The view, or why there is none.
    pub view: Result<V, Malformed>,
}

/// An object that lacks what its view needs.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind} {namespace}/{name} is malformed: {message}")]
pub struct Malformed {
    /// Kind of the object.
    pub kind: String,
    /// Its namespace, empty when it has none.
    pub namespace: String,
    /// Its name, empty when it has none.
    pub name: String,
    /// What the parser said.
    pub message: String,
}

impl<V> fmt::Debug for Watched<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the text: a Secret may be among it.
        f.debug_struct("Watched")
            .field("namespace", &self.meta.namespace)
            .field("name", &self.meta.name)
            .finish_non_exhaustive()
    }
}

/// The few members of metadata that every object has.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Identity<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Identified<'a> {
    #[serde(borrow)]
    metadata: Identity<'a>,
}

impl<'de, V: View> Deserialize<'de> for Watched<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Borrowed: what is left out of it is never copied.
        let text = <&RawValue>::deserialize(deserializer)?;
        let Identified { metadata } = serde_json::from_str(text.get()).unwrap_or_default();
        let meta = ObjectMeta {
            name: metadata.name.map(Cow::into_owned),
            namespace: metadata.namespace.map(Cow::into_owned),
            uid: metadata.uid.map(Cow::into_owned),
            resource_version: metadata.resource_version.map(Cow::into_owned),
            ..ObjectMeta::default()
        };
        let raw = metadata.managed_fields.and_then(|fields| emptied(text.get(), fields.get()));
        let raw = raw.unwrap_or_else(|| text.to_owned());
        let view = V::parse(raw.get()).map_err(|error| Malformed {
            kind: V::Kind::kind(&()).into_owned(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            message: error.to_string(),
        });
        Ok(Self { meta, raw, view })
    }
}

/// `text` with an empty list in the place of `part`, which is a piece of it.
fn emptied(text: &str, part: &str) -> Option<Box<RawValue>> {
    let start = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let (before, after) = (text.get(..start)?, text.get(start + part.len()..)?);
    RawValue::from_string([before, "[]", after].concat()).ok()
}

impl<V: View> Resource for Watched<V> {
    type DynamicType = ();
    type Scope = <V::Kind as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        V::Kind::kind(&())
    }
    fn group((): &()) -> Cow<'_, str> {
        V::Kind::group(&())
    }
    fn version((): &()) -> Cow<'_, str> {
        V::Kind::version(&())
    }
    fn plural((): &()) -> Cow<'_, str> {
        V::Kind::plural(&())
    }
    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// What of a kind is watched. Selection happens at the API server, never here.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Label selector, or everything.
    pub labels: Option<String>,
    /// Field selector, or everything.
    pub fields: Option<String>,
}

/// What a watch says.
#[derive(Debug)]
pub enum Seen<V> {
    /// A new list begins: what it does not name has to be asked for.
    Begin,
    /// An object of that list.
    Listed(Watched<V>),
    /// The list is complete.
    Complete,
    /// An object was added or changed.
    Changed(Watched<V>),
    /// An object was deleted, or left the selection.
    Deleted(Watched<V>),
}

/// Follows objects for ever: lists, watches, resumes, and lists anew when the server has forgotten where we were.
///
/// Errors are logged and retried with kube-runtime's back-off (800 ms to 30 s with jitter); the stream does not end.
pub fn follow<V>(api: Api<Watched<V>>, selection: Selection) -> impl Stream<Item = Seen<V>> + Send
where
    V: View,
    Watched<V>: DeserializeOwned,
{
    let config = watcher::Config {
        label_selector: selection.labels.clone(),
        field_selector: selection.fields.clone(),
        ..watcher::Config::default()
    };
    let kind = V::Kind::kind(&()).into_owned();
    watcher(api, config)
        .default_backoff()
        .inspect_err(move |error| {
            tracing::warn!(kind, labels = selection.labels, fields = selection.fields, %error, "watch interrupted");
        })
        .filter_map(|event| {
            std::future::ready(event.ok().map(|event| match event {
                watcher::Event::Init => Seen::Begin,
                watcher::Event::InitApply(object) => Seen::Listed(object),
                watcher::Event::InitDone => Seen::Complete,
                watcher::Event::Apply(object) => Seen::Changed(object),
                watcher::Event::Delete(object) => Seen::Deleted(object),
            }))
        })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::{ObjectList, WatchEvent};

    use super::*;

    #[derive(Clone, Debug)]
    struct Phase(String);

    impl View for Phase {
        type Kind = Pod;

        fn parse(raw: &str) -> Result<Self, serde_json::Error> {
            #[derive(Deserialize)]
            struct Status {
                phase: String,
            }
            #[derive(Deserialize)]
            struct Object {
                status: Status,
            }
            serde_json::from_str::<Object>(raw).map(|object| Self(object.status.phase))
        }
    }

    #[test]
    fn a_watch_event_keeps_its_text_and_gets_its_view() {
        let line = r#"{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"},"status":{"phase":"Running","newField":1}}}"#;
        let WatchEvent::Modified(object) = serde_json::from_str::<WatchEvent<Watched<Phase>>>(line).unwrap() else {
            panic!("not MODIFIED")
        };
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        assert!(object.raw.get().contains("newField"));
        assert_eq!(object.view.unwrap().0, "Running");
    }

    #[test]
    fn who_manages_which_fields_is_left_out_of_the_text_and_nothing_else() {
        let object = |fields: &str| {
            format!(
                r#"{{"metadata":{{"name":"a \u00e9","managedFields":{fields},"uid":"u"}},"x":[1],"status":{{"phase":"é"}}}}"#
            )
        };
        let watched = |text: &str| serde_json::from_str::<Watched<Phase>>(text).unwrap();
        for fields in [r#"[{"manager":"kubelet","fieldsV1":{"f:status":{"k:{\"x\":\"]\"}":{}}}}]"#, "[]"] {
            let seen = watched(&object(fields));
            assert_eq!(seen.raw.get(), object("[]"));
            assert_eq!((seen.meta().name.as_deref(), seen.view.as_ref().unwrap().0.as_str()), (Some("a é"), "é"));
        }
        let without = r#"{"metadata":{"name":"a"},"managedFields":[1],"status":{"phase":"x"}}"#;
        assert_eq!(watched(without).raw.get(), without, "only those of the metadata");
    }

    #[test]
    fn a_malformed_object_in_a_list_does_not_spoil_the_others() {
        let text = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
            {"metadata":{"name":"bad","namespace":"n"},"status":{"phase":7}},
            {"metadata":{"name":"good","namespace":"n"},"status":{"phase":"Pending"}}]}"#;
        let list: ObjectList<Watched<Phase>> = serde_json::from_str(text).unwrap();
        assert_eq!(list.items[0].view.as_ref().unwrap_err().name, "bad");
        assert_eq!(list.items[1].view.as_ref().unwrap().0, "Pending");
    }

    #[test]
    fn metadata_of_another_shape_is_an_object_without_a_name() {
        let object: Watched<Phase> = serde_json::from_str(r#"{"metadata":[1],"status":{"phase":"x"}}"#).unwrap();
        assert_eq!(object.meta().name, None);
    }
}
