//! Objects as a watch delivers them, as JSON: nothing that this build does not know can spoil a list.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tensile_core::names;
use tensile_runtime::watch;
use tokio_util::sync::CancellationToken;

use crate::seen::Shared;

/// Objects of a list that are held at a time: what is kept of them is much smaller.
const PAGE: u32 = 100;

/// One object.
pub struct Object<K> {
    meta: ObjectMeta,
    /// All of it.
    pub json: Value,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Object<K> {
    fn clone(&self) -> Self {
        Self { meta: self.meta.clone(), json: self.json.clone(), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Object<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectMeta { namespace, name, .. } = &self.meta;
        f.debug_struct("Object").field("namespace", namespace).field("name", name).finish_non_exhaustive()
    }
}

impl<'de, K> Deserialize<'de> for Object<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Value::deserialize(deserializer)?;
        let text = |member: &str| json["metadata"][member].as_str().map(str::to_owned);
        let meta = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Self { meta, json, kind: PhantomData })
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Object<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }
    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }
    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }
    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }
    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// Follows the pods that opted in.
pub async fn pods(client: Client, seen: Shared, stop: CancellationToken) {
    let api: Api<Object<Pod>> = Api::all(client);
    let labels = format!("{}={}", names::VIRTUAL_POD, names::TRUE);
    stop.run_until_cancelled(follow(api, &labels, |event| seen.change(|seen| seen.pods(event)))).await;
}

/// Follows the virtual nodes.
pub async fn nodes(client: Client, seen: Shared, stop: CancellationToken) {
    let api: Api<Object<Node>> = Api::all(client);
    let labels = format!("{}={}", names::NODE_TYPE, names::VIRTUAL_KUBELET);
    stop.run_until_cancelled(follow(api, &labels, |event| seen.change(|seen| seen.nodes(event)))).await;
}

/// Follows the exclusions of `namespace`.
pub async fn exclusions(client: Client, namespace: &str, seen: Shared, stop: CancellationToken) {
    let api: Api<Object<ConfigMap>> = Api::namespaced(client, namespace);
    let labels = format!("{}={}", names::EXCLUSIONS, names::TRUE);
    stop.run_until_cancelled(follow(api, &labels, |event| seen.change(|seen| seen.maps(event)))).await;
}

/// Follows the journals of moves in `namespace`.
pub async fn moves(client: Client, namespace: &str, seen: Shared, stop: CancellationToken) {
    let api: Api<Object<ConfigMap>> = Api::namespaced(client, namespace);
    let labels = format!("{}={}", names::JOURNAL, names::TRUE);
    stop.run_until_cancelled(follow(api, &labels, |event| seen.change(|seen| seen.moves(event)))).await;
}

/// Tells `apply` of all that happens to the objects with these labels. Does not end.
async fn follow<K>(api: Api<Object<K>>, labels: &str, mut apply: impl FnMut(Event<Value>))
where
    K: Resource<DynamicType = ()> + 'static,
{
    let config = Config::default().labels(labels).page_size(PAGE);
    let mut events = pin!(watch::follow(api, config));
    while let Some(event) = events.next().await {
        apply(match event {
            Event::Init => Event::Init,
            Event::InitApply(object) => Event::InitApply(object.json),
            Event::InitDone => Event::InitDone,
            Event::Apply(object) => Event::Apply(object.json),
            Event::Delete(object) => Event::Delete(object.json),
        });
    }
}
