// SPDX-License-Identifier: Apache-2.0
//! The watches of one lower cluster, and the question whether it is still there.

use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use kube::core::ApiResource;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tensile_core::scheduling::{Change, Kind};
use tensile_runtime::upper_id::cluster_id;
use tensile_runtime::watch::{self, Raw};

use super::Lower;

/// Objects of a list that are held at a time: what is kept of them is much smaller.
const PAGE: u32 = 500;
/// How often the API server is asked whether it is there, and how long it may take.
const PROBE: Duration = Duration::from_secs(5);

/// What a watch says.
#[derive(Debug)]
pub enum Heard {
    /// A list begins.
    Begin,
    /// An object of the list, or a change.
    Change(Change),
    /// The list is complete.
    Complete,
    /// The watch was interrupted, for this reason.
    Interrupted(String),
}

/// Follows the objects of one kind. Does not end.
pub fn follow(client: Client, cluster: &str, kind: Kind) -> impl Stream<Item = Heard> + Send + use<> {
    let api: Api<Raw> = Api::all_with(client, &resource(kind));
    let config = Config { field_selector: fields(kind), ..Config::default().page_size(PAGE) };
    let cluster = cluster.to_owned();
    watch::attend(api, config).filter_map(move |event| {
        let read = |raw: &Raw, change: fn(_) -> Change| match kind.decode(raw.text()) {
            Ok(object) => Some(Heard::Change(change(object))),
            Err(error) => {
                tracing::error!(cluster, kind = kind.resource().1, object = ?raw, %error, "an object was passed over: malformed");
                None
            }
        };
        std::future::ready(match event {
            Ok(Event::Init) => Some(Heard::Begin),
            Ok(Event::InitApply(raw) | Event::Apply(raw)) => read(&raw, Change::Seen),
            Ok(Event::InitDone) => Some(Heard::Complete),
            Ok(Event::Delete(raw)) => read(&raw, Change::Gone),
            Err(error) => {
                tracing::warn!(cluster, kind = kind.resource().1, %error, "watch interrupted, trying again");
                Some(Heard::Interrupted(error.to_string()))
            }
        })
    })
}

/// Pods that have ended take nothing and are not even sent.
fn fields(kind: Kind) -> Option<String> {
    (kind == Kind::Pod).then(|| "status.phase!=Succeeded,status.phase!=Failed".to_owned())
}

fn resource(kind: Kind) -> ApiResource {
    let (api_version, plural) = kind.resource();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        // Used only in texts.
        kind: plural.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Asks every few seconds whether the API server is there and still that of the same cluster, and calls `fresh` when what is
/// known counts again. Does not end.
pub async fn probe(lower: &Lower, client: Client, patience: Duration, fresh: impl Fn()) {
    let mut tick = tokio::time::interval(PROBE);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut known = true;
    loop {
        tick.tick().await;
        let answer = tokio::time::timeout(PROBE, cluster_id(&client)).await;
        let answer = match answer {
            Ok(Ok(id)) if *id == *lower.id => Ok(()),
            Ok(Ok(id)) => Err(format!("another cluster answers there, {id}")),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {} s", PROBE.as_secs())),
        };
        let now = Instant::now();
        if lower.probed(answer, now, patience) {
            fresh();
        }
        match lower.state(now, patience) {
            Ok(()) if !known => tracing::info!(cluster = lower.name, "the lower cluster is known again"),
            Err(reason) if known => {
                tracing::warn!(cluster = lower.name, reason, "the lower cluster is not known well enough");
            }
            _ => {}
        }
        known = lower.state(now, patience).is_ok();
    }
}
