//! What is shipped beside the binary agrees with it: the reference of its flags, and what its chart allows it to do.

use clap::CommandFactory;
use descheduler::args::Args;
use descheduler::permissions;
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
    let mut given = rights(&yaml("charts/descheduler/files/upper-rules.yaml")[0], None);
    given.extend(rights(&yaml("charts/descheduler/files/own-rules.yaml")[0], Some("ns")));
    let needed = permissions::all("ns");
    let needed = needed.iter().map(|p| Right::new(p.verb, p.group, p.resource, p.namespace, p.name));
    assert_eq!(given, needed.collect());
}

#[test]
fn the_chart_speaks_the_services_flags() {
    shipped::chart_speaks_the_flags_of(&Args::command(), "descheduler");
}
