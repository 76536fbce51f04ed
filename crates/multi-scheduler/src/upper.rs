// SPDX-License-Identifier: Apache-2.0
//! What the upper cluster says of its virtual nodes, and of pods on their way to them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::ApiResource;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use serde::Deserialize;
use tensile_core::names;
use tensile_core::pod::LinkView;
use tensile_core::tenant::Mapping;
use tensile_runtime::admin::Condition;
use tensile_runtime::watch::{self, Listing, Raw};
use tokio_util::sync::CancellationToken;

use crate::fleet::{Fleet, VirtualNode};
use crate::gangs::{Group, Membership, SchedulingGroup, WorkloadRef};

/// Objects of a list that are held at a time.
pub(crate) const PAGE: u32 = 500;

/// Follows the virtual nodes, then the pods, until `stop`; `listed` is ready once both are known.
pub async fn run(fleet: Arc<Fleet>, client: Client, upper_cluster: String, listed: Condition, stop: CancellationToken) {
    let (nodes_listed, known) = tokio::sync::oneshot::channel();
    let nodes = nodes(&fleet, client.clone(), &upper_cluster, nodes_listed);
    let pods = async {
        // A pod means something once its node is known.
        if known.await.is_ok() {
            pods(&fleet, client, &listed).await;
        }
    };
    stop.run_until_cancelled(async { tokio::join!(Box::pin(nodes), Box::pin(pods)) }).await;
}

#[derive(Deserialize)]
struct NodeObject {
    metadata: NodeMeta,
}

#[derive(Deserialize)]
struct NodeMeta {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "tensile.io/namespace-mapping")]
    namespace_mapping: Option<String>,
}

/// Does not end.
async fn nodes(fleet: &Fleet, client: Client, upper_cluster: &str, listed: tokio::sync::oneshot::Sender<()>) {
    let api: Api<Raw> = Api::all_with(client, &ApiResource::erase::<Node>(&()));
    let config = Config::default().labels(&format!("{}={}", names::NODE_TYPE, names::VIRTUAL_KUBELET)).page_size(PAGE);
    let (mut known, mut listing, mut listed) = (BTreeMap::new(), Listing::default(), Some(listed));
    let mut events = pin!(watch::attend(api, config));
    while let Some(event) = events.next().await {
        let Ok(event) = event.inspect_err(interrupted("nodes")) else { continue };
        let read = |raw: Raw| match serde_json::from_str::<NodeObject>(raw.text()) {
            Ok(node) => Some((node.metadata.name.clone(), Some(Arc::new(virtual_node(fleet, node, upper_cluster))))),
            Err(error) => {
                tracing::error!(object = ?raw, %error, "a node was passed over: malformed");
                None
            }
        };
        if listing.note(&mut known, event, read) {
            fleet.set_nodes(known.clone());
            if let Some(listed) = listed.take_if(|_| listing.is_complete()) {
                // Who listened has ended.
                listed.send(()).ok();
            }
        }
    }
}

fn virtual_node(fleet: &Fleet, node: NodeObject, upper_cluster: &str) -> VirtualNode {
    let NodeMeta { name, labels, annotations } = node.metadata;
    VirtualNode {
        lower: labels.get(names::LOWER_CLUSTER).map(|id| id.as_str().into()),
        link: LinkView {
            upper_cluster: upper_cluster.to_owned(),
            virtual_node: name,
            namespaces: Mapping::noted(annotations.namespace_mapping.as_deref()),
            node_labels: labels,
            kept_keys: fleet.policy.kept.clone(),
            ignored_labels: fleet.policy.ignored_labels.clone(),
            provider_taint_key: names::PROVIDER_TAINT.to_owned(),
            allow_host_namespaces: fleet.policy.allow_host_namespaces,
            refuse_host_path: fleet.policy.refuse_host_path,
            // A class adds overhead below, which nobody here knows.
            keep_runtime_class: false,
            // What a pod brings along takes no room.
            brings_claims: false,
            identity: None,
            dns: None,
        },
    }
}

/// What of a pod says how far it is.
#[derive(Deserialize)]
struct PodObject {
    metadata: PodMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
struct PodMeta {
    uid: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    scheduling_group: Option<SchedulingGroup>,
    workload_ref: Option<WorkloadRef>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: Option<String>,
}

/// Does not end.
async fn pods(fleet: &Fleet, client: Client, listed: &Condition) {
    let api: Api<Raw> = Api::all_with(client, &ApiResource::erase::<Pod>(&()));
    let mut events = pin!(watch::attend(api, Config::default().page_size(PAGE)));
    while let Some(event) = events.next().await {
        match event.inspect_err(interrupted("pods")) {
            Ok(Event::Init) => fleet.reservations().begin(),
            Ok(Event::InitApply(raw) | Event::Apply(raw)) => pod_seen(fleet, &raw),
            Ok(Event::InitDone) => {
                fleet.pods_listed();
                listed.ready();
            }
            Ok(Event::Delete(raw)) => {
                if let Ok(pod) = serde_json::from_str::<PodObject>(raw.text()) {
                    fleet.pod_ended(&pod.metadata.uid, pod.spec.node_name.as_deref());
                }
            }
            Err(_) => {}
        }
    }
}

fn pod_seen(fleet: &Fleet, raw: &Raw) {
    let pod = match serde_json::from_str::<PodObject>(raw.text()) {
        Ok(pod) => pod,
        Err(error) => return tracing::error!(object = ?raw, %error, "a pod was passed over: malformed"),
    };
    let PodMeta { uid, namespace, labels } = &pod.metadata;
    let PodSpec { node_name, scheduling_group, workload_ref } = pod.spec;
    let node = node_name.as_deref().filter(|node| !node.is_empty());
    let membership = Membership { scheduling_group, workload_ref };
    let group = Group::of(namespace, |label| labels.get(label).map(String::as_str), membership);
    if let (Some(group), Some(node)) = (group, node) {
        fleet.gangs().bound(uid, group, node);
    }
    match (pod.status.phase.as_deref(), node) {
        (None | Some("" | "Pending"), None) => fleet.reservations().waiting(uid),
        (None | Some("" | "Pending"), Some(node)) if fleet.nodes().contains_key(node) => {
            fleet.pod_bound(uid, node, raw.text());
        }
        (Some("Succeeded" | "Failed"), node) => fleet.pod_ended(uid, node),
        (_, Some(node)) => fleet.pod_runs(uid, node),
        (_, None) => fleet.pod_ended(uid, None),
    }
}

/// Says that a watch was interrupted.
pub(crate) fn interrupted(what: &'static str) -> impl Fn(&kube::runtime::watcher::Error) {
    move |error| tracing::warn!(kind = what, %error, "watch of the upper cluster interrupted, trying again")
}
