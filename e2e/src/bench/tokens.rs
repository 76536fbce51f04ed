// SPDX-License-Identifier: Apache-2.0
//! What it costs upstairs to renew the tokens of many pods: requests a second when all of them are due at once, which is
//! the worst there is.

use std::time::Duration;

use anyhow::Context as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tensile_core::names;

use super::lab::{self, DEADLINE, Lab, Target};
use super::objects::{IN_FLIGHT, USER_AGENT, create};
use super::table::Row;
use crate::wait;

const NAMESPACE: &str = "tokens";
/// How often it is looked how far the renewals are: each look lists all Secrets.
const LOOK: Duration = Duration::from_secs(5);
/// Renewals are counted over so many seconds.
const SPAN: i64 = 10;
/// A time at which a token has run out.
const PAST: &str = "2026-01-01T00:00:00Z";

/// Leaves its pods behind: to delete ten thousand takes longer than one request may, and nothing is measured after them.
pub(super) async fn measure(lab: &Lab, pods: usize) -> anyhow::Result<Vec<Row>> {
    let (above, _) = lab.watch(NAMESPACE).await?;
    let with_token = |number: usize| {
        let mut pod = lab::pod(&format!("pod-{number}"), Target::VirtualNode);
        pod["spec"]["automountServiceAccountToken"] = json!(true);
        pod
    };
    create::<Pod>(lab, NAMESPACE, (0..pods).map(with_token).collect()).await?;
    above.reached(|life| life.running, pods, "Running", DEADLINE).await?;
    let secrets: Api<PartialObjectMeta<Secret>> = Api::namespaced(lab.lower.client(), NAMESPACE);
    let held = async || {
        let all = secrets.list(&ListParams::default().labels(&format!("{}={}", names::TOKENS, names::TRUE))).await?;
        anyhow::Ok(all.items)
    };
    let held_by_all = async || {
        let held = held().await?;
        anyhow::ensure!(held.len() == pods, "{} of {pods}", held.len());
        Ok(held)
    };
    let first = wait::eventually(DEADLINE, "every pod has its tokens", held_by_all).await?;

    let before = renewals(lab)?.len();
    stream::iter(first)
        .map(|secret| {
            let secrets = secrets.clone();
            anyhow::Ok(async move { expire(&secrets, &secret).await })
        })
        .try_buffer_unordered(IN_FLIGHT)
        .try_collect::<()>()
        .await?;
    eprintln!("the tokens of {pods} pods are due");
    let has_run_out = |secret: &PartialObjectMeta<Secret>| {
        secret.annotations().get(names::TOKENS).is_none_or(|lives| lives.contains(PAST))
    };
    while held().await?.iter().any(has_run_out) {
        tokio::time::sleep(LOOK).await;
    }
    let times = renewals(lab)?.split_off(before);
    let many = format!("{pods} pods with tokens, all due at once: ");
    let busiest = times.iter().map(|from| times.iter().filter(|at| (0..SPAN).contains(&(*at - from))).count()).max();
    #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let rate = busiest.unwrap_or_default() as f64 / SPAN as f64;
    Ok(vec![
        Row::new(format!("{many}requests a second, busiest {SPAN} s"), format!("{rate:.1}")).target("<= 20"),
        Row::new(format!("{many}requests"), times.len().to_string()),
    ])
}

/// Says on the Secret that all its tokens have run out.
async fn expire(secrets: &Api<PartialObjectMeta<Secret>>, secret: &PartialObjectMeta<Secret>) -> anyhow::Result<()> {
    let noted = secret.annotations().get(names::TOKENS).context("no note")?;
    let mut lives: Value = serde_json::from_str(noted)?;
    for life in lives.as_object_mut().context("no object")?.values_mut() {
        life["expires"] = json!(PAST);
    }
    let change = json!({ "metadata": { "annotations": { names::TOKENS: lives.to_string() } } });
    secrets.patch_metadata(&secret.name_any(), &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

/// When the virtual node requested tokens, in seconds, in order.
fn renewals(lab: &Lab) -> anyhow::Result<Vec<i64>> {
    let requests = lab.upper.audit()?.by(USER_AGENT).requests;
    let of_tokens = requests.into_iter().filter(|request| {
        request.object_ref.as_ref().is_some_and(|object| object.subresource == "token") && request.verb == "create"
    });
    let mut times: Vec<i64> =
        of_tokens.filter_map(|request| request.request_received_timestamp.map(Timestamp::as_second)).collect();
    times.sort_unstable();
    Ok(times)
}
