// SPDX-License-Identifier: Apache-2.0
//! Exclusions: virtual nodes that the pods of an owner shall not go to for a while, because they found no room there.
//!
//! Whoever moves pods writes an exclusion first, then evicts: killed in between, it leaves a pod where it was and a node
//! that is avoided for a time. There is no CRD: exclusions are entries of ConfigMaps labelled
//! [`names::EXCLUSIONS`](crate::names::EXCLUSIONS), one entry for each [`Subject`], its value a [`Record`]:
//!
//! ```json
//! {"version":1,"nodes":[{"node":"east","until":"2026-01-02T15:04:05Z","attempts":2}]}
//! ```
//!
//! Who reads them passes over what is damaged or from a later version, by name, and never refuses the rest. An exclusion
//! counts until its own time, by the clock of the reader; it is enforced when a pod is created ([`exclude`]), and stays
//! with that pod.

mod affinity;
mod record;
mod subject;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

pub use self::affinity::{exclude, lift, lift_pod};
pub use self::record::{Exclusion, Record, RecordError};
pub use self::subject::Subject;

/// The exclusions of all subjects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exclusions {
    records: BTreeMap<String, Record>,
}

/// An entry, or a part of one, that does not count.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("entry {key} of the exclusions: {reason}")]
pub struct Skipped {
    /// The entry's key.
    pub key: String,
    /// What is wrong with it.
    pub reason: RecordError,
}

impl Exclusions {
    /// Reads the entries of ConfigMaps. Entries of the same key count together, whichever ConfigMap they are in.
    pub fn read<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> (Self, Vec<Skipped>) {
        let (mut exclusions, mut skipped) = (Self::default(), Vec::new());
        for (key, text) in entries {
            let mut skip = |reason| skipped.push(Skipped { key: key.to_owned(), reason });
            match Record::decode(text) {
                Ok((record, damaged)) => {
                    damaged.into_iter().for_each(&mut skip);
                    exclusions.records.entry(key.to_owned()).or_default().nodes.extend(record.nodes);
                }
                Err(reason) => skip(reason),
            }
        }
        (exclusions, skipped)
    }

    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The virtual nodes that are excluded at `now` for a pod of these subjects.
    pub fn of(&self, subjects: &[Subject<'_>], now: Timestamp) -> BTreeSet<&str> {
        let records = subjects.iter().filter_map(|subject| self.records.get(&subject.key()));
        records.flat_map(|record| record.nodes_at(now)).collect()
    }
}
