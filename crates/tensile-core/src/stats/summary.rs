// SPDX-License-Identifier: Apache-2.0
//! `/stats/summary` of kubelets, reduced to our pods.
//!
//! What is said of a pod passes through as it came, members that this build does not know included; only the reference
//! to the pod is written anew.

use std::{borrow::Cow, collections::BTreeMap};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::{NodeUsage, PodReading, Reading, Roster, usage::node_summary};

pub use super::usage::summary as of_usage;

/// What was picked from one kubelet.
#[derive(Debug, Default)]
pub struct Picked {
    /// Each pod, as JSON.
    pods: Vec<Box<RawValue>>,
    /// CPU time of each.
    pub readings: Vec<PodReading>,
    /// How fast they use CPU.
    pub nano_cores: u64,
    /// Memory they hold, in bytes.
    pub memory: u64,
}

#[derive(Deserialize)]
struct Summary<'a> {
    #[serde(borrow, default)]
    pods: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow, rename = "podRef")]
    reference: PodRef<'a>,
    #[serde(borrow)]
    cpu: Option<Cpu<'a>>,
    memory: Option<Memory>,
}

#[derive(Deserialize, Serialize)]
struct PodRef<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cpu<'a> {
    #[serde(borrow)]
    time: Cow<'a, str>,
    usage_nano_cores: Option<u64>,
    usage_core_nano_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    working_set_bytes: Option<u64>,
}

/// Picks our pods from what the kubelet of `lower_node` says. A pod that cannot be read is passed over.
///
/// # Errors
/// When it is no summary.
pub fn pick(json: &[u8], lower_node: &str, roster: &Roster) -> Result<Picked, serde_json::Error> {
    let summary: Summary<'_> = serde_json::from_slice(json)?;
    let mut picked = Picked::default();
    for raw in summary.pods {
        // What cannot be read is passed over.
        let _: Option<()> = picked.pick(raw, lower_node, roster);
    }
    Ok(picked)
}

impl Picked {
    fn pick(&mut self, raw: &RawValue, lower_node: &str, roster: &Roster) -> Option<()> {
        let Pod { reference, cpu, memory } = serde_json::from_str(raw.get()).ok()?;
        let member = roster.find(&reference.namespace, &reference.name)?;
        if *member.lower_uid != *reference.uid || *member.lower_node != *lower_node {
            return None;
        }
        let mut members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(raw.get()).ok()?;
        let named = PodRef {
            name: Cow::Borrowed(&member.name),
            namespace: Cow::Borrowed(&member.namespace),
            uid: Cow::Borrowed(&member.uid),
        };
        let named = to_raw_value(&named).ok()?;
        members.insert("podRef".into(), &named);
        self.pods.push(to_raw_value(&members).ok()?);

        if let Some(cpu) = cpu {
            self.nano_cores += cpu.usage_nano_cores.unwrap_or_default();
            if let (Ok(time), Some(nanos)) = (cpu.time.parse::<Timestamp>(), cpu.usage_core_nano_seconds) {
                let reading = Reading { at: time.as_millisecond(), nanos };
                self.readings.push(PodReading { uid: member.uid.clone(), since: member.since, reading });
            }
        }
        self.memory += memory.and_then(|memory| memory.working_set_bytes).unwrap_or_default();
        Some(())
    }

    /// Adds what another kubelet said.
    pub fn merge(&mut self, other: Self) {
        self.pods.extend(other.pods);
        self.readings.extend(other.readings);
        self.nano_cores = self.nano_cores.saturating_add(other.nano_cores);
        self.memory = self.memory.saturating_add(other.memory);
    }
}

/// The summary of `node` with the pods that were picked.
///
/// # Errors
/// None that is known; writing JSON says that it may.
pub fn of_kubelets(node: &NodeUsage<'_>, picked: &Picked) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Summary<'a> {
        node: serde_json::Value,
        pods: &'a [Box<RawValue>],
    }
    serde_json::to_vec(&Summary { node: node_summary(node), pods: &picked.pods })
}
