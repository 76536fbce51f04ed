// SPDX-License-Identifier: Apache-2.0
//! Watches that keep [`SelectedNodes`] up to date: the annotations of claims, and which virtual nodes take pods.

use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use tensile_core::names;
use tensile_runtime::admin::Condition;
use tensile_runtime::clients::{ProbeError, wait_for_upper};
use tensile_runtime::watch::{self, Listing};
use tokio_util::sync::CancellationToken;

use crate::permissions;
use crate::selected_node::{SelectedNodes, key};

/// Keeps `known` up to date until `stop` is cancelled; `heard` once all that is there was listed.
///
/// # Errors
///
/// When something is missing that waiting does not mend, and it is `required`; else it is told, and nothing is known.
pub async fn follow(
    client: Client,
    required: bool,
    known: Arc<RwLock<SelectedNodes>>,
    heard: Condition,
    stop: CancellationToken,
) -> Result<(), ProbeError> {
    match stop.run_until_cancelled(wait_for_upper(&client, permissions::CLAIMS)).await {
        None => return Ok(()),
        Some(Ok(())) => {}
        Some(Err(error)) if required => return Err(error),
        Some(Err(error)) => {
            tracing::warn!(%error, "pods are not sent to the virtual nodes of their claims");
            heard.ready();
            stop.cancelled().await;
            return Ok(());
        }
    }
    let claims: Api<PartialObjectMeta<PersistentVolumeClaim>> = Api::all(client.clone());
    let virtual_nodes = Config::default().labels(&format!("{}={}", names::NODE_TYPE, names::VIRTUAL_KUBELET));
    let mut claims = pin!(watch::follow(claims, Config::default()));
    let mut nodes = pin!(watch::follow(Api::<Node>::all(client), virtual_nodes));
    let (mut listed_claims, mut listed_nodes) = (Listing::default(), Listing::default());
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            Some(event) = claims.next() => listed_claims.note(&mut write(&known).claims, event, |claim| Some(selected(&claim))),
            Some(event) = nodes.next() => listed_nodes.note(&mut write(&known).nodes, event, |node| Some(takes_pods(&node))),
        };
        if listed_claims.is_complete() && listed_nodes.is_complete() {
            heard.ready();
        }
    }
}

fn write(known: &RwLock<SelectedNodes>) -> RwLockWriteGuard<'_, SelectedNodes> {
    known.write().unwrap_or_else(PoisonError::into_inner)
}

/// The node that was chosen for a claim.
fn selected(claim: &PartialObjectMeta<PersistentVolumeClaim>) -> (String, Option<String>) {
    let name = key(&claim.namespace().unwrap_or_default(), &claim.name_any());
    (name, claim.annotations().get(names::SELECTED_NODE).filter(|node| !node.is_empty()).cloned())
}

/// Whether pods may be scheduled to a node.
fn takes_pods(node: &Node) -> (String, Option<bool>) {
    let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    (node.name_any(), Some(!unschedulable))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::api::ObjectMeta;
    use kube::runtime::watcher::Event;

    use super::*;

    fn claim(name: &str, node: Option<&str>) -> PartialObjectMeta<PersistentVolumeClaim> {
        let annotations = node.map(|node| [(names::SELECTED_NODE.to_owned(), node.to_owned())].into());
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("ns".to_owned()),
            annotations,
            ..ObjectMeta::default()
        };
        PartialObjectMeta { types: None, metadata, _phantom: std::marker::PhantomData }
    }

    #[test]
    fn a_new_list_takes_the_place_of_the_old_one_when_it_is_complete() {
        let (mut listed, mut known) = (Listing::default(), BTreeMap::new());
        let mut told = |event, expected: &[(&str, &str)]| {
            listed.note(&mut known, event, |claim| Some(selected(&claim)));
            let expected = expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            assert_eq!(known, expected);
        };
        told(Event::Init, &[]);
        told(Event::InitApply(claim("a", Some("east"))), &[]);
        told(Event::InitApply(claim("b", None)), &[]);
        told(Event::InitDone, &[("ns/a", "east")]);
        told(Event::Apply(claim("b", Some("west"))), &[("ns/a", "east"), ("ns/b", "west")]);
        told(Event::Apply(claim("a", None)), &[("ns/b", "west")]);
        told(Event::Apply(claim("a", Some(""))), &[("ns/b", "west")]);
        told(Event::Delete(claim("b", Some("west"))), &[]);
        told(Event::Apply(claim("c", Some("east"))), &[("ns/c", "east")]);
        told(Event::Init, &[("ns/c", "east")]);
        told(Event::InitApply(claim("d", Some("east"))), &[("ns/c", "east")]);
        told(Event::InitDone, &[("ns/d", "east")]);
        assert!(listed.is_complete());
    }

    #[test]
    fn a_cordoned_node_takes_no_pods() {
        let node = |unschedulable: bool| -> Node {
            serde_json::from_value(
                serde_json::json!({ "metadata": { "name": "n" }, "spec": { "unschedulable": unschedulable } }),
            )
            .unwrap()
        };
        assert_eq!(takes_pods(&node(false)), ("n".to_owned(), Some(true)));
        assert_eq!(takes_pods(&node(true)), ("n".to_owned(), Some(false)));
    }
}
