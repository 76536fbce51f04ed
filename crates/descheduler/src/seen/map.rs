// SPDX-License-Identifier: Apache-2.0
//! A ConfigMap with exclusions, as far as it can be read.

use std::collections::BTreeMap;

use serde_json::Value;
use tensile_core::exclusion::{Record, RecordError};

/// A ConfigMap with exclusions.
#[derive(Debug, Clone, Default)]
pub struct Map {
    /// Orders its versions.
    pub version: u64,
    /// The record of each key, as far as they can be read.
    pub records: BTreeMap<String, Record>,
    /// The keys of those that a later build wrote, and their version.
    pub newer: BTreeMap<String, u64>,
}

impl Map {
    /// Reads a ConfigMap: what of it counts, and sentences about what does not.
    pub(super) fn read(object: &Value) -> (Self, Vec<String>) {
        let (mut map, mut wrong) = (Self::default(), Vec::new());
        map.version = object["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok()).unwrap_or_default();
        for (key, value) in object["data"].as_object().into_iter().flatten() {
            match Record::decode(value.as_str().unwrap_or_default()) {
                Ok((record, damaged)) => {
                    wrong.extend(damaged.iter().map(|error| format!("entry {key} of the exclusions: {error}")));
                    map.records.insert(key.clone(), record);
                }
                Err(error) => {
                    wrong.push(format!("entry {key} of the exclusions: {error}"));
                    if let RecordError::Newer { version } = error {
                        map.newer.insert(key.clone(), version);
                    }
                }
            }
        }
        (map, wrong)
    }
}
