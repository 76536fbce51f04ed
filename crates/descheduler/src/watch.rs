// SPDX-License-Identifier: Apache-2.0
//! What happens to objects, as JSON: nothing that this build does not know can spoil a list, and nothing is kept of an
//! object that is not read here at once.

use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::ApiResource;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use serde_json::Value;
use tensile_core::names;
use tensile_runtime::watch::{self, Raw};
use tokio_util::sync::CancellationToken;

use crate::seen::Shared;

/// Objects of a list that are held at a time: what is kept of them is much smaller.
const PAGE: u32 = 100;

/// Follows the pods that opted in.
pub async fn pods(client: Client, seen: Shared, stop: CancellationToken) {
    let api = Api::all_with(client, &ApiResource::erase::<Pod>(&()));
    let labels = format!("{}={}", names::VIRTUAL_POD, names::TRUE);
    stop.run_until_cancelled(follow(api, &labels, |event| seen.change(|seen| seen.pods(event)))).await;
}

/// Follows the virtual nodes.
pub async fn nodes(client: Client, seen: Shared, stop: CancellationToken) {
    let api = Api::all_with(client, &ApiResource::erase::<Node>(&()));
    let labels = format!("{}={}", names::NODE_TYPE, names::VIRTUAL_KUBELET);
    stop.run_until_cancelled(follow(api, &labels, |event| seen.change(|seen| seen.nodes(event)))).await;
}

/// Follows the exclusions of `namespace`.
pub async fn exclusions(client: Client, namespace: &str, seen: Shared, stop: CancellationToken) {
    let labels = format!("{}={}", names::EXCLUSIONS, names::TRUE);
    let maps = maps(client, namespace);
    stop.run_until_cancelled(follow(maps, &labels, |event| seen.change(|seen| seen.maps(event)))).await;
}

/// Follows the journals of moves in `namespace`.
pub async fn moves(client: Client, namespace: &str, seen: Shared, stop: CancellationToken) {
    let labels = format!("{}={}", names::JOURNAL, names::TRUE);
    let maps = maps(client, namespace);
    stop.run_until_cancelled(follow(maps, &labels, |event| seen.change(|seen| seen.moves(event)))).await;
}

fn maps(client: Client, namespace: &str) -> Api<Raw> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<ConfigMap>(&()))
}

/// Tells `apply` of all that happens to the objects with these labels. Does not end.
async fn follow(api: Api<Raw>, labels: &str, mut apply: impl FnMut(Event<Value>)) {
    let config = Config::default().labels(labels).page_size(PAGE);
    let mut events = pin!(watch::attend(api, config));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => apply(match event {
                Event::Init => Event::Init,
                Event::InitApply(object) => Event::InitApply(read(&object)),
                Event::InitDone => Event::InitDone,
                Event::Apply(object) => Event::Apply(read(&object)),
                Event::Delete(object) => Event::Delete(read(&object)),
            }),
            Err(error) => tracing::warn!(labels, %error, "watch interrupted, trying again"),
        }
    }
}

/// Nothing, of one that cannot be read: then it is malformed to whoever looks for its name.
fn read(object: &Raw) -> Value {
    serde_json::from_str(object.text()).unwrap_or_default()
}
