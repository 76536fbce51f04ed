// SPDX-License-Identifier: Apache-2.0
//! `why`: the path of one pod, and what it waits for.

#![allow(clippy::print_stderr, reason = "what could not be looked at is told beside the result")]

mod stages;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::Value;
use tensile_core::names;
use tensile_runtime::upper_id::cluster_id;

use crate::args::Lower;
use crate::cluster::Upper;
use crate::output::{Cell, Mood, Output, Table};
use stages::{Stage, State, stages};

/// Warnings that are shown, the newest.
const WARNINGS: usize = 5;

/// What is known of the pod.
#[derive(Debug, Serialize)]
struct Path {
    pod: String,
    stages: Vec<Stage>,
    /// What was warned of, newest last: reason and message.
    warnings: Vec<Warning>,
}

#[derive(Debug, Serialize)]
struct Warning {
    reason: String,
    message: String,
}

/// Prints the path of a pod. Says whether it has every stage behind it.
pub async fn run(
    upper: &Upper,
    name: &str,
    namespace: Option<String>,
    lower: &Lower,
    output: Output,
) -> anyhow::Result<bool> {
    let namespace = namespace.unwrap_or_else(|| upper.client.default_namespace().to_owned());
    let pods = as_json::<Pod>(&upper.client, Some(&namespace));
    let pod = pods.get(name).await.with_context(|| format!("cannot read pod {namespace}/{name}"))?;
    let pod = serde_json::to_value(pod)?;
    let (mut node, mut below) = (None, None);
    if let Some(of) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        let nodes: Api<Node> = Api::all(upper.client.clone());
        let found = nodes.get_opt(of).await.with_context(|| format!("cannot read node {of}"))?;
        node = found.map(serde_json::to_value).transpose()?;
        if node.as_ref().is_some_and(|node| node["metadata"]["labels"][names::NODE_TYPE] == names::VIRTUAL_KUBELET) {
            below = match lower_pod(upper, of, &pod, lower).await {
                Ok(below) => below,
                Err(error) => {
                    eprintln!("the lower cluster was not looked at: {error:#}");
                    None
                }
            };
        }
    }
    let warnings = warnings(&upper.client, &namespace, &pod).await?;
    let path =
        Path { pod: format!("{namespace}/{name}"), stages: stages(&pod, node.as_ref(), below.as_ref()), warnings };
    output.print(&path, table)?;
    Ok(path.stages.iter().all(|stage| stage.state == State::Done))
}

/// The lower pod, by the labels and the annotation that the virtual node gives it.
async fn lower_pod(upper: &Upper, node: &str, pod: &Value, lower: &Lower) -> anyhow::Result<Option<Value>> {
    let client = upper.lower(node, lower).await?;
    let id = cluster_id(&upper.client).await?;
    let ours = format!("{}={id},{}={}", names::UPPER_CLUSTER, names::VIRTUAL_NODE, names::label_value(node));
    let pods = as_json::<Pod>(&client, None).list(&ListParams::default().labels(&ours)).await;
    let pods = pods.context("cannot list the pods of the lower cluster")?;
    let is_it = |pod_below: &DynamicObject| {
        let annotations = pod_below.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(names::UPPER_UID)).map(String::as_str) == pod["metadata"]["uid"].as_str()
    };
    pods.items.into_iter().find(is_it).map(|pod| Ok(serde_json::to_value(pod)?)).transpose()
}

async fn warnings(client: &Client, namespace: &str, pod: &Value) -> anyhow::Result<Vec<Warning>> {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let about = ListParams::default().fields(&format!("involvedObject.uid={uid},type=Warning"));
    let mut events = events.list(&about).await.context("cannot list the events of the pod")?.items;
    events.sort_by_key(|event| {
        let micro = event.event_time.as_ref().map(|time| time.0);
        event.last_timestamp.as_ref().map(|time| time.0).or(micro)
    });
    let newest = events.split_off(events.len().saturating_sub(WARNINGS));
    let warning =
        |event: Event| Warning { reason: event.reason.unwrap_or_default(), message: event.message.unwrap_or_default() };
    Ok(newest.into_iter().map(warning).collect())
}

fn as_json<K>(client: &Client, namespace: Option<&str>) -> Api<DynamicObject>
where
    K: kube::Resource<DynamicType = ()>,
{
    let resource = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

fn table(path: &Path) -> Table {
    let stage = |stage: &Stage| {
        let state = match stage.state {
            State::Done => Cell::new("done", Mood::Good),
            State::Waiting => Cell::new("waiting", Mood::Waiting),
            State::Failed => Cell::new("failed", Mood::Bad),
            State::Unknown => "-".into(),
        };
        vec![stage.who.into(), state, stage.detail.clone().into()]
    };
    let warning = |warning: &Warning| {
        vec!["warning".into(), Cell::new(warning.reason.clone(), Mood::Waiting), warning.message.clone().into()]
    };
    let rows = path.stages.iter().map(stage).chain(path.warnings.iter().map(warning)).collect();
    Table { head: &["STAGE", "STATE", "DETAIL"], rows }
}
