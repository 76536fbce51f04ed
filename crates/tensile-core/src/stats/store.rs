// SPDX-License-Identifier: Apache-2.0
//! What a metric store that speaks Prometheus' HTTP API answers to instant queries about containers.

use std::{borrow::Cow, sync::Arc};

use foldhash::HashMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Member, Millis, Roster};

/// Why an answer is none.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It is not the JSON of the API.
    #[error("it is not an answer of Prometheus' API: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// The store refuses the query.
    #[error("{0}")]
    Refused(String),
}

/// By UID of the pod above and name of the container: a value, and when it was scraped.
pub type ContainerValues = HashMap<(Arc<str>, Box<str>), (f64, Millis)>;

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    error: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: Option<Data<'a>>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    result: Vec<Series<'a>>,
}

#[derive(Deserialize)]
struct Series<'a> {
    #[serde(borrow)]
    metric: &'a RawValue,
    #[serde(borrow)]
    value: (f64, Cow<'a, str>),
}

#[derive(Deserialize)]
struct Labels<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    pod: Cow<'a, str>,
    #[serde(borrow)]
    container: Cow<'a, str>,
    #[serde(borrow)]
    node: Option<Cow<'a, str>>,
    /// The path of the container's cgroup.
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
}

/// The values of one instant vector, at the times that another (`timestamp()` of the same series) says.
///
/// Other pods are left out, also an earlier one of the name where the series says which it is of. A store shows a series
/// for minutes after its end, so of several for one container the one that was scraped last counts.
///
/// # Errors
/// When one of them is no such vector.
pub fn container_values(values: &[u8], times: &[u8], roster: &Roster) -> Result<ContainerValues, StoreError> {
    let times = vector(times)?;
    let times: HashMap<&str, f64> =
        times.iter().filter_map(|series| Some((series.metric.get(), number(series)?))).collect();
    let mut found = ContainerValues::default();
    for series in vector(values)? {
        let Some((member, container)) = container_of(&series, roster) else { continue };
        let Some(at) = times.get(series.metric.get()).and_then(|seconds| millis(*seconds)) else { continue };
        let Some(value) = number(&series) else { continue };
        let known = found.entry((member.uid.clone(), container)).or_insert((value, at));
        if (at, value) > (known.1, known.0) {
            *known = (value, at);
        }
    }
    Ok(found)
}

fn vector(json: &[u8]) -> Result<Vec<Series<'_>>, StoreError> {
    let Answer { status, error, data } = serde_json::from_slice(json)?;
    match data {
        Some(data) if status == "success" => Ok(data.result),
        _ => Err(StoreError::Refused(error.map_or_else(|| status.into_owned(), Cow::into_owned))),
    }
}

fn container_of<'r>(series: &Series<'_>, roster: &'r Roster) -> Option<(&'r Member, Box<str>)> {
    let Labels { namespace, pod, container, node, id } = serde_json::from_str(series.metric.get()).ok()?;
    let member = roster.find(&namespace, &pod)?;
    let here = node.is_none_or(|node| *node == *member.lower_node);
    // The systemd driver writes underscores.
    let this = id.is_none_or(|id| id.contains(&*member.lower_uid) || id.contains(&member.lower_uid.replace('-', "_")));
    (here && this && !container.is_empty()).then(|| (member, container.into()))
}

fn number(series: &Series<'_>) -> Option<f64> {
    series.value.1.parse().ok().filter(|value: &f64| value.is_finite())
}

#[allow(clippy::cast_possible_truncation, reason = "checked")]
fn millis(seconds: f64) -> Option<Millis> {
    let millis = seconds * 1e3;
    (0.0..9e15).contains(&millis).then_some(millis.round() as Millis)
}
