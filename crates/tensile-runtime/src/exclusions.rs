// SPDX-License-Identifier: Apache-2.0
//! Exclusions as the upper cluster has them: ConfigMaps, watched aside, so that no request waits for an API server.
//!
//! While the watch is broken, what was last heard counts: each exclusion ends by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tensile_core::exclusion::{Exclusions, Skipped};
use tensile_core::names;
use tokio_util::sync::CancellationToken;

use crate::watch::{self, Listing};

/// Follows the ConfigMaps of `namespace` until `stop`, and keeps in `shared` what they say.
pub async fn follow(client: Client, namespace: &str, shared: Arc<ArcSwap<Exclusions>>, stop: CancellationToken) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let config = Config::default().labels(&format!("{}={}", names::EXCLUSIONS, names::TRUE));
    let mut events = pin!(watch::follow(maps, config));
    let mut heard = Heard::default();
    while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
        if let Some(exclusions) = heard.apply(event) {
            shared.store(Arc::new(exclusions));
        }
    }
}

/// What was heard of ConfigMaps.
#[derive(Debug, Default)]
struct Heard {
    /// The entries of each, by its name.
    maps: BTreeMap<String, BTreeMap<String, String>>,
    listing: Listing<String, BTreeMap<String, String>>,
    /// What was told already, so that it is told once.
    told: BTreeSet<String>,
}

impl Heard {
    /// Takes an event in. Returns the exclusions if they may have changed.
    fn apply(&mut self, event: Event<ConfigMap>) -> Option<Exclusions> {
        self.listing.note(&mut self.maps, event, |map| Some(named(map))).then(|| self.exclusions())
    }

    fn exclusions(&mut self) -> Exclusions {
        let entries = self.maps.values().flatten();
        let (exclusions, skipped) = Exclusions::read(entries.map(|(key, text)| (key.as_str(), text.as_str())));
        self.tell(&skipped);
        exclusions
    }

    fn tell(&mut self, skipped: &[Skipped]) {
        let now: BTreeSet<String> = skipped.iter().map(ToString::to_string).collect();
        for reason in now.difference(&self.told) {
            tracing::error!(reason, "an exclusion does not count");
        }
        self.told = now;
    }
}

fn named(map: ConfigMap) -> (String, Option<BTreeMap<String, String>>) {
    (map.metadata.name.unwrap_or_default(), Some(map.data.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use tensile_core::exclusion::Subject;

    use super::*;

    fn map(name: &str, owner: &str, node: &str) -> ConfigMap {
        let record = json!({"nodes": [{"node": node, "until": "2026-01-02T15:04:05Z"}]}).to_string();
        let object = json!({"metadata": {"name": name}, "data": {format!("owner.{owner}"): record}});
        serde_json::from_value(object).unwrap()
    }

    fn nodes(exclusions: &Exclusions, owner: &str) -> Vec<String> {
        exclusions.of(&[Subject::Owner(owner)], Timestamp::UNIX_EPOCH).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_list_counts_when_it_is_complete_and_replaces_what_was_heard_before() {
        let mut heard = Heard::default();
        heard.apply(Event::Apply(map("old", "u-1", "north")));
        for event in [Event::Init, Event::InitApply(map("a", "u-1", "east")), Event::InitApply(map("b", "u-1", "west"))]
        {
            assert_eq!(heard.apply(event), None);
        }
        let exclusions = heard.apply(Event::InitDone).unwrap();
        assert_eq!(nodes(&exclusions, "u-1"), ["east", "west"]);
    }

    #[test]
    fn a_config_map_that_changes_or_goes_takes_its_old_entries_with_it() {
        let mut heard = Heard::default();
        heard.apply(Event::Apply(map("a", "u-1", "east")));
        let exclusions = heard.apply(Event::Apply(map("a", "u-2", "west"))).unwrap();
        assert_eq!((nodes(&exclusions, "u-1"), nodes(&exclusions, "u-2")), (vec![], vec!["west".to_owned()]));
        let exclusions = heard.apply(Event::Delete(map("a", "u-2", "west"))).unwrap();
        assert!(exclusions.is_empty());
    }

    #[test]
    fn what_is_damaged_is_told_once_and_again_when_it_comes_back() {
        let mut heard = Heard::default();
        let damaged: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"owner.u": "{"}})).unwrap();
        heard.apply(Event::Apply(damaged.clone()));
        assert_eq!(heard.told.len(), 1);
        heard.apply(Event::Delete(damaged));
        assert!(heard.told.is_empty());
    }
}
