// SPDX-License-Identifier: Apache-2.0
//! The plugins, each under its upstream name. To add one: a module, and its line in the list.

#![allow(clippy::unnecessary_wraps, reason = "all plugins are made alike, also those that take no arguments")]

mod inter_pod_affinity;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod node_unschedulable;
mod node_volume_limits;
mod pod_topology_spread;
mod resource_quota;
mod taint_toleration;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

use serde_json::Value;

pub(super) use self::node_resources_balanced_allocation::Balance;
pub(super) use self::resource_quota::room as quota_room;
pub(super) use super::framework::Plugin;

/// A plugin that can be switched on.
pub(super) struct Entry {
    /// Its name upstream.
    pub(super) name: &'static str,
    /// The weight of its score in the default profile; 0 if it does not score.
    pub(super) weight: i64,
    /// Makes it from the `args` of its `pluginConfig`, `null` for none.
    pub(super) make: fn(&Value) -> Result<Box<dyn Plugin>, String>,
}

const fn entry(name: &'static str, weight: i64, make: fn(&Value) -> Result<Box<dyn Plugin>, String>) -> Entry {
    Entry { name, weight, make }
}

/// All there are, in the order they are asked. `ResourceQuota` is upstream's admission plugin of that name.
pub(super) const ALL: &[Entry] = &[
    entry(resource_quota::NAME, 0, resource_quota::make),
    entry(node_unschedulable::NAME, 0, node_unschedulable::make),
    entry(node_name::NAME, 0, node_name::make),
    entry(taint_toleration::NAME, 3, taint_toleration::make),
    entry(node_affinity::NAME, 2, node_affinity::make),
    entry(node_ports::NAME, 0, node_ports::make),
    entry(node_resources_fit::NAME, 1, node_resources_fit::make),
    entry(node_resources_balanced_allocation::NAME, 1, node_resources_balanced_allocation::make),
    entry(volume_restrictions::NAME, 0, volume_restrictions::make),
    entry(node_volume_limits::NAME, 0, node_volume_limits::make),
    entry(volume_binding::NAME, 0, volume_binding::make),
    entry(volume_zone::NAME, 0, volume_zone::make),
    entry(pod_topology_spread::NAME, 0, pod_topology_spread::make),
    entry(inter_pod_affinity::NAME, 0, inter_pod_affinity::make),
];
