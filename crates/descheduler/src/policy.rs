// SPDX-License-Identifier: Apache-2.0
//! The policy file, in the format of the field's descheduler (`descheduler/v1alpha2`): profiles of plugins.
//!
//! What this build does not know is refused by its name and line: a policy that is half understood would move the wrong
//! pods. Limits there are per round; here, where nothing comes in rounds, they are per `--descheduling-interval`.

mod plugins;

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;
use tensile_core::deschedule::{BackOff, Breaker, Limits, Namespaces, Plugin, Policy, Protections, Strategy};

const API_VERSION: &str = "descheduler/v1alpha2";
const KIND: &str = "DeschedulerPolicy";
/// The plugin that every profile has, and which says what may be evicted.
const EVICTOR: &str = "DefaultEvictor";
/// Exclusions before the pods of an owner stay.
const MOVES: u32 = 6;

/// What a policy file says.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    /// What is moved.
    pub policy: Policy,
    /// How much of it; the interval is set by a flag.
    pub limits: Limits,
    /// What the operator should know, a sentence each.
    pub warnings: Vec<String>,
}

/// Without a file: pods are moved for which their cluster had no room for 10 s.
impl Default for PolicyFile {
    fn default() -> Self {
        let plugin = Plugin::UnschedulableBelow { after: plugins::PATIENCE };
        let strategy = Strategy { profile: "default".to_owned(), namespaces: Namespaces::default(), plugin };
        Self::new(vec![strategy])
    }
}

impl PolicyFile {
    fn new(strategies: Vec<Strategy>) -> Self {
        let policy = Policy {
            strategies,
            protections: Protections::default(),
            back_off: BackOff::default(),
            moves: MOVES,
            breaker: Breaker::default(),
            nodes: Vec::new(),
        };
        let limits = Limits { per_node: None, per_namespace: None, total: None, interval: Duration::from_secs(60) };
        Self { policy, limits, warnings: Vec::new() }
    }
}

