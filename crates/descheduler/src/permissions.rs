//! What this service may have to do in the upper cluster, checked at the start and granted by the chart.

use tensile_runtime::clients::Permission;

const COORDINATION: &str = "coordination.k8s.io";
const EVENTS: &str = "events.k8s.io";

/// In all namespaces, and in the one of the exclusions and the lease.
pub fn all(namespace: &str) -> Vec<Permission<'_>> {
    let mut all = vec![
        Permission::core("list", "pods"),
        Permission::core("watch", "pods"),
        Permission::core("create", "pods/eviction"),
        Permission::core("list", "nodes"),
        Permission::core("watch", "nodes"),
        Permission::of("get", "batch", "jobs"),
        Permission::of("create", EVENTS, "events"),
        Permission::of("patch", EVENTS, "events"),
    ];
    let own = |verb| Permission::core(verb, "configmaps").within(namespace);
    all.extend(["list", "watch", "create", "patch"].map(own));
    let lease = |verb| Permission::of(verb, COORDINATION, "leases").within(namespace);
    all.extend(["get", "create", "update"].map(lease));
    all
}
