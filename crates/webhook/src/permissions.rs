// SPDX-License-Identifier: Apache-2.0
//! What this service may have to do in the upper cluster, checked at the start and granted by the chart.

use tensile_runtime::clients::Permission;

use crate::certificates::keeper::Place;

/// To send pods to the virtual nodes of their claims.
pub const CLAIMS: &[Permission<'static>] = &[
    Permission::core("list", "persistentvolumeclaims"),
    Permission::core("watch", "persistentvolumeclaims"),
    Permission::core("list", "nodes"),
    Permission::core("watch", "nodes"),
];

/// For a certificate of its own: one Secret, which it makes if it is not there, and one configuration.
pub fn certificates(place: &Place) -> Vec<Permission<'_>> {
    let secret = |verb| Permission::core(verb, "secrets").within(&place.namespace);
    let configuration = |verb| {
        Permission::of(verb, "admissionregistration.k8s.io", "mutatingwebhookconfigurations").on(&place.configuration)
    };
    let each = ["get", "list", "watch", "patch"];
    let all = each.into_iter().flat_map(|verb| [secret(verb).on(&place.secret), configuration(verb)]);
    // No rule can allow to create only objects of one name.
    all.chain([secret("create")]).collect()
}

/// To hear of exclusions.
pub fn exclusions(namespace: &str) -> Vec<Permission<'_>> {
    ["list", "watch"].into_iter().map(|verb| Permission::core(verb, "configmaps").within(namespace)).collect()
}
