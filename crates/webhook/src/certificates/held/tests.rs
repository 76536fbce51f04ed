// SPDX-License-Identifier: Apache-2.0
//! Secrets as others may leave them.

use proptest::prelude::*;

use super::super::issue::{Lifetimes, perform};
use super::super::plan::Action;
use super::*;

fn held() -> Held {
    let lives = Lifetimes { ca: std::time::Duration::from_secs(3600), leaf: std::time::Duration::from_secs(1200) };
    let now = jiff::Timestamp::from_second(1_767_225_600).unwrap();
    let data = perform(Action::Begin, None, &["webhook.tensile.svc".to_owned()].into(), lives, now).unwrap();
    Held::read(&data).unwrap()
}

/// The data of a good Secret with some of its values replaced; `None` removes.
fn with(changes: &[(&str, Option<&str>)]) -> BTreeMap<String, ByteString> {
    let mut data = held().write();
    for (name, value) in changes {
        match value {
            Some(value) => drop(data.insert((*name).to_owned(), ByteString(value.as_bytes().to_vec()))),
            None => drop(data.remove(*name)),
        }
    }
    data
}

#[test]
fn a_secret_without_content_is_empty() {
    assert_eq!(Held::read(&BTreeMap::new()), Err(Useless::Empty));
    let blank = ["tls.crt", "tls.key"].map(|name| (name.to_owned(), ByteString(Vec::new())));
    assert_eq!(Held::read(&blank.into()), Err(Useless::Empty));
}

#[test]
fn a_secret_of_somebody_else_is_not_ours() {
    assert_eq!(Held::read(&with(&[("ca.key", None)])), Err(Useless::NotOurs));
    let password = [("password".to_owned(), ByteString(b"x".to_vec()))];
    assert_eq!(Held::read(&password.into()), Err(Useless::NotOurs));
}

#[test]
fn what_is_damaged_is_named() {
    let other = held();
    let leaf = other.leaf.as_ref().unwrap();
    for (name, value) in [
        ("ca.crt", ""),
        ("ca.crt", "garbage"),
        ("ca.crt", &leaf.cert),
        ("ca.key", "garbage"),
        ("ca.key", &other.ca_key.0),
    ] {
        let expected = if name == "ca.crt" { "ca.crt" } else { "ca.key" };
        assert_eq!(Held::read(&with(&[(name, Some(value))])), Err(Useless::Damaged(expected)), "{value}");
    }
    assert_eq!(Held::read(&with(&[("ca.crt", None)])), Err(Useless::Damaged("ca.crt")));
}

#[test]
fn a_serving_certificate_that_is_none_is_none() {
    let other = held().leaf.unwrap();
    for (name, value) in [("tls.crt", ""), ("tls.crt", "garbage"), ("tls.key", ""), ("tls.key", &other.key.0)] {
        assert_eq!(Held::read(&with(&[(name, Some(value))])).unwrap().leaf, None, "{name} {value}");
    }
}

#[test]
fn a_serving_certificate_of_another_ca_has_no_issuer() {
    let other = held().leaf.unwrap();
    let read = Held::read(&with(&[("tls.crt", Some(&other.cert)), ("tls.key", Some(&other.key.0))])).unwrap();
    assert_eq!(read.leaf.unwrap().issuer, None);
}

#[test]
fn a_debug_print_shows_no_key() {
    let held = held();
    let shown = format!("{held:?}");
    let secret = held.ca_key.0.lines().nth(1).unwrap();
    assert!(shown.contains("Key(..)") && !shown.contains("PRIVATE") && !shown.contains(secret), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever becomes of the bytes: it is read or refused, and what is read can be written and read again.
    #[test]
    fn a_mutilated_secret_is_read_or_refused(
        which in 0..4usize, at: usize, cut in 0..80usize, by in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut data = held().write();
        let bytes = &mut data.values_mut().nth(which).unwrap().0;
        let at = at % (bytes.len() + 1);
        bytes.splice(at..(at + cut).min(bytes.len()), by);
        if let Ok(read) = Held::read(&data) {
            prop_assert!(!read.cas.is_empty());
            prop_assert_eq!(Held::read(&read.write()), Ok(read));
        }
    }
}
