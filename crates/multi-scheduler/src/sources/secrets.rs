// SPDX-License-Identifier: Apache-2.0
//! Secrets that hold kubeconfigs, followed by their label.

use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tensile_core::names;
use tensile_runtime::watch::{self, Listing};
use tokio::sync::watch::Sender;

use super::{Kubeconfig, Wanted};

/// The key under which a Secret has its kubeconfig.
const KEY: &str = "kubeconfig";

/// Tells `wanted` what the labelled Secrets of `namespace` hold, for ever.
pub async fn follow(client: Client, namespace: &str, wanted: Sender<Wanted>) {
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    let config = Config::default().labels(&format!("{}={}", names::KUBECONFIG, names::TRUE));
    let mut events = pin!(watch::follow(secrets, config));
    let (mut known, mut listing) = (Wanted::new(), Listing::default());
    while let Some(event) = events.next().await {
        let is_removal = matches!(event, Event::Delete(_));
        if listing.note(&mut known, event, |secret| read(secret, is_removal)) {
            wanted.send_if_modified(|told| {
                let changed = *told != known;
                told.clone_from(&known);
                changed
            });
        }
    }
}

fn read(secret: Secret, is_removal: bool) -> Option<(String, Option<Kubeconfig>)> {
    let (namespace, name) = (secret.metadata.namespace.unwrap_or_default(), secret.metadata.name?);
    let called = format!("{namespace}/{name}");
    let text = secret.data.and_then(|mut data| String::from_utf8(data.remove(KEY)?.0).ok());
    if text.is_none() && !is_removal {
        tracing::error!(secret = called, key = KEY, "a Secret that is labelled so holds no kubeconfig");
    }
    Some((name, text.map(|text| Kubeconfig::Secret { name: called, text })))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    fn secret(key: &str, value: &[u8]) -> Secret {
        let data = json!({ key: ByteString(value.to_vec()) });
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "east"}, "data": data})).unwrap()
    }

    #[test]
    fn a_cluster_is_called_as_its_secret() {
        let held = Kubeconfig::Secret { name: "ns/east".to_owned(), text: "{}".to_owned() };
        assert_eq!(read(secret("kubeconfig", b"{}"), false), Some(("east".to_owned(), Some(held))));
    }

    #[test]
    fn a_secret_without_a_kubeconfig_is_no_cluster() {
        assert_eq!(read(secret("config", b"{}"), false), Some(("east".to_owned(), None)));
        assert_eq!(read(secret("kubeconfig", b"\xff"), false), Some(("east".to_owned(), None)));
    }

    #[test]
    fn what_a_kubeconfig_holds_is_not_shown() {
        let held = Kubeconfig::Secret { name: "ns/east".to_owned(), text: "t0ken".to_owned() };
        assert!(!format!("{held:?}").contains("t0ken"));
    }
}
