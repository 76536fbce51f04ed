// SPDX-License-Identifier: Apache-2.0
//! What is shipped beside the binary agrees with it: the reference of its flags, and what its chart allows it to do.

use std::collections::BTreeSet;

use clap::CommandFactory;
use descheduler::args::Args;
use descheduler::permissions;
use tensile_runtime::clients::Permission;
use tensile_testkit::shipped::{self, Right, rights, yaml};

#[test]
fn the_reference_of_the_flags_is_up_to_date() {
    shipped::reference_is_up_to_date(&Args::command(), "docs/src/reference/descheduler-flags.md");
}

#[test]
fn every_flag_says_what_it_means() {
    shipped::every_flag_says_what_it_means(&Args::command());
}

#[test]
fn the_chart_gives_what_the_service_needs_and_no_more() {
    let rules =
        |file: &str, namespace| rights(&yaml(&format!("charts/descheduler/files/{file}-rules.yaml"))[0], namespace);
    let rights_of = |needed: Vec<Permission<'_>>| -> BTreeSet<Right> {
        needed.iter().map(|p| Right::new(p.verb, p.group, p.resource, p.namespace, p.name)).collect()
    };
    let mut given = rules("upper", None);
    given.extend(rules("own", Some("ns")));
    given.extend(rules("canary", Some("canaries")));
    assert_eq!(given, rights_of(permissions::all("ns", "canaries")));
    let mut given = rules("bare", None);
    given.extend(rules("bare-own", Some("ns")));
    assert_eq!(given, rights_of(permissions::bare("ns")));
    assert_eq!(rules("surge", None), rights_of(permissions::surge().into()));
    assert_eq!(rules("places", None), rights_of(permissions::places().into()));
}

#[test]
fn the_chart_speaks_the_services_flags() {
    shipped::chart_speaks_the_flags_of(&Args::command(), "descheduler");
}
