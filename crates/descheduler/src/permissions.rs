// SPDX-License-Identifier: Apache-2.0
//! What this service may have to do in the upper cluster, checked at the start and granted by the chart.

use tensile_runtime::clients::Permission;

use crate::args::COMPONENT;

const COORDINATION: &str = "coordination.k8s.io";
const EVENTS: &str = "events.k8s.io";

/// In all namespaces, in the one of the exclusions and the lease, and in the one of the canaries.
pub fn all<'a>(namespace: &'a str, canaries: &'a str) -> Vec<Permission<'a>> {
    let mut all = vec![
        Permission::core("list", "pods"),
        Permission::core("watch", "pods"),
        Permission::core("create", "pods/eviction"),
        Permission::core("list", "nodes"),
        Permission::core("watch", "nodes"),
        Permission::of("get", "batch", "jobs"),
        Permission::of("create", EVENTS, "events"),
        Permission::of("patch", EVENTS, "events"),
        // In a dry run.
        Permission::core("create", "pods").within(canaries),
    ];
    let own = |verb| Permission::core(verb, "configmaps").within(namespace);
    all.extend(["list", "watch", "create", "patch"].map(own));
    // The chart makes it; where nobody has, the right to create it is needed too.
    let lease = |verb| Permission::of(verb, COORDINATION, "leases").within(namespace).on(COMPONENT);
    all.extend(["get", "update"].map(lease));
    all
}

/// The same for pods without a controller, where the policy moves them.
pub fn bare(namespace: &str) -> Vec<Permission<'_>> {
    let mut all: Vec<_> = ["get", "create", "patch"].map(|verb| Permission::core(verb, "pods")).into();
    all.extend(["get", "delete"].map(|verb| Permission::core(verb, "configmaps").within(namespace)));
    all
}

/// The same for Deployments, where the policy rolls them out anew.
pub fn surge() -> [Permission<'static>; 3] {
    const APPS: &str = "apps";
    [
        Permission::of("get", APPS, "replicasets"),
        Permission::of("get", APPS, "deployments"),
        Permission::of("patch", APPS, "deployments"),
    ]
}

/// The same with a multi-scheduler: it is asked about whole pods, and pods show what it says.
pub fn places() -> [Permission<'static>; 2] {
    [Permission::core("get", "pods"), Permission::core("patch", "pods/status")]
}
