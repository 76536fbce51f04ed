// SPDX-License-Identifier: Apache-2.0
//! What is shipped beside the binary agrees with it: the reference of its flags, and what its chart allows it to do.

use std::collections::BTreeSet;

use clap::CommandFactory;
use tensile_testkit::shipped::{self, Right, rights, yaml};
use webhook::args::Args;
use webhook::certificates::keeper::Place;
use webhook::permissions;

#[test]
fn the_reference_of_the_flags_is_up_to_date() {
    shipped::reference_is_up_to_date(&Args::command(), "docs/src/reference/webhook-flags.md");
}

#[test]
fn every_flag_says_what_it_means() {
    shipped::every_flag_says_what_it_means(&Args::command());
}

#[test]
fn the_chart_gives_what_the_service_needs_and_no_more() {
    // The names, as helm will fill them in.
    let place = Place {
        namespace: "the release's".to_owned(),
        secret: r#"{{ include "webhook.certificateSecret" . }}"#.to_owned(),
        configuration: r#"{{ include "webhook.globalName" . }}"#.to_owned(),
        names: BTreeSet::new(),
    };
    let mut given = rights(&yaml("charts/webhook/files/certificate-rules.yaml")[0], Some("the release's"));
    given.extend(rights(&yaml("charts/webhook/files/registration-rules.yaml")[0], None));
    given.extend(rights(&yaml("charts/webhook/files/claim-rules.yaml")[0], None));
    given.extend(rights(&yaml("charts/webhook/files/exclusion-rules.yaml")[0], Some("the release's")));
    let needed = [permissions::certificates(&place), permissions::exclusions(&place.namespace)].concat();
    let needed =
        needed.iter().chain(permissions::CLAIMS).map(|p| Right::new(p.verb, p.group, p.resource, p.namespace, p.name));
    assert_eq!(given, needed.collect());
}

#[test]
fn the_chart_speaks_the_services_flags() {
    shipped::chart_speaks_the_flags_of(&Args::command(), "webhook");
}
