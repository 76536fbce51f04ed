// SPDX-License-Identifier: Apache-2.0
//! What is made is judged by the verifier of rustls, which shares no code with what made it.

use std::time::Duration;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tensile_runtime::clients::install_crypto;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const LIVES: Lifetimes = Lifetimes { ca: HOUR, leaf: Duration::from_secs(1200) };
/// 2026-01-01T00:00:00Z
const NOW: i64 = 1_767_225_600;
const SERVICE: &str = "webhook.tensile.svc";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// What the Secret holds afterwards, as it is read from it.
fn done(action: Action, held: Option<&Held>, names: &BTreeSet<String>, lives: Lifetimes, now: i64) -> Held {
    Held::read(&perform(action, held.cloned(), names, lives, at(now)).unwrap()).unwrap()
}

fn begun() -> Held {
    done(Action::Begin, None, &names(&[SERVICE, "127.0.0.1"]), LIVES, NOW)
}

fn next(action: Action, held: &Held, now: i64) -> Held {
    done(action, Some(held), &names(&[SERVICE]), LIVES, now)
}

/// Whether a client that trusts `bundle` alone accepts what is served, as `name` at this time.
fn accepts(bundle: &str, held: &Held, name: &str, second: i64) -> bool {
    install_crypto();
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(ca.unwrap()).unwrap();
    }
    let verifier = WebPkiServerVerifier::builder(roots.into()).build().unwrap();
    let leaf = CertificateDer::from_pem_slice(held.leaf.as_ref().unwrap().cert.as_bytes()).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(second.try_into().unwrap()));
    verifier.verify_server_cert(&leaf, &[], &name, &[], now).is_ok()
}

#[test]
fn what_is_made_first_is_trusted_under_its_names_while_it_lives() {
    let held = begun();
    let bundle = held.bundle();
    for name in [SERVICE, "127.0.0.1"] {
        assert!(accepts(&bundle, &held, name, NOW) && accepts(&bundle, &held, name, NOW + 1200), "{name}");
        assert!(accepts(&bundle, &held, name, NOW - 60), "a clock that is behind by a twentieth of its life");
        assert!(!accepts(&bundle, &held, name, NOW + 1201) && !accepts(&bundle, &held, name, NOW - 61), "{name}");
    }
    assert!(!accepts(&bundle, &held, "other.tensile.svc", NOW));
    assert!(!accepts(&begun().bundle(), &held, SERVICE, NOW), "another CA of the same name");
}

#[test]
fn a_new_ca_stands_beside_the_old_one_until_it_signs() {
    let first = begun();
    let both = next(Action::AddCa, &first, NOW + 2400);
    assert_eq!(both.bundle().matches("BEGIN CERTIFICATE").count(), 2);
    assert_eq!(both.leaf.as_ref().unwrap().cert, first.leaf.as_ref().unwrap().cert);
    assert_ne!(both.ca_key, first.ca_key);
    assert_eq!(both.leaf.as_ref().unwrap().issuer, Some(1));

    let signed = next(Action::Issue, &both, NOW + 2500);
    assert_eq!(signed.leaf.as_ref().unwrap().issuer, Some(0));
    assert!(accepts(&both.bundle(), &signed, SERVICE, NOW + 2500));
    assert!(!accepts(&first.bundle(), &signed, SERVICE, NOW + 2500), "the old CA did not sign it");

    let after = next(Action::Forget, &signed, NOW + 3601);
    assert_eq!(after.cas, signed.cas[..1]);
    assert!(accepts(&after.bundle(), &after, SERVICE, NOW + 2500));
}

#[test]
fn a_certificate_does_not_outlive_its_ca() {
    let held = next(Action::Issue, &begun(), NOW + 3000);
    assert_eq!(held.leaf.unwrap().validity.until, at(NOW + 3600));
}

#[test]
fn names_that_another_replica_wants_stay_until_the_next_renewal() {
    let held = begun();
    let ours = names(&["new.tensile.svc"]);
    let issue = |held: &Held| done(Action::Issue, Some(held), &ours, LIVES, NOW + 800);
    let both = issue(&held);
    assert_eq!(both.leaf.as_ref().unwrap().names, names(&["127.0.0.1", "new.tensile.svc", SERVICE]));
    assert_eq!(issue(&both).leaf.unwrap().names, ours);
}

#[test]
fn short_lives_are_backdated_by_little_and_settle_soon() {
    let lives = Lifetimes { ca: Duration::from_secs(60), leaf: Duration::from_secs(20) };
    assert_eq!(lives.settle(), Duration::from_secs(2));
    let held = done(Action::Begin, None, &names(&[SERVICE]), lives, NOW);
    assert_eq!(held.cas[0].validity, Validity { from: at(NOW - 3), until: at(NOW + 60) });
    assert_eq!(held.leaf.unwrap().validity, Validity { from: at(NOW - 1), until: at(NOW + 20) });
    assert_eq!(Lifetimes { ca: HOUR * 9000, leaf: HOUR * 3000 }.settle(), Duration::from_secs(60));
}

#[test]
fn what_cannot_be_made_is_told() {
    let error = params_for(&names(&["nö"])).unwrap_err().to_string();
    assert_eq!(error, "cannot make a certificate: \"nö\" is neither a DNS name nor an IP address");
    let lives = Lifetimes { ca: Duration::MAX, leaf: HOUR };
    for now in [at(NOW), Timestamp::MIN, Timestamp::MAX] {
        assert!(perform(Action::Begin, None, &names(&[SERVICE]), lives, now).is_err(), "{now}");
    }
}
