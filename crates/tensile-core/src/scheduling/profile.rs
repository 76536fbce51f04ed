// SPDX-License-Identifier: Apache-2.0
//! Which plugins are on, their arguments and weights: a profile of a `KubeSchedulerConfiguration`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::label_selector::or_default;
use super::plugins::{self, Plugin};

/// The plugins a cluster is judged with.
pub struct Profile {
    pub(super) plugins: Vec<Enabled>,
}

/// A plugin that is on.
pub(super) struct Enabled {
    pub(super) plugin: Box<dyn Plugin>,
    pub(super) filters: bool,
    /// Weight of its score; 0 if it does not score.
    pub(super) weight: i64,
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.plugins.iter().map(|enabled| (enabled.plugin.name(), enabled.weight))).finish()
    }
}

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It has another shape than the API's.
    #[error("the profile cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
    /// There is no such plugin here.
    #[error("plugin {0} is not known")]
    UnknownPlugin(String),
    /// The plugin's arguments cannot be used.
    #[error("arguments of plugin {plugin}: {reason}")]
    Args {
        /// The plugin.
        plugin: &'static str,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    #[serde(deserialize_with = "or_default")]
    plugins: BTreeMap<String, Set>,
    #[serde(deserialize_with = "or_default")]
    plugin_config: Vec<Config>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Set {
    #[serde(deserialize_with = "or_default")]
    enabled: Vec<Named>,
    #[serde(deserialize_with = "or_default")]
    disabled: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    weight: Option<i64>,
}

#[derive(Deserialize)]
struct Config {
    name: String,
    #[serde(default)]
    args: Value,
}

/// Plugins of the default configuration that have no part in what is asked here: they order queues, bind, preempt, or
/// score by images.
const ELSEWHERE: [&str; 6] =
    ["PrioritySort", "DefaultBinder", "DefaultPreemption", "ImageLocality", "SchedulingGates", "DynamicResources"];

/// Extension points whose sets say whether a plugin filters here.
const FILTERING: [&str; 3] = ["multiPoint", "preFilter", "filter"];
/// Extension points whose sets say whether a plugin scores here.
const SCORING: [&str; 2] = ["multiPoint", "score"];

impl Profile {
    /// A profile as it is in a `KubeSchedulerConfiguration`, on top of the default one: `plugins` and `pluginConfig`.
    ///
    /// # Errors
    /// When a plugin is not known or its arguments cannot be used.
    pub fn read(profile: &Value) -> Result<Self, ProfileError> {
        let written: Written = Option::<Written>::deserialize(profile)?.unwrap_or_default();
        let known = |name: &str| name == "*" || plugins::ALL.iter().any(|entry| entry.name == name);
        let elsewhere = |name: &str| ELSEWHERE.contains(&name);
        let configured = written.plugin_config.iter().map(|config| &config.name);
        let sets = written.plugins.values().flat_map(|set| set.enabled.iter().chain(&set.disabled));
        if let Some(name) =
            sets.map(|named| &named.name).chain(configured).find(|name| !known(name) && !elsewhere(name))
        {
            return Err(ProfileError::UnknownPlugin(name.clone()));
        }
        let is_on = |points: &[&str], name: &str| {
            let mut on = Some(None);
            for set in points.iter().filter_map(|point| written.plugins.get(*point)) {
                if set.disabled.iter().any(|named| named.name == name || named.name == "*") {
                    on = None;
                }
                if let Some(named) = set.enabled.iter().find(|named| named.name == name) {
                    on = Some(named.weight.filter(|weight| *weight > 0));
                }
            }
            on
        };
        let mut plugins = Vec::new();
        for entry in plugins::ALL {
            let config = written.plugin_config.iter().find(|config| config.name == entry.name);
            let args = config.map_or(&Value::Null, |config| &config.args);
            let plugin = (entry.make)(args).map_err(|reason| ProfileError::Args { plugin: entry.name, reason })?;
            let filters = is_on(&FILTERING, entry.name).is_some();
            let weight = is_on(&SCORING, entry.name).map_or(0, |weight| weight.unwrap_or(entry.weight));
            if filters || weight > 0 {
                plugins.push(Enabled { plugin, filters, weight });
            }
        }
        Ok(Self { plugins })
    }
}

impl Default for Profile {
    /// What an unconfigured kube-scheduler does.
    fn default() -> Self {
        let plugins = plugins::ALL.iter().filter_map(|entry| {
            let plugin = (entry.make)(&Value::Null).ok()?;
            Some(Enabled { plugin, filters: true, weight: entry.weight })
        });
        Self { plugins: plugins.collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(profile: &Profile) -> Vec<(&str, bool, i64)> {
        profile.plugins.iter().map(|on| (on.plugin.name(), on.filters, on.weight)).collect()
    }

    #[test]
    fn nothing_said_is_the_default_profile() {
        let read = Profile::read(&json!({"schedulerName": "x"})).unwrap();
        assert_eq!(names(&read), names(&Profile::default()));
        assert!(names(&read).contains(&("TaintToleration", true, 3)));
        assert_eq!(names(&Profile::read(&Value::Null).unwrap()), names(&read));
    }

    #[test]
    fn plugins_are_switched_and_weighed() {
        let profile = Profile::read(&json!({"plugins": {
            "multiPoint": {"disabled": [{"name": "InterPodAffinity"}]},
            "filter": {"disabled": [{"name": "NodePorts"}]},
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "TaintToleration", "weight": 7}]},
        }}))
        .unwrap();
        let names = names(&profile);
        assert!(!names.iter().any(|(name, ..)| ["InterPodAffinity", "NodePorts"].contains(name)), "{names:?}");
        assert!(names.contains(&("TaintToleration", true, 7)));
        assert!(names.contains(&("NodeAffinity", true, 0)));
    }

    #[test]
    fn a_plugin_that_is_not_known_is_refused_by_name() {
        for profile in [
            json!({"plugins": {"filter": {"enabled": [{"name": "Coscheduling"}]}}}),
            json!({"pluginConfig": [{"name": "Coscheduling", "args": {}}]}),
        ] {
            let error = Profile::read(&profile).unwrap_err();
            assert_eq!(error.to_string(), "plugin Coscheduling is not known");
        }
        assert!(Profile::read(&json!({"plugins": {"bind": {"enabled": [{"name": "DefaultBinder"}]}}})).is_ok());
        let error =
            Profile::read(&json!({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": 1}}]}));
        assert!(error.unwrap_err().to_string().contains("NodeResourcesFit"));
    }
}