/// Why a policy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("cannot read the policy file {path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// It is not YAML of the right shape.
    #[error("the policy file {path} is not valid: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// What is wrong, with its line.
        reason: String,
    },
    /// Something in it is not known or contradicts itself.
    #[error("{path}:{line}: {reason}")]
    At {
        /// The file.
        path: String,
        /// The line.
        line: u64,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: Spanned<String>,
    kind: Spanned<String>,
    node_selector: Option<Spanned<String>>,
    max_no_of_pods_to_evict_per_node: Option<Spanned<u32>>,
    max_no_of_pods_to_evict_per_namespace: Option<Spanned<u32>>,
    max_no_of_pods_to_evict_total: Option<Spanned<u32>>,
    profiles: Vec<Profile>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Profile {
    name: Spanned<String>,
    #[serde(default)]
    plugin_config: Vec<PluginConfig>,
    #[serde(default)]
    plugins: Plugins,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PluginConfig {
    name: Spanned<String>,
    #[serde(default)]
    args: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Plugins {
    #[serde(default)]
    filter: PluginSet,
    #[serde(default)]
    pre_eviction_filter: PluginSet,
    #[serde(default)]
    deschedule: PluginSet,
    #[serde(default)]
    balance: PluginSet,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PluginSet {
    #[serde(default)]
    enabled: Vec<Spanned<String>>,
    #[serde(default)]
    disabled: Vec<Spanned<String>>,
}

/// Reads a policy file.
pub fn read(path: &Path) -> Result<PolicyFile, PolicyError> {
    let name = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&name, &text),
        Err(error) => Err(PolicyError::Unreadable { path: name, error }),
    }
}

/// Reads the text of a policy file at `path`.
pub fn parse(path: &str, text: &str) -> Result<PolicyFile, PolicyError> {
    let line = |line: u64, reason: String| PolicyError::At { path: path.to_owned(), line, reason };
    let at = |place: &Spanned<String>, reason: String| line(place.defined.line(), reason);
    let options = serde_saphyr::options! { with_snippet: false };
    let file: File = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| PolicyError::Malformed { path: path.to_owned(), reason: error.to_string() })?;
    if file.api_version.value != API_VERSION {
        let reason = format!("apiVersion {:?} is not supported, only {API_VERSION}", file.api_version.value);
        return Err(at(&file.api_version, reason));
    }
    if file.kind.value != KIND {
        return Err(at(&file.kind, format!("kind {:?} is not {KIND}", file.kind.value)));
    }
    let mut read = PolicyFile::new(Vec::new());
    let total = file.max_no_of_pods_to_evict_total.map(|total| total.value);
    for (name, limit) in [
        ("maxNoOfPodsToEvictPerNode", &file.max_no_of_pods_to_evict_per_node),
        ("maxNoOfPodsToEvictPerNamespace", &file.max_no_of_pods_to_evict_per_namespace),
    ] {
        if let (Some(limit), Some(total)) = (limit, total)
            && limit.value > total
        {
            let reason = format!("{name} {} contradicts maxNoOfPodsToEvictTotal {total}, which is less", limit.value);
            return Err(line(limit.defined.line(), reason));
        }
    }
    read.limits.per_node = file.max_no_of_pods_to_evict_per_node.map(|limit| limit.value);
    read.limits.per_namespace = file.max_no_of_pods_to_evict_per_namespace.map(|limit| limit.value);
    read.limits.total = total;
    if let Some(selector) = &file.node_selector {
        for requirement in selector.value.split(',').filter(|text| !text.trim().is_empty()) {
            let pair = requirement.split_once('=').filter(|(key, _)| !key.is_empty() && !key.ends_with('!'));
            let (key, value) = pair.ok_or_else(|| at(selector, format!("{requirement:?} is not KEY=VALUE")))?;
            read.policy.nodes.push((key.trim().to_owned(), value.trim_start_matches('=').trim().to_owned()));
        }
    }
    let mut evictor: Option<&Spanned<String>> = None;
    for profile in &file.profiles {
        for config in &profile.plugin_config {
            let named = |reason| at(&config.name, format!("args of {}: {reason}", config.name.value));
            if config.name.value == EVICTOR {
                if let Some(first) = evictor.replace(&config.name) {
                    let reason = format!("{EVICTOR} is configured in line {} already, for all", first.defined.line());
                    return Err(at(&config.name, reason));
                }
                plugins::evictor(&config.args, &mut read.policy.protections).map_err(named)?;
            } else {
                // Also of those that are not enabled: a mistake there waits for its day.
                plugins::plugin(&config.name.value, &config.args)
                    .ok_or_else(|| at(&config.name, unknown(&config.name.value)))?
                    .map_err(named)?;
            }
        }
        let Plugins { filter, pre_eviction_filter, deschedule, balance } = &profile.plugins;
        for name in filter.enabled.iter().chain(&pre_eviction_filter.enabled) {
            if name.value != EVICTOR {
                return Err(at(name, unknown(&name.value)));
            }
        }
        let disabled =
            [filter, pre_eviction_filter, deschedule, balance].into_iter().find_map(|set| set.disabled.first());
        if let Some(name) = disabled {
            return Err(at(name, format!("{:?}: plugins are off unless they are enabled", name.value)));
        }
        let enabled = deschedule.enabled.iter().map(|name| (name, false));
        for (name, balances) in enabled.chain(balance.enabled.iter().map(|name| (name, true))) {
            let config = profile.plugin_config.iter().find(|config| config.name.value == name.value);
            let args = config.map_or(&Value::Null, |config| &config.args);
            let (plugin, namespaces) = plugins::plugin(&name.value, args)
                .ok_or_else(|| at(name, unknown(&name.value)))?
                .map_err(|reason| at(name, format!("args of {}: {reason}", name.value)))?;
            if plugin.balances() != balances {
                let point = if balances { "deschedule" } else { "balance" };
                return Err(at(name, format!("plugin {:?} is enabled under {point}", name.value)));
            }
            read.policy.strategies.push(Strategy { profile: profile.name.value.clone(), namespaces, plugin });
        }
    }
    if read.policy.strategies.is_empty() {
        read.warnings.push(format!("{path} enables no plugin: nothing is moved"));
    }
    Ok(read)
}

fn unknown(name: &str) -> String {
    format!("plugin {name:?} is not known; those that are: {}", plugins::NAMES.join(", "))
}

#[cfg(test)]
mod tests;
