// SPDX-License-Identifier: Apache-2.0
//! Objects that say how many members a group of pods must have, followed where the upper cluster has their API.
//!
//! None of these APIs is there by default: coscheduling's is a custom resource, those of the core are off. One that comes
//! later is found a minute later. Whether one is there, and what it says, is known before the first question is answered.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use kube::core::ApiResource;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use serde::Deserialize;
use tensile_core::scheduling::Gain;
use tensile_runtime::admin::Condition;
use tensile_runtime::watch::{self, Listing, Raw};
use tokio_util::sync::CancellationToken;

use crate::fleet::Fleet;
use crate::gangs::{GroupObject, Naming};
use crate::upper::{PAGE, interrupted};

/// How often it is looked whether an API is there that was not.
const LOOK: Duration = Duration::from_secs(60);
/// Pause before a question that was not answered is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// A kind of object that says how many members groups must have.
struct Source {
    /// Group and version.
    api_version: &'static str,
    plural: &'static str,
    naming: Naming,
}

/// All there are. Of several versions of one API, each that is served is followed: they say the same.
const SOURCES: [Source; 4] = [
    Source { api_version: "scheduling.x-k8s.io/v1alpha1", plural: "podgroups", naming: Naming::Label },
    Source { api_version: "scheduling.k8s.io/v1beta1", plural: "podgroups", naming: Naming::SchedulingGroup },
    Source { api_version: "scheduling.k8s.io/v1alpha2", plural: "podgroups", naming: Naming::SchedulingGroup },
    Source { api_version: "scheduling.k8s.io/v1alpha1", plural: "workloads", naming: Naming::WorkloadRef },
];

/// Follows all of them until `stop`; `known` is ready once it is known what each of them says.
pub async fn run(fleet: Arc<Fleet>, client: Client, known: Condition, stop: CancellationToken) {
    let missing = AtomicUsize::new(SOURCES.len());
    let told = || {
        if missing.fetch_sub(1, Ordering::Relaxed) == 1 {
            known.ready();
        }
    };
    let all = SOURCES.iter().map(|source| source.run(&fleet, &client, &told));
    stop.run_until_cancelled(join_all(all)).await;
}

impl Source {
    /// Calls `told` once, when it is known what it says. Does not end.
    async fn run(&self, fleet: &Fleet, client: &Client, told: &impl Fn()) {
        let mut told = Some(told);
        while !self.is_served(client).await {
            told.take().into_iter().for_each(|told| told());
            tokio::time::sleep(LOOK).await;
        }
        tracing::info!(api = self.api_version, kind = self.plural, "groups of pods are known by their objects");
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        let kind = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: self.api_version.to_owned(),
            // Used only in texts.
            kind: self.plural.to_owned(),
            plural: self.plural.to_owned(),
        };
        let api: Api<Raw> = Api::all_with(client.clone(), &kind);
        let (mut known, mut listing) = (BTreeMap::new(), Listing::default());
        let mut events = pin!(watch::attend(api, Config::default().page_size(PAGE)));
        while let Some(event) = events.next().await {
            let Ok(event) = event.inspect_err(interrupted(self.plural)) else { continue };
            let read = |raw: Raw| match groups(self.naming, raw.text()) {
                Ok((key, groups)) => Some((key, Some(groups))),
                Err(error) => {
                    tracing::error!(object = ?raw, %error, "a group was passed over: malformed");
                    None
                }
            };
            if listing.note(&mut known, event, read) {
                let all = known.values().flatten().map(|(group, least): &(GroupObject, u64)| (group.clone(), *least));
                fleet.gangs().set_least(self.api_version, all.collect());
                told.take().into_iter().for_each(|told| told());
                // What was refused for a group may be right now.
                fleet.lowers().values().for_each(|lower| fleet.gained(lower, Gain::Room));
            }
        }
    }

    /// Whether the upper cluster has this API. Asks until it says.
    async fn is_served(&self, client: &Client) -> bool {
        loop {
            match client.list_api_group_resources(self.api_version).await {
                Ok(list) => return list.resources.iter().any(|resource| resource.name == self.plural),
                Err(kube::Error::Api(status)) if status.code == 404 => return false,
                Err(error) => {
                    tracing::warn!(api = self.api_version, %error, "it is not known whether this API is there, trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct Object {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
struct Meta {
    namespace: String,
    name: String,
}

/// What there is in one or another of the kinds.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    min_member: Option<u64>,
    scheduling_policy: Policy,
    pod_groups: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    #[serde(default)]
    policy: Policy,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Policy {
    gang: Option<Gang>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gang {
    min_count: u64,
}

/// Who an object is, namespace and name.
type Key = (String, String);

/// Who an object is, and the groups that it speaks of, each with how many members it must have.
fn groups(naming: Naming, json: &str) -> serde_json::Result<(Key, Vec<(GroupObject, u64)>)> {
    let Object { metadata: Meta { namespace, name }, spec } = serde_json::from_str(json)?;
    let least = |policy: Policy| policy.gang.map(|gang| gang.min_count);
    let said = match naming {
        Naming::Label => vec![(name.clone(), spec.min_member)],
        Naming::SchedulingGroup => vec![(name.clone(), least(spec.scheduling_policy))],
        Naming::WorkloadRef => {
            let listed = spec.pod_groups.into_iter();
            listed.map(|group| (format!("{name}/{}", group.name), least(group.policy))).collect()
        }
    };
    let group = |(name, least): (String, Option<u64>)| {
        Some((GroupObject { naming, namespace: namespace.clone(), name }, least?))
    };
    let groups = said.into_iter().filter_map(group).collect();
    Ok(((namespace.clone(), name), groups))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "made for the call")]
    fn read(naming: Naming, spec: Value) -> Vec<(String, u64)> {
        let object =
            json!({"metadata": {"namespace": "ns", "name": "g"}, "spec": spec, "status": {"phase": "Pending"}});
        let (key, groups) = groups(naming, &object.to_string()).unwrap();
        assert_eq!(key, ("ns".to_owned(), "g".to_owned()));
        groups.into_iter().map(|(group, least)| (group.name, least)).collect()
    }

    #[test]
    fn each_kind_says_how_many_members_there_must_be_in_its_own_words() {
        let gang = |least: u64| json!({"gang": {"minCount": least}});
        assert_eq!(read(Naming::Label, json!({"minMember": 3, "minResources": {"cpu": "1"}})), [("g".to_owned(), 3)]);
        assert_eq!(read(Naming::SchedulingGroup, json!({"schedulingPolicy": gang(4)})), [("g".to_owned(), 4)]);
        let listed = json!({"podGroups": [{"name": "a", "policy": gang(2)}, {"name": "b", "policy": {"basic": {}}}]});
        assert_eq!(read(Naming::WorkloadRef, listed), [("g/a".to_owned(), 2)]);
    }

    #[test]
    fn who_wants_no_number_of_members_is_no_gang() {
        assert_eq!(read(Naming::Label, json!({})), []);
        assert_eq!(read(Naming::SchedulingGroup, json!({"schedulingPolicy": {"basic": {}}})), []);
        assert_eq!(read(Naming::WorkloadRef, json!({"controllerRef": {"name": "j"}})), []);
    }
}
