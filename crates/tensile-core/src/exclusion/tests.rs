// SPDX-License-Identifier: Apache-2.0
//! The codec with its damaged entries, whose pods are meant, and what is left of where a pod may go.

use proptest::prelude::*;
use serde_json::{Value, json};
use tensile_testkit::flat_cluster::{self, Choices};

use super::*;

const EAST: &str = r#"{"nodes":[{"attempts":2,"node":"east","until":"2026-01-02T15:04:05Z"}],"version":1}"#;
const OWNER: Subject<'_> = Subject::Owner("u-1");

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn early() -> Timestamp {
    time("2026-01-01T00:00:00Z")
}

fn names(exclusions: &Exclusions, subjects: &[Subject<'_>]) -> Vec<String> {
    exclusions.of(subjects, early()).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_record_is_written_as_it_was_read() {
    let (record, damaged) = Record::decode(EAST).unwrap();
    assert_eq!(record.nodes[0].node, "east");
    assert_eq!(record.nodes[0].attempts, 2);
    assert!(damaged.is_empty());
    assert_eq!(record.encode(), EAST);
}

#[test]
fn members_of_a_later_build_survive() {
    let text = r#"{"nodes":[{"attempts":0,"hint":[1],"node":"east","until":"2026-01-02T15:04:05Z"}],"parked":true,"version":1}"#;
    assert_eq!(Record::decode(text).unwrap().0.encode(), text);
}

#[test]
fn an_exclusion_counts_until_its_time_and_not_then() {
    let (exclusions, _) = Exclusions::read([("owner.u-1", EAST)]);
    assert_eq!(exclusions.of(&[OWNER], time("2026-01-02T15:04:04.999Z")).len(), 1);
    assert_eq!(exclusions.of(&[OWNER], time("2026-01-02T15:04:05Z")).len(), 0);
}

#[test]
fn what_is_damaged_or_from_a_later_version_is_passed_over_by_name() {
    let east = r#"{"node":"east","until":"2026-01-02T15:04:05Z"}"#;
    let entries = [
        ("owner.a", "{"),
        ("owner.b", "[]"),
        ("owner.c", r#"{"version":2,"nodes":"anything"}"#),
        ("owner.d", r#"{"version":"1"}"#),
        ("owner.e", r#"{"nodes":{}}"#),
        (
            "owner.f",
            &format!(
                r#"{{"nodes":[1,{{"until":"2026-01-02T15:04:05Z"}},{{"node":"west","until":"soon"}},{east},
                {{"node":"west","until":"2026-01-02T15:04:05Z","attempts":-1}}]}}"#
            ),
        ),
    ];
    let (exclusions, skipped) = Exclusions::read(entries);
    assert_eq!(names(&exclusions, &[Subject::Owner("f")]), ["east"]);
    let skipped: Vec<String> = skipped.iter().map(ToString::to_string).collect();
    assert_eq!(
        skipped,
        [
            "entry owner.a of the exclusions: it is not JSON: EOF while parsing an object at line 1 column 1",
            "entry owner.b of the exclusions: the value must be an object",
            "entry owner.c of the exclusions: it is of version 2, this build knows up to 1",
            "entry owner.d of the exclusions: version must be a positive number",
            "entry owner.e of the exclusions: nodes must be a list",
            "entry owner.f of the exclusions: nodes[0] must be an object",
            "entry owner.f of the exclusions: nodes[1].node must be a text",
            "entry owner.f of the exclusions: nodes[2].until must be a time such as 2026-01-02T15:04:05Z",
            "entry owner.f of the exclusions: nodes[4].attempts must be a number",
        ]
    );
}

#[test]
fn entries_of_one_subject_in_two_config_maps_count_together() {
    let west = EAST.replace("east", "west");
    let (exclusions, _) = Exclusions::read([("owner.u-1", EAST), ("owner.u-1", &west), ("owner.u-2", EAST)]);
    assert_eq!(names(&exclusions, &[OWNER]), ["east", "west"]);
}

#[test]
fn a_pod_is_its_owners_and_of_its_index_there() {
    let of_set = Subject::of_pod(Some("u"), Some("3"), "ns", "web-3");
    assert_eq!(of_set.iter().map(Subject::key).collect::<Vec<_>>(), ["owner.u", "owner.u.3"]);
    assert_eq!(Subject::of_pod(Some("u"), None, "ns", ""), [Subject::Owner("u")]);
    let bare = Subject::of_pod(None, None, "ns", "a.b");
    assert_eq!(bare.iter().map(Subject::key).collect::<Vec<_>>(), ["pod.ns.a.b"]);
    assert_eq!(Subject::of_pod(None, Some("3"), "ns", ""), []);
}

#[test]
fn a_key_fits_a_config_map_whatever_the_names() {
    let long = "n".repeat(253);
    let (one, other) = (format!("{long}1"), format!("{long}2"));
    let keys =
        [one.as_str(), &other, "with space", "with/slash"].map(|name| Subject::Bare { namespace: "ns", name }.key());
    for key in &keys {
        assert!(key.len() <= 253 && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{key}");
    }
    assert_ne!(keys[0], keys[1]);
}

fn excluded(affinity: Value) -> Value {
    let mut affinity = Some(affinity);
    exclude(&mut affinity, ["east"]).unwrap();
    affinity.unwrap()
}

fn required(terms: &Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

#[test]
fn every_term_gets_the_exclusion_and_a_pod_without_terms_gets_one() {
    let not = json!({"key": "metadata.name", "operator": "NotIn", "values": ["east"]});
    let expression = json!({"key": "a", "operator": "Exists"});
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["west"]});
    let alone = required(&json!([{"matchFields": [not]}]));
    for nothing in [Value::Null, json!({}), json!({"nodeAffinity": null})] {
        assert_eq!(excluded(nothing), alone);
    }
    assert_eq!(
        excluded(required(&json!([{"matchExpressions": [expression]}, {"matchFields": [field]}]))),
        required(&json!([
            {"matchExpressions": [expression], "matchFields": [not]},
            {"matchFields": [field, not]},
        ]))
    );
}

#[test]
fn what_matches_nothing_goes_on_matching_nothing() {
    for terms in [json!([]), json!([{}]), json!([{"matchExpressions": []}])] {
        assert_eq!(excluded(required(&terms)), required(&terms));
    }
}

#[test]
fn the_rest_of_the_affinity_stays() {
    let mut affinity =
        required(&json!([{"matchFields": [], "matchExpressions": [{"key": "a", "operator": "Exists"}]}]));
    affinity["podAffinity"] = json!({"x": 1});
    affinity["nodeAffinity"]["later"] = json!(2);
    let after = excluded(affinity);
    assert_eq!((&after["podAffinity"], &after["nodeAffinity"]["later"]), (&json!({"x": 1}), &json!(2)));
}

#[test]
fn what_was_excluded_can_be_lifted_and_the_rest_stays() {
    let expression = json!({"key": "a", "operator": "Exists"});
    for before in [
        json!({"podAffinity": {"x": 1}}),
        required(&json!([{"matchExpressions": [expression]}])),
        required(&json!([{"matchExpressions": [expression], "matchFields": [
            {"key": "metadata.name", "operator": "NotIn", "values": ["north"]}]}, {}])),
    ] {
        let mut affinity = Some(before.clone());
        exclude(&mut affinity, ["east", "west"]).unwrap();
        lift(&mut affinity, ["west", "east"]);
        assert_eq!(affinity, Some(before));
    }
    let mut nothing = None;
    exclude(&mut nothing, ["east"]).unwrap();
    lift(&mut nothing, ["east"]);
    assert_eq!(nothing, None);
}

#[test]
fn an_affinity_of_the_wrong_type_says_where() {
    for (affinity, path) in [
        (json!(1), "spec.affinity"),
        (json!({"nodeAffinity": 1}), "spec.affinity.nodeAffinity"),
        (
            required(&json!([1])),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]",
        ),
    ] {
        let error = exclude(&mut Some(affinity), ["east"]).unwrap_err();
        assert_eq!(error.path, path);
    }
}

fn machines(layout: &[u8]) -> Vec<flat_cluster::Machine> {
    let clusters = flat_cluster::clusters(&mut Choices(layout));
    clusters.into_iter().flat_map(|cluster| [vec![cluster.virtual_node], cluster.lower].concat()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_pod_may_go_where_it_could_before_except_for_the_excluded_nodes(
        layout in prop::collection::vec(any::<u8>(), 120),
        bytes in prop::collection::vec(any::<u8>(), 0..90),
        chosen in prop::collection::vec(0..20_usize, 0..4),
    ) {
        let machines = machines(&layout);
        let nodes: BTreeSet<&str> = chosen.iter().map(|index| machines[index % machines.len()].name.as_str()).collect();
        let before = flat_cluster::pod(&mut Choices(&bytes));
        let mut after = before.clone();
        let mut affinity = before["spec"].get("affinity").cloned();
        exclude(&mut affinity, nodes.iter().copied()).unwrap();
        let once = affinity.clone();
        exclude(&mut affinity, nodes.iter().copied()).unwrap();
        prop_assert_eq!(&affinity, &once, "a second time changes it");
        if let Some(affinity) = affinity.clone() {
            after["spec"]["affinity"] = affinity;
        }
        let mut lifted = affinity.clone();
        lift(&mut lifted, nodes.iter().copied());
        let mut as_before = before.clone();
        as_before["spec"]["affinity"] = lifted.into();
        for machine in &machines {
            let (was, is) = (&before["spec"], &as_before["spec"]);
            // What its author wrote in the same words goes with it.
            let authors = was.to_string().contains("metadata.name");
            let same = flat_cluster::selects(is, machine) == flat_cluster::selects(was, machine);
            prop_assert!(same || authors, "{} lifted", is);
        }
        for machine in &machines {
            let expected = flat_cluster::selects(&before["spec"], machine) && !nodes.contains(machine.name.as_str());
            prop_assert_eq!(flat_cluster::selects(&after["spec"], machine), expected, "{} on {:?}", after, machine);
        }
    }

    #[test]
    fn any_text_is_a_record_or_refused(text in prop_oneof![any::<String>(), likely_record()]) {
        if let Ok((record, _)) = Record::decode(&text) {
            let (again, damaged) = Record::decode(&record.encode()).unwrap();
            prop_assert_eq!((again, damaged), (record, vec![]));
        }
        let (exclusions, _) = Exclusions::read([("owner.u-1", text.as_str())]);
        exclusions.of(&[OWNER], early());
    }
}

/// Text in a record's own words.
fn likely_record() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec!["east", "", "2026-01-02T15:04:05Z", "2026-01-02", "-9999999999-01-01T00:00:00Z"])
            .prop_map(Value::from),
    ];
    let name = prop::sample::select(vec!["version", "nodes", "node", "until", "attempts", "other"]);
    let value = leaf.prop_recursive(4, 30, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..5)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    });
    value.prop_map(|value| value.to_string())
}
