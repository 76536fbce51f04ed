// SPDX-License-Identifier: Apache-2.0
//! Tests of the module above.
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn vector(list: &Value) -> ResourceVector {
    ResourceVector::from_json(list).unwrap()
}

/// Vectors over a few names, so that names often coincide.
fn vectors() -> impl Strategy<Value = ResourceVector> {
    let name = prop_oneof![Just("cpu"), Just("memory"), Just("example.com/gpu"), Just("a")];
    proptest::collection::vec((name, 0_i128..1_000_000_000), 0..6)
        .prop_map(|amounts| amounts.into_iter().map(|(name, milli)| (name.into(), milli)).collect())
}

#[test]
fn a_resource_list_is_read_in_thousandths_and_written_in_the_usual_units() {
    let read = vector(&json!({
        "memory": "1048576Ki", "cpu": "0.1", "example.com/gpu": 2, "hugepages-2Mi": "4194304", "pods": "2000",
        "ephemeral-storage": "100M",
    }));
    assert_eq!(read.get(&ResourceName::CPU), Some(100));
    assert_eq!(read.get(&ResourceName::MEMORY), Some(1_073_741_824_000));
    assert_eq!(read.get(&"nothing".into()), None);
    assert_eq!(
        read.to_json(),
        json!({
            "cpu": "100m", "ephemeral-storage": "100000000", "example.com/gpu": "2", "hugepages-2Mi": "4Mi",
            "memory": "1Gi", "pods": "2k",
        })
    );
    assert_eq!(serde_json::to_value(&read).unwrap(), read.to_json());
}

#[test]
fn an_absent_list_is_empty_and_another_shape_an_error() {
    assert!(vector(&Value::Null).is_empty());
    assert!(vector(&json!({})).is_empty());
    for wrong in [json!([]), json!("1"), json!({"cpu": "1 core"}), json!({"cpu": null}), json!({"cpu": {}})] {
        assert!(ResourceVector::from_json(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn names_stay_sorted_and_unique_whatever_the_order_they_come_in() {
    let mut amounts = vector(&json!({"b": "1", "cpu": "1", "a": "1"}));
    amounts.set("c".into(), 5);
    amounts.set("a".into(), 7);
    amounts.add("a".into(), 1);
    let listed: Vec<_> = amounts.iter().map(|(name, milli)| (name.as_str().to_owned(), milli)).collect();
    assert_eq!(listed, [("a".into(), 8), ("b".into(), 1000), ("c".into(), 5), ("cpu".into(), 1000)]);
}

#[test]
fn taking_away_stops_at_zero_and_makes_no_new_resource() {
    let free = vector(&json!({"cpu": "1", "memory": "1Ki", "example.com/gpu": "0"}));
    let left = free.less(&vector(&json!({"cpu": "3", "memory": "24", "other": "1"})));
    assert_eq!(left, vector(&json!({"cpu": "0", "memory": "1000", "example.com/gpu": "0"})));
}

#[test]
fn amounts_saturate_instead_of_overflowing() {
    let mut most: ResourceVector = [(ResourceName::CPU, i128::MAX)].into_iter().collect();
    most.add(ResourceName::CPU, 1);
    assert_eq!(most.get(&ResourceName::CPU), Some(i128::MAX));
    let least: ResourceVector = [(ResourceName::CPU, i128::MIN)].into_iter().collect();
    assert_eq!(most.less(&least).get(&ResourceName::CPU), Some(i128::MAX));
}

#[test]
fn a_request_fits_when_every_amount_it_names_is_free() {
    let free = vector(&json!({"cpu": "2", "memory": "1Gi"}));
    for (request, fits) in [
        (json!({}), true),
        (json!({"cpu": "2", "memory": "1Gi"}), true),
        (json!({"cpu": "2001m"}), false),
        (json!({"cpu": "1", "example.com/gpu": "1"}), false),
        (json!({"cpu": "1", "example.com/gpu": "0"}), true),
    ] {
        assert_eq!(vector(&request).fits(&free), fits, "{request}");
    }
}

#[test]
fn a_zero_amount_fits_even_where_nothing_is_left() {
    let over_committed: ResourceVector = [(ResourceName::CPU, -1)].into_iter().collect();
    assert!(vector(&json!({"cpu": "0"})).fits(&over_committed));
}

proptest! {
    #[test]
    fn adding_is_commutative(a in vectors(), b in vectors()) {
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.add_all(&b);
        ba.add_all(&a);
        prop_assert_eq!(ab, ba);
    }

    #[test]
    fn what_was_added_can_be_taken_away(a in vectors(), b in vectors()) {
        let mut sum = a.clone();
        sum.add_all(&b);
        for (name, milli) in sum.less(&b).iter() {
            prop_assert_eq!(milli, a.get(name).unwrap_or(0));
        }
    }

    #[test]
    fn raising_gives_the_larger_of_both(a in vectors(), b in vectors()) {
        let mut raised = a.clone();
        raised.raise_to(&b);
        for (name, milli) in raised.iter() {
            prop_assert_eq!(Some(milli), a.get(name).max(b.get(name)));
        }
        prop_assert!(a.fits(&raised) && b.fits(&raised));
    }

    #[test]
    fn json_keeps_every_amount(a in vectors()) {
        prop_assert_eq!(ResourceVector::from_json(&a.to_json()).unwrap(), a);
    }
}
