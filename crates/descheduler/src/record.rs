// SPDX-License-Identifier: Apache-2.0
//! Exclusions on their way into the cluster: entries of a few ConfigMaps, many in one write.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Map as Members, Value, json};
use tensile_core::deschedule::{BackOff, Exclude};
use tensile_core::names::{self, fnv1a};

use crate::seen::Map;

/// Over how many ConfigMaps exclusions are spread: one holds 1 MiB, some thousand owners.
const MAPS: u64 = 16;

/// One write: everything that is to be changed in one ConfigMap.
#[derive(Debug, PartialEq)]
pub struct Write {
    /// The ConfigMap's name.
    pub name: String,
    /// The version it is known in; `None`: there is none.
    pub version: Option<u64>,
    /// The new text of entries, `null` for those that go.
    data: Members<String, Value>,
}

/// Entry of a ConfigMap that holds the journal of a move.
pub const JOURNAL: &str = "journal";
/// Before the UID in the name of such a ConfigMap.
const MOVE_OF: &str = "tensile-move-";

/// The ConfigMap with the journal of the move of the pod with this UID.
pub fn journal_of(uid: &str) -> String {
    format!("{MOVE_OF}{uid}")
}

/// The UID in the name of a ConfigMap with a journal.
pub fn uid_of(name: &str) -> &str {
    name.strip_prefix(MOVE_OF).unwrap_or(name)
}

/// The ConfigMap that holds the entry `key`.
pub fn map_of(key: &str) -> String {
    format!("tensile-exclusions-{}", fnv1a(key.as_bytes()) % MAPS)
}

/// The writes for `excludes`, one for each ConfigMap. Entries that count no more go with them.
pub fn writes<'a>(
    excludes: &[Exclude],
    known: impl Fn(&str) -> Option<&'a Map>,
    back_off: &BackOff,
    now: jiff::Timestamp,
) -> Vec<Write> {
    let mut writes: BTreeMap<String, Members<String, Value>> = BTreeMap::new();
    for Exclude { key, record, .. } in excludes {
        writes.entry(map_of(key)).or_default().insert(key.clone(), record.encode().into());
    }
    let whole = writes.into_iter().map(|(name, mut data)| {
        let map = known(&name);
        for (key, record) in map.into_iter().flat_map(|map| &map.records) {
            if !data.contains_key(key) && record.nodes.iter().all(|exclusion| back_off.forgotten(exclusion, now)) {
                data.insert(key.clone(), Value::Null);
            }
        }
        Write { version: map.map(|map| map.version), name, data }
    });
    whole.collect()
}

/// Where exclusions are.
#[derive(Clone)]
pub struct Maps {
    /// The ConfigMaps.
    pub maps: Api<ConfigMap>,
    /// The Lease of the election, if there is one: what is made here goes with it, and it goes with the release of the chart.
    pub owner: Option<(Api<Lease>, String)>,
}

impl Maps {
    /// Performs a write. Returns the version it made; refused (409) when somebody else wrote since.
    ///
    /// # Errors
    ///
    /// As the API server says.
    pub async fn write(&self, write: Write) -> Result<u64, kube::Error> {
        let mut object = json!({
            "metadata": { "name": write.name, "labels": { names::EXCLUSIONS: names::TRUE } },
            "data": write.data,
        });
        let written = if let Some(version) = write.version {
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            self.maps.patch(&write.name, &PatchParams::default(), &Patch::Merge(object)).await?
        } else {
            let mut map: ConfigMap = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
            if let Some((leases, name)) = &self.owner {
                map.metadata.owner_references = leases.get(name).await?.owner_ref(&()).map(|owner| vec![owner]);
            }
            self.maps.create(&PostParams::default(), &map).await?
        };
        Ok(written.metadata.resource_version.and_then(|version| version.parse().ok()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tensile_core::exclusion::{Exclusion, Record};

    use super::*;

    fn record(until: i64) -> Record {
        let until = Timestamp::from_second(until).unwrap();
        let exclusion = Exclusion { node: "a".to_owned(), until, attempts: 1, other: Members::new() };
        Record { nodes: vec![exclusion], ..Record::default() }
    }

    #[test]
    fn many_exclusions_are_few_writes() {
        let excludes: Vec<Exclude> =
            (0..1000).map(|n| Exclude { key: format!("owner.{n}"), record: record(10), pod: "p".into() }).collect();
        let writes = writes(&excludes, |_| None, &BackOff::default(), Timestamp::UNIX_EPOCH);
        assert!(writes.len() <= 16);
        assert_eq!(writes.iter().map(|write| write.data.len()).sum::<usize>(), 1000);
        assert!(writes.iter().all(|write| write.version.is_none()));
    }

    #[test]
    fn what_counts_no_more_goes_with_the_next_write_and_the_rest_stays() {
        let key = "owner.u";
        let records = [("owner.old", record(0)), ("owner.recent", record(9_000)), (key, record(0))];
        let records = records.map(|(key, record)| (key.to_owned(), record)).into();
        let known = Map { version: 5, records, ..Map::default() };
        let excludes = [Exclude { key: key.to_owned(), record: record(20_000), pod: "p".into() }];
        let now = Timestamp::from_second(10_000).unwrap();
        let writes = writes(&excludes, |name| (name == map_of(key)).then_some(&known), &BackOff::default(), now);
        let [write] = &writes[..] else { panic!("{writes:?}") };
        assert_eq!(write.version, Some(5));
        assert_eq!(write.data["owner.old"], Value::Null);
        assert!(write.data[key].is_string() && !write.data.contains_key("owner.recent"));
    }
}
