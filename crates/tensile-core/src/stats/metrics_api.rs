// SPDX-License-Identifier: Apache-2.0
//! What the metrics API (`metrics.k8s.io/v1beta1`) says of pods.

use std::{borrow::Cow, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Rate;
use crate::resources::Quantity;

/// What it says of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodMetrics {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Each container: its name, how fast it uses CPU, and the bytes of memory it holds.
    pub containers: Vec<(String, Rate, u64)>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
    #[serde(borrow)]
    window: Cow<'a, str>,
    #[serde(borrow)]
    containers: Vec<Container<'a>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Container<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    usage: Usage,
}

#[derive(Deserialize)]
struct Usage {
    cpu: Quantity,
    memory: Quantity,
}

/// Reads a `PodMetricsList`. A pod that cannot be read is passed over.
///
/// # Errors
/// When it is no such list.
pub fn pod_metrics(json: &[u8]) -> Result<Vec<PodMetrics>, serde_json::Error> {
    let list: List<'_> = serde_json::from_slice(json)?;
    Ok(list.items.into_iter().filter_map(|raw| read(raw.get())).collect())
}

fn read(raw: &str) -> Option<PodMetrics> {
    let Item { metadata, timestamp, window, containers } = serde_json::from_str(raw).ok()?;
    let at = timestamp.parse::<Timestamp>().ok()?.as_millisecond();
    let window = Duration::try_from(window.parse::<SignedDuration>().ok()?).ok()?;
    let window = i64::try_from(window.as_millis()).ok()?;
    let container = |Container { name, usage }: Container<'_>| {
        let nano_cores = u64::try_from(usage.cpu.nano()).unwrap_or_default();
        let memory = u64::try_from(usage.memory.units()).unwrap_or_default();
        (name.into_owned(), Rate { nano_cores, at, window }, memory)
    };
    Some(PodMetrics {
        namespace: metadata.namespace.into_owned(),
        name: metadata.name.into_owned(),
        containers: containers.into_iter().map(container).collect(),
    })
}
