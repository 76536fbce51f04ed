// SPDX-License-Identifier: Apache-2.0
//! What is shipped beside the binary agrees with it: the reference of its flags, and what its chart allows it to do.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked #[test] as tests")]

use std::collections::BTreeSet;

use clap::CommandFactory;
use multi_scheduler::args::Args;
use multi_scheduler::permissions;
use tensile_runtime::clients::Permission;
use tensile_testkit::shipped::{self, Right, rights, yaml};

fn needed(permissions: &[Permission<'_>]) -> BTreeSet<Right> {
    permissions.iter().map(|p| Right::new(p.verb, p.group, p.resource, p.namespace, p.name)).collect()
}

#[test]
fn the_reference_of_the_flags_is_up_to_date() {
    shipped::reference_is_up_to_date(&Args::command(), "docs/src/reference/multi-scheduler-flags.md");
}

#[test]
fn every_flag_says_what_it_means() {
    shipped::every_flag_says_what_it_means(&Args::command());
}

#[test]
fn the_chart_gives_above_what_the_service_needs_and_no_more() {
    assert_eq!(rights(&yaml("charts/multi-scheduler/files/upper-rules.yaml")[0], None), needed(permissions::UPPER));
    let own = rights(&yaml("charts/multi-scheduler/files/own-rules.yaml")[0], Some("ns"));
    assert_eq!(own, needed(&permissions::kubeconfigs("ns")));
    let exclusions = rights(&yaml("charts/multi-scheduler/files/exclusion-rules.yaml")[0], Some("ns"));
    assert_eq!(exclusions, needed(&permissions::exclusions("ns")));
}

#[test]
fn the_manifest_for_lower_clusters_gives_what_the_service_needs_and_no_more() {
    let objects = yaml("charts/multi-scheduler/files/lower-rbac.yaml");
    let role = objects.iter().find(|object| object["kind"] == "ClusterRole").unwrap();
    assert_eq!(rights(&role["rules"], None), needed(&permissions::lower()));
}

#[test]
fn the_chart_speaks_the_services_flags() {
    shipped::chart_speaks_the_flags_of(&Args::command(), "multi-scheduler");
}
