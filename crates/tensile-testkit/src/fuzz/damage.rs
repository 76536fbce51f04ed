// SPDX-License-Identifier: Apache-2.0
//! Damage to inputs: to the tree of a JSON value, and to bytes.

use serde_json::{Map, Value, json};

use super::Numbers;

/// Changes a few values somewhere in the tree: replaced, removed, doubled, moved, or with a new member. `words` are names
/// and texts that the code under test knows, so that changes get past its first checks.
pub fn damage_json(value: &mut Value, numbers: &mut Numbers, words: &[&str]) {
    for _ in 0..=numbers.below(4) {
        let other = pick(value, numbers).clone();
        let at = pick(value, numbers);
        match numbers.below(6) {
            0 => *at = leaf(numbers, words),
            1 => *at = other,
            2 => remove(at, numbers),
            3 => double(at, numbers),
            4 => insert(at, other, numbers, words),
            _ => {
                let leaf = leaf(numbers, words);
                insert(at, leaf, numbers, words);
            }
        }
    }
}

/// Flips, cuts out, doubles or inserts a few bytes, or breaks the text off.
pub fn damage_bytes(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(bytes.len());
        let end = (at + numbers.below(8)).min(bytes.len());
        match numbers.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            3 => {
                let piece = [*numbers.of(b"{}[]\",:0-9\\u\0\xff")];
                bytes.splice(at..at, piece);
            }
            4 if numbers.one_in(4) => bytes.truncate(at),
            _ => {
                let piece = numbers.bytes(3);
                bytes.splice(at..at, piece);
            }
        }
    }
}

/// A value somewhere in the tree, deep ones as likely as shallow ones.
fn pick<'v>(value: &'v mut Value, numbers: &mut Numbers) -> &'v mut Value {
    let stay = numbers.one_in(5);
    let count = match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    };
    if stay || count == 0 {
        return value;
    }
    let index = numbers.below(count);
    match value {
        Value::Array(items) => pick(&mut items[index], numbers),
        Value::Object(members) => match members.values_mut().nth(index) {
            Some(member) => pick(member, numbers),
            None => unreachable!("the index is below the count"),
        },
        _ => value,
    }
}

fn leaf(numbers: &mut Numbers, words: &[&str]) -> Value {
    match numbers.below(10) {
        0 => Value::Null,
        1 => json!({}),
        2 => json!([]),
        3 => json!(""),
        4 => json!(numbers.one_in(2)),
        5 => json!(*numbers.of(&[0, -1, 1, 100, 101, i64::MAX, i64::MIN])),
        6 => json!(1e300),
        _ => json!(*numbers.of(words)),
    }
}

fn remove(value: &mut Value, numbers: &mut Numbers) {
    match value {
        Value::Array(items) if !items.is_empty() => drop(items.remove(numbers.below(items.len()))),
        Value::Object(members) => {
            let name = members.keys().nth(numbers.below(members.len())).cloned();
            name.and_then(|name| members.remove(&name));
        }
        _ => *value = Value::Null,
    }
}

fn double(value: &mut Value, numbers: &mut Numbers) {
    match value {
        Value::Array(items) if !items.is_empty() => items.push(items[numbers.below(items.len())].clone()),
        Value::String(text) => *text = text.repeat(2),
        _ => {}
    }
}

fn insert(value: &mut Value, new: Value, numbers: &mut Numbers, words: &[&str]) {
    let name = (*numbers.of(words)).to_owned();
    match value {
        Value::Array(items) => items.insert(numbers.below(items.len() + 1), new),
        Value::Object(members) => drop(members.insert(name, new)),
        _ => *value = Value::Object(Map::from_iter([(name, new)])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_the_same_in_each_run_and_differs_by_seed() {
        let damaged = |seed| {
            let mut value = json!({"a": [1, {"b": "c"}], "d": {"e": null}});
            damage_json(&mut value, &mut Numbers::new(seed), &["x", "y"]);
            value
        };
        assert!((0..50).all(|seed| damaged(seed) == damaged(seed)));
        let changed = (0..50).filter(|seed| damaged(*seed) != damaged(50)).count();
        assert!(changed > 40, "{changed}");
    }

    #[test]
    fn bytes_of_any_length_can_be_damaged() {
        for seed in 0..2_000 {
            let mut numbers = Numbers::new(seed);
            let mut bytes = numbers.bytes(usize::try_from(seed).unwrap() % 9);
            damage_bytes(&mut bytes, &mut numbers);
        }
    }
}
