// SPDX-License-Identifier: Apache-2.0
//! The reference for users names what the rules name.

use crate::pod::{container::CONTAINER, fields::Fields, metadata, spec::SPEC, volume};

const PAGE: &str = include_str!("../../../../../docs/src/reference/pod-fields.md");

#[test]
fn the_page_explains_every_field_that_a_rule_names() {
    let lists: [&Fields; 5] = [&metadata::METADATA, &SPEC, &CONTAINER, &volume::SOURCES, &volume::PROJECTIONS];
    let fields = lists.iter().flat_map(|fields| fields.kept.iter().chain(fields.decided));
    for field in fields.chain(metadata::STAYING_ANNOTATIONS) {
        assert!(PAGE.contains(&format!("`{field}`")), "{field}");
    }
}
