// SPDX-License-Identifier: Apache-2.0
//! What is shipped beside the binary agrees with it: the reference of its flags, and what its chart allows it to do.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked #[test] as tests")]

use std::collections::BTreeSet;

use clap::CommandFactory;
use serde_json::Value;
use tensile_runtime::clients::Permission;
use tensile_testkit::shipped::{self, Right, rights, yaml};
use virtual_node::args::Args;
use virtual_node::permissions::{
    LOWER, LOWER_ENDPOINTS, LOWER_EVENTS, LOWER_IDENTITY, LOWER_KUBELETS, LOWER_METRICS, LOWER_PODS, LOWER_SECRETS,
    LOWER_SERVICES, LOWER_STREAMS, LOWER_TENANTS, LOWER_VOLUMES, UPPER, UPPER_CERTIFICATE, UPPER_EVENTS, UPPER_SECRETS,
    UPPER_SERVICES, UPPER_SLICES, UPPER_VOLUMES, node_user, upper_node,
};

#[test]
fn the_reference_of_the_flags_is_up_to_date() {
    shipped::reference_is_up_to_date(&Args::command(), "docs/src/reference/flags.md");
}

#[test]
fn every_flag_says_what_it_means() {
    shipped::every_flag_says_what_it_means(&Args::command());
}

fn needed<'a>(permissions: impl IntoIterator<Item = &'a Permission<'a>>) -> BTreeSet<Right> {
    permissions.into_iter().map(|p| Right::new(p.verb, p.group, p.resource, p.namespace, p.name)).collect()
}

#[test]
fn the_chart_gives_above_what_the_service_needs_and_no_more() {
    let mut given = rights(&yaml("charts/virtual-node/files/upper-rules.yaml")[0], None);
    given.extend(rights(&yaml("charts/virtual-node/files/upper-lease-rules.yaml")[0], Some("kube-node-lease")));
    assert_eq!(
        given,
        needed(UPPER.iter().chain(UPPER_EVENTS).chain(UPPER_VOLUMES).chain(UPPER_SERVICES).chain(UPPER_CERTIFICATE))
    );
    let secrets = rights(&yaml("charts/virtual-node/files/upper-secrets-rules.yaml")[0], None);
    assert_eq!(secrets, needed(UPPER_SECRETS));
    let slices = rights(&yaml("charts/virtual-node/files/upper-slices-rules.yaml")[0], None);
    assert_eq!(slices, needed(UPPER_SLICES));
    let node = rights(&yaml("charts/virtual-node/files/upper-node-rules.yaml")[0], None);
    assert_eq!(node, needed(&upper_node(&node_user("NODENAME"))));
}

#[test]
fn the_manifest_for_the_lower_cluster_gives_what_the_service_needs_and_no_more() {
    let objects = yaml("charts/virtual-node/files/lower-rbac.yaml");
    let role = |name: &str| {
        let named = |object: &&Value| object["kind"] == "ClusterRole" && object["metadata"]["name"] == name;
        rights(&objects.iter().find(named).unwrap()["rules"], None)
    };
    let objects_of_pods = LOWER_EVENTS.iter().chain(LOWER_VOLUMES).chain(LOWER_SERVICES).chain(LOWER_IDENTITY);
    let containers = LOWER_STREAMS.iter().chain(LOWER_METRICS);
    assert_eq!(
        role("tensile-virtual-node"),
        needed(LOWER.iter().chain(LOWER_PODS).chain(objects_of_pods).chain(containers))
    );
    assert_eq!(role("tensile-virtual-node-secrets"), needed(LOWER_SECRETS));
    let bindings = objects.iter().filter(|object| object["kind"] == "ClusterRoleBinding");
    let bound: Vec<&Value> = bindings.map(|binding| &binding["roleRef"]["name"]).collect();
    assert_eq!(bound, ["tensile-virtual-node"], "Secrets of all namespaces are for the operator to give");
}

/// What a manifest for the lower cluster gives.
fn given(file: &str) -> BTreeSet<Right> {
    let objects = yaml(file);
    let role = objects.iter().find(|object| object["kind"] == "ClusterRole").unwrap();
    rights(&role["rules"], None)
}

#[test]
fn the_manifest_for_metrics_of_kubelets_gives_what_they_need_and_no_more() {
    assert_eq!(given("charts/virtual-node/files/lower-rbac-kubelets.yaml"), needed(LOWER_KUBELETS));
}

#[test]
fn the_manifest_for_tenants_gives_what_they_need_and_no_more() {
    assert_eq!(given("charts/virtual-node/files/lower-rbac-tenants.yaml"), needed(LOWER_TENANTS));
}

#[test]
fn the_manifest_for_endpoints_gives_what_they_need_and_no_more() {
    assert_eq!(given("charts/virtual-node/files/lower-rbac-endpoints.yaml"), needed(LOWER_ENDPOINTS));
}

/// The chart's own flags exist, and the settings it refuses are those it sets itself.
#[test]
fn the_chart_speaks_the_services_flags() {
    shipped::chart_speaks_the_flags_of(&Args::command(), "virtual-node");
}
