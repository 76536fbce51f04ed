// SPDX-License-Identifier: Apache-2.0
//! Certificates and tokens, good and bad.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::client::Body;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use serde_json::json;

use super::*;

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn client(
    by: &CertifiedIssuer<'static, KeyPair>,
    change: impl FnOnce(&mut CertificateParams),
) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, "alice");
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params);
    params.signed_by(&KeyPair::generate().unwrap(), by).unwrap().der().clone()
}

#[test]
fn a_certificate_of_the_authority_names_its_user_and_groups() {
    let authority = authority();
    let ca = ClientCa::from_pem(authority.pem().as_bytes()).unwrap();
    let identity = ca.identify(&[client(&authority, |_| {})], UnixTime::now()).unwrap();
    assert_eq!(identity.username, "alice");
    assert_eq!(identity.groups, ["system:masters", "system:authenticated"]);
}

#[test]
fn a_certificate_that_does_not_count_names_nobody() {
    let (ours, other) = (authority(), authority());
    let ca = ClientCa::from_pem(ours.pem().as_bytes()).unwrap();
    let nobody = |certificate, about| assert_eq!(ca.identify(&[certificate], UnixTime::now()), None, "{about}");
    nobody(client(&other, |_| {}), "of another authority");
    nobody(client(&ours, |params| params.not_after = date_time_ymd(2020, 1, 1)), "expired");
    nobody(client(&ours, |params| params.not_before = date_time_ymd(4000, 1, 1)), "of the future");
    nobody(
        client(&ours, |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]),
        "of a server",
    );
    nobody(client(&ours, |params| params.distinguished_name = rcgen::DistinguishedName::new()), "without a name");
    nobody(
        client(&ours, |params| {
            params.distinguished_name.remove(DnType::CommonName);
            params.distinguished_name.push(DnType::CommonName, "");
        }),
        "with an empty name",
    );
    nobody(CertificateDer::from(vec![0x30, 0x00]), "that is none");
    assert_eq!(ca.identify(&[], UnixTime::now()), None);
    assert_eq!(ClientCa::default().identify(&[client(&ours, |_| {})], UnixTime::now()), None, "without an authority");
}

#[test]
fn a_file_without_an_authority_is_refused() {
    assert!(matches!(ClientCa::from_pem(b""), Err(ClientCaError::Empty)));
    assert!(matches!(ClientCa::from_pem(b"not PEM"), Err(ClientCaError::Empty)));
    let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(ClientCa::from_pem(broken), Err(ClientCaError::Unusable(_))));
}

#[test]
fn only_a_bearer_token_is_a_token() {
    let token = |value: &str| {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        bearer(&headers).map(str::to_owned)
    };
    assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
    assert_eq!(token("bearer   abc ").as_deref(), Some("abc"));
    for none in ["", "Bearer", "Bearer ", "Basic abc", "abc"] {
        assert_eq!(token(none), None, "{none:?}");
    }
    assert_eq!(bearer(&HeaderMap::new()), None);
}

/// An API server that knows the token `good`, and counts its reviews.
fn reviewing() -> (Client, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let counted = counted.clone();
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            let body = request.into_body().collect_bytes().await.unwrap();
            let review: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let (code, status) = match review["spec"]["token"].as_str().unwrap() {
                "good" => (
                    201,
                    json!({"authenticated": true, "user": {"username": "bob", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}}}),
                ),
                "nameless" => (201, json!({"authenticated": true, "user": {}})),
                "broken" => (503, json!({})),
                _ => (201, json!({"user": {"username": "mallory"}})),
            };
            let answer = json!({"spec": {"token": ""}, "status": status}).to_string();
            Ok::<_, std::convert::Infallible>(
                Response::builder().status(code).body(Body::from(answer.into_bytes())).unwrap(),
            )
        }
    });
    (Client::new(service, "default"), count)
}

fn authenticator() -> (Authenticator, Arc<AtomicUsize>) {
    let (client, asked) = reviewing();
    (Authenticator::new(client, watch::channel(ClientCa::default()).1), asked)
}

fn with(token: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, format!("Bearer {token}").parse().unwrap())])
}

#[tokio::test(start_paused = true)]
async fn a_reviewed_token_counts_for_two_minutes() {
    let (authenticator, asked) = authenticator();
    let expected = Identity {
        username: "bob".into(),
        uid: Some("7".into()),
        groups: vec!["g".into(), "system:authenticated".into()],
        extra: [("k".to_owned(), vec!["v".to_owned()])].into(),
    };
    for _ in 0..3 {
        assert_eq!(authenticator.identify(&[], &with("good")).await, Some(expected.clone()));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(120)).await;
    assert_eq!(authenticator.identify(&[], &with("good")).await, Some(expected));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_bad_token_is_nobody_and_is_not_reviewed_twice() {
    let (authenticator, asked) = authenticator();
    for token in ["bad", "bad", "nameless"] {
        assert_eq!(authenticator.identify(&[], &with(token)).await, None);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(authenticator.identify(&[], &HeaderMap::new()).await, None);
    assert_eq!(asked.load(Ordering::SeqCst), 2, "nothing to review");
}

#[tokio::test]
async fn a_review_that_fails_names_nobody_and_is_tried_again() {
    let (authenticator, asked) = authenticator();
    assert_eq!(authenticator.identify(&[], &with("broken")).await, None);
    assert_eq!(authenticator.identify(&[], &with("broken")).await, None);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_strangers_certificate_is_no_reason_to_refuse_a_good_token() {
    let (ours, other) = (authority(), authority());
    let (client_, _) = reviewing();
    let ca = ClientCa::from_pem(ours.pem().as_bytes()).unwrap();
    let authenticator = Authenticator::new(client_, watch::channel(ca).1);
    let stranger = client(&other, |_| {});
    assert_eq!(authenticator.identify(&[stranger], &with("good")).await.unwrap().username, "bob");
}
