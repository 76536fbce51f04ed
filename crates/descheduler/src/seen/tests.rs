// SPDX-License-Identifier: Apache-2.0
//! Lists, damage, and what is passed over.

use serde_json::json;
use tensile_core::deschedule::Limits;

use super::*;

fn seen() -> Seen {
    let interval = std::time::Duration::from_secs(60);
    let limits = Limits { per_node: None, per_namespace: None, total: None, interval };
    Seen::new(Guard::default(), Buckets::new(limits), true)
}

fn map(name: &str, version: &str, data: &Value) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version}, "data": data})
}

const EAST: &str = r#"{"nodes":[{"node":"east","until":"2026-01-02T15:04:05Z","attempts":1}]}"#;

#[test]
fn a_list_counts_when_it_is_complete() {
    let mut seen = seen();
    seen.maps(Event::Init);
    seen.maps(Event::InitApply(map("m", "7", &json!({"owner.u": EAST}))));
    assert!(!seen.maps.listing.is_complete() && seen.map("m").is_none());
    seen.maps(Event::InitDone);
    assert_eq!(seen.map("m").unwrap().version, 7);
    seen.maps(Event::Delete(map("m", "8", &json!({}))));
    assert!(seen.map("m").is_none());
}

#[test]
fn what_is_damaged_or_newer_is_passed_over_and_the_rest_counts() {
    let data = json!({"owner.u": EAST, "owner.v": "{", "owner.w": r#"{"version":9}"#, "owner.x": 3});
    let (map, wrong) = Map::read(&map("m", "x", &data));
    assert_eq!(map.records.keys().collect::<Vec<_>>(), ["owner.u"]);
    assert_eq!(map.newer, [("owner.w".to_owned(), 9)].into());
    assert_eq!(wrong.len(), 3, "{wrong:?}");
}

#[test]
fn a_pod_that_cannot_be_read_is_passed_over() {
    let mut seen = seen();
    seen.pods(Event::Apply(json!({"metadata": {"name": 3}})));
    assert!(seen.pods.now.is_empty());
}
