// SPDX-License-Identifier: Apache-2.0
//! What this service may have to do in either cluster, checked at the start and granted by the chart.

use tensile_core::scheduling::Kind;
use tensile_runtime::clients::Permission;

/// In all of the upper cluster.
pub const UPPER: &[Permission<'static>] = &[
    Permission::core("list", "nodes"),
    Permission::core("watch", "nodes"),
    // When there is room again, schedulers are told by an annotation.
    Permission::core("patch", "nodes"),
    Permission::core("get", "pods"),
    Permission::core("list", "pods"),
    Permission::core("watch", "pods"),
    // The cluster is known by its UID.
    Permission::core("get", "namespaces").on("kube-system"),
    // How many members groups must have, where the server has these kinds.
    Permission::of("list", "scheduling.x-k8s.io", "podgroups"),
    Permission::of("watch", "scheduling.x-k8s.io", "podgroups"),
    Permission::of("list", "scheduling.k8s.io", "podgroups"),
    Permission::of("watch", "scheduling.k8s.io", "podgroups"),
    Permission::of("list", "scheduling.k8s.io", "workloads"),
    Permission::of("watch", "scheduling.k8s.io", "workloads"),
    // Who asks for an explanation, and whether they may.
    Permission::of("create", "authentication.k8s.io", "tokenreviews"),
    Permission::of("create", "authorization.k8s.io", "subjectaccessreviews"),
];

/// To hear of exclusions.
pub fn exclusions(namespace: &str) -> Vec<Permission<'_>> {
    ["list", "watch"].into_iter().map(|verb| Permission::core(verb, "configmaps").within(namespace)).collect()
}

/// To find the kubeconfigs of lower clusters in Secrets.
pub fn kubeconfigs(namespace: &str) -> Vec<Permission<'_>> {
    ["list", "watch"].into_iter().map(|verb| Permission::core(verb, "secrets").within(namespace)).collect()
}

/// In each lower cluster: to read what decides where a pod fits, and the UID that the cluster is known by.
pub fn lower() -> Vec<Permission<'static>> {
    let followed = Kind::ALL.into_iter().flat_map(|kind| {
        let (version, plural) = kind.resource();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        ["list", "watch"].map(|verb| Permission::of(verb, group, plural))
    });
    followed.chain([Permission::core("get", "namespaces").on("kube-system")]).collect()
}
