// SPDX-License-Identifier: Apache-2.0
//! The arguments of the plugins, named as in the field's descheduler where they mean the same.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tensile_core::deschedule::{Levels, Namespaces, Plugin, Protections, SYSTEM_CRITICAL, Taints};

/// How long a pod may be without room before it is moved, unless the policy says otherwise.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The same for one that its cluster does not take: a quota may be raised soon.
const REFUSED_PATIENCE: Duration = Duration::from_secs(60);
/// The same for one whose node is not ready.
const NOT_READY_PATIENCE: Duration = Duration::from_secs(300);

/// The plugins that can be enabled.
pub(super) const NAMES: [&str; 9] = [
    "RemovePodsUnschedulableBelow",
    "RemovePodsRefusedBelow",
    "RemovePodsOnNotReadyNodes",
    "PodLifeTime",
    "RemovePodsHavingTooManyRestarts",
    "RemoveFailedPods",
    "RemovePodsViolatingNodeTaints",
    "LowNodeUtilization",
    "HighNodeUtilization",
];

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct NamespacesArgs {
    include: Vec<String>,
    exclude: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct UnschedulableArgs {
    min_unschedulable_seconds: Option<u64>,
    namespaces: NamespacesArgs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RefusedArgs {
    min_refused_seconds: Option<u64>,
    namespaces: NamespacesArgs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct NotReadyArgs {
    min_not_ready_seconds: Option<u64>,
    namespaces: NamespacesArgs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct LifeTimeArgs {
    max_pod_life_time_seconds: Option<u64>,
    states: Vec<String>,
    namespaces: NamespacesArgs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RestartsArgs {
    pod_restart_threshold: Option<u64>,
    including_init_containers: bool,
    states: Vec<String>,
    namespaces: NamespacesArgs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct FailedArgs {
    min_pod_lifetime_seconds: Option<u64>,
    reasons: Vec<String>,
    exclude_owner_kinds: Vec<String>,
    namespaces: NamespacesArgs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct TaintsArgs {
    included_taints: Vec<String>,
    excluded_taints: Vec<String>,
    include_prefer_no_schedule: bool,
    surge: bool,
    namespaces: NamespacesArgs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct LowArgs {
    thresholds: BTreeMap<String, u32>,
    target_thresholds: BTreeMap<String, u32>,
    use_deviation_thresholds: bool,
    number_of_nodes: usize,
    evictable_namespaces: NamespacesArgs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct HighArgs {
    thresholds: BTreeMap<String, u32>,
    number_of_nodes: usize,
    evictable_namespaces: NamespacesArgs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct EvictorArgs {
    evict_local_storage_pods: Option<bool>,
    evict_system_critical_pods: Option<bool>,
    ignore_pvc_pods: Option<bool>,
    min_pod_age: Option<String>,
    priority_threshold: Option<Threshold>,
    pod_protections: Option<PodProtections>,
    recreate_bare_pods: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Threshold {
    value: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PodProtections {
    default_disabled: Vec<String>,
    extra_enabled: Vec<String>,
}

type Configured = Result<(Plugin, Namespaces), String>;

/// The plugin of this name with these arguments; `None` if it is not known.
pub(super) fn plugin(name: &str, args: &Value) -> Option<Configured> {
    let seconds = |given: Option<u64>, usual| given.map_or(usual, Duration::from_secs);
    let known: Configured = match name {
        "RemovePodsUnschedulableBelow" => read::<UnschedulableArgs>(args).and_then(|args| {
            let after = seconds(args.min_unschedulable_seconds, PATIENCE);
            with(Plugin::UnschedulableBelow { after }, args.namespaces)
        }),
        "RemovePodsRefusedBelow" => read::<RefusedArgs>(args).and_then(|args| {
            let after = seconds(args.min_refused_seconds, REFUSED_PATIENCE);
            with(Plugin::RefusedBelow { after }, args.namespaces)
        }),
        "RemovePodsOnNotReadyNodes" => read::<NotReadyArgs>(args).and_then(|args| {
            let after = seconds(args.min_not_ready_seconds, NOT_READY_PATIENCE);
            with(Plugin::NodeNotReady { after }, args.namespaces)
        }),
        "PodLifeTime" => read::<LifeTimeArgs>(args).and_then(|args| {
            let max = args.max_pod_life_time_seconds.ok_or("maxPodLifeTimeSeconds is missing")?;
            with(Plugin::LifeTime { max: Duration::from_secs(max), states: args.states }, args.namespaces)
        }),
        "RemovePodsHavingTooManyRestarts" => read::<RestartsArgs>(args).and_then(|args| {
            let threshold = args.pod_restart_threshold.filter(|count| *count > 0);
            let threshold = threshold.ok_or("podRestartThreshold is missing or 0")?;
            let init = args.including_init_containers;
            with(Plugin::TooManyRestarts { threshold, init, states: args.states }, args.namespaces)
        }),
        "RemoveFailedPods" => read::<FailedArgs>(args).and_then(|args| {
            let min_life = seconds(args.min_pod_lifetime_seconds, Duration::ZERO);
            let (reasons, not_owned_by) = (args.reasons, args.exclude_owner_kinds);
            with(Plugin::Failed { min_life, reasons, not_owned_by }, args.namespaces)
        }),
        "RemovePodsViolatingNodeTaints" => read::<TaintsArgs>(args).and_then(|args| {
            let (included, excluded) = (args.included_taints, args.excluded_taints);
            if !included.is_empty() && !excluded.is_empty() {
                return Err("includedTaints and excludedTaints contradict each other, give one".to_owned());
            }
            let taints = Taints { included, excluded, prefer: args.include_prefer_no_schedule };
            with(Plugin::NodeTaints { taints, surge: args.surge }, args.namespaces)
        }),
        "LowNodeUtilization" => read::<LowArgs>(args).and_then(|args| {
            let low = levels("thresholds", &args.thresholds)?;
            let high = levels("targetThresholds", &args.target_thresholds)?;
            if !low.keys().eq(high.keys()) {
                return Err("thresholds and targetThresholds are not about the same resources".to_owned());
            }
            let deviation = args.use_deviation_thresholds;
            if let Some((name, _)) = low.iter().find(|(name, level)| !deviation && high.get(name) < Some(level)) {
                return Err(format!("thresholds of {} is above its targetThresholds", name.as_str()));
            }
            let nodes = args.number_of_nodes;
            with(Plugin::LowNodeUtilization { low, high, deviation, nodes }, args.evictable_namespaces)
        }),
        "HighNodeUtilization" => read::<HighArgs>(args).and_then(|args| {
            let low = levels("thresholds", &args.thresholds)?;
            with(Plugin::HighNodeUtilization { low, nodes: args.number_of_nodes }, args.evictable_namespaces)
        }),
        _ => return None,
    };
    Some(known)
}

fn levels(member: &str, given: &BTreeMap<String, u32>) -> Result<Levels, String> {
    if given.is_empty() {
        return Err(format!("{member} is missing or empty"));
    }
    if let Some((name, percent)) = given.iter().find(|(_, percent)| **percent > 100) {
        return Err(format!("{member}: {percent} percent of {name} is more than all"));
    }
    Ok(given.iter().map(|(name, percent)| (name.as_str().into(), *percent)).collect())
}

fn with(plugin: Plugin, namespaces: NamespacesArgs) -> Configured {
    let NamespacesArgs { include, exclude } = namespaces;
    if !include.is_empty() && !exclude.is_empty() {
        return Err("namespaces: include and exclude contradict each other, give one".to_owned());
    }
    Ok((plugin, Namespaces { include, exclude }))
}

/// What the evictor's arguments protect, and what they give free.
pub(super) fn evictor(args: &Value, protections: &mut Protections) -> Result<(), String> {
    let args: EvictorArgs = read(args)?;
    if let Some(also) = args.evict_local_storage_pods {
        protections.local_storage = !also;
    }
    protections.recreate = args.recreate_bare_pods;
    if args.evict_system_critical_pods == Some(true) {
        protections.priority = i32::MAX;
    }
    if let Some(not) = args.ignore_pvc_pods {
        protections.claims = not;
    }
    if let Some(age) = args.min_pod_age {
        protections.min_age = tensile_runtime::args::value::duration(&age).map_err(|e| format!("minPodAge: {e}"))?;
    }
    if let Some(threshold) = args.priority_threshold {
        if args.evict_system_critical_pods == Some(true) {
            return Err("priorityThreshold and evictSystemCriticalPods contradict each other".to_owned());
        }
        if threshold.value > SYSTEM_CRITICAL {
            return Err("priorityThreshold is above that of system-critical pods".to_owned());
        }
        protections.priority = threshold.value;
    }
    let pods = args.pod_protections.unwrap_or_default();
    for (names, on) in [(pods.default_disabled, false), (pods.extra_enabled, true)] {
        for name in names {
            match name.as_str() {
                "PodsWithLocalStorage" => protections.local_storage = on,
                "PodsWithPVC" => protections.claims = on,
                "SystemCriticalPods" => protections.priority = if on { SYSTEM_CRITICAL } else { i32::MAX },
                _ => return Err(format!("podProtections: {name:?} is not known, or cannot be changed")),
            }
        }
    }
    Ok(())
}

fn read<T: DeserializeOwned + Default>(args: &Value) -> Result<T, String> {
    if args.is_null() {
        return Ok(T::default());
    }
    T::deserialize(args).map_err(|error| error.to_string())
}
