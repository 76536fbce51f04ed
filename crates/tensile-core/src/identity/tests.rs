// SPDX-License-Identifier: Apache-2.0
//! Addresses, tokens, renewals and Secrets.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::{ApiServer, Issued, Life, Lives, Owner, Step, Token, Tokens, create, plan, renew, renew_at, request};
use crate::pod::LinkView;

const NOW: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW + seconds).unwrap()
}

fn tokens() -> Tokens {
    let tokens =
        vec![Token { audience: String::new(), seconds: 3607 }, Token { audience: "vault".to_owned(), seconds: 600 }];
    Tokens { secret: "web-0-tokens-1".to_owned(), account: "robot".to_owned(), tokens }
}

fn lives(lives: &[(&str, i64, u64)]) -> Lives {
    let mut known = Lives::default();
    for (key, expires, seconds) in lives {
        known.insert((*key).to_owned(), Life { expires: at(*expires), seconds: *seconds });
    }
    known
}

#[test]
fn an_address_is_host_and_port_however_it_is_written() {
    for (text, host, port) in [
        ("https://api.example.org:6443", "api.example.org", 6443),
        ("https://api.example.org", "api.example.org", 443),
        ("https://api.example.org:6443/", "api.example.org", 6443),
        ("https://proxy.example.org/clusters/a", "proxy.example.org", 443),
        ("http://127.0.0.1:8001", "127.0.0.1", 8001),
        ("http://127.0.0.1", "127.0.0.1", 80),
        ("kubernetes.default.svc:6443", "kubernetes.default.svc", 6443),
        ("10.0.0.1", "10.0.0.1", 443),
        ("https://[fd00::1]:6443", "fd00::1", 6443),
        ("[fd00::1]", "fd00::1", 443),
        ("fd00::1", "fd00::1", 443),
    ] {
        assert_eq!(ApiServer::parse(text), Ok(ApiServer { host: host.to_owned(), port }), "{text}");
    }
    for text in ["", "https://", "ftp://a", "a:b", "a:0", "a:70000", "[a]:1", "[fd00::1", "[fd00::1]x", "a b", "u@a:1"]
    {
        assert!(ApiServer::parse(text).is_err(), "{text}");
    }
}

#[test]
fn it_is_told_why_pods_do_not_reach_an_address() {
    for (text, reason) in [
        ("https://127.0.0.1:6443", "loopback"),
        ("https://[::1]:6443", "loopback"),
        ("https://0.0.0.0:6443", "loopback"),
        ("localhost:6443", "loopback"),
        ("http://10.0.0.1:8080", "plain http"),
        ("https://proxy.example.org/clusters/a", "path"),
    ] {
        let found = ApiServer::parse(text).unwrap().unreachable(text).unwrap().to_string();
        assert!(found.contains(reason), "{text}: {found}");
    }
    for text in ["https://10.0.0.1:6443/", "api.example.org:6443", "https://[fd00::1]"] {
        assert_eq!(ApiServer::parse(text).unwrap().unreachable(text), None, "{text}");
    }
}

#[test]
fn a_token_is_requested_for_its_audience_and_time_and_bound_to_the_pod() {
    let tokens = tokens();
    assert_eq!(
        request(&tokens.tokens[1], "web-0", "u"),
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
            "audiences": ["vault"], "expirationSeconds": 600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "u"},
        }})
    );
    assert_eq!(request(&tokens.tokens[0], "web-0", "u")["spec"].get("audiences"), None, "the API server's own");
}

#[test]
fn what_is_missing_or_due_is_requested_and_nothing_else() {
    let fresh = lives(&[("token-0", 3600, 3607), ("token-1", 590, 600)]);
    for (held, due) in [
        (None, Some(vec![0, 1])),
        (Some(Lives::default()), Some(vec![0, 1])),
        (Some(lives(&[("token-0", 3600, 3607)])), Some(vec![1])),
        (Some(lives(&[("token-0", 100, 3607), ("token-1", 590, 600)])), Some(vec![0])),
        (Some(lives(&[("token-0", -100, 3607), ("token-1", -1, 600)])), Some(vec![0, 1])),
        (Some(fresh.clone()), None),
    ] {
        match plan(&tokens(), "u", held.as_ref(), at(0)) {
            Step::Request(places) => assert_eq!(Some(places), due, "{held:?}"),
            Step::Wait(_) => assert_eq!(due, None, "{held:?}"),
        }
    }
    // The shorter one is due first: 60 to 80 % of 600 s after it was issued ten seconds ago.
    let Step::Wait(until) = plan(&tokens(), "u", Some(&fresh), at(0)) else { panic!("nothing is due") };
    assert!(until >= at(350) && until <= at(470), "{until}");
}

#[test]
fn lives_that_cannot_be_read_are_none() {
    let known = lives(&[("token-0", 0, 3607)]);
    assert_eq!(known.to_text(), r#"{"token-0":{"expires":"2027-01-15T08:00:00Z","seconds":3607}}"#);
    assert_eq!(Lives::noted(Some(&known.to_text())), known);
    for text in [None, Some(""), Some("[]"), Some(r#"{"token-0":{"expires":"soon","seconds":1}}"#)] {
        assert_eq!(Lives::noted(text), Lives::default(), "{text:?}");
    }
    assert_eq!(Tokens::noted(Some(&tokens().to_text())), Some(tokens()));
    assert_eq!(Tokens::noted(Some("{}")), None);
}

fn issued(place: usize) -> Issued {
    Issued { place, token: format!("secret-{place}"), life: Life { expires: at(60), seconds: 600 } }
}

#[test]
fn the_secret_goes_with_the_lower_pod_and_says_whose_tokens_it_holds() {
    let link =
        LinkView { upper_cluster: "5e8e7a2c".to_owned(), virtual_node: "east".to_owned(), ..LinkView::default() };
    let link = LinkView { namespaces: "prefix:acme".parse().unwrap(), ..link };
    let owner = Owner { namespace: "team", name: "web-0", upper_uid: "u", lower_uid: "l" };
    let secret = create(&tokens(), &owner, &[issued(0), issued(1)], &link);
    let life = r#"{"expires":"2027-01-15T08:01:00Z","seconds":600}"#;
    assert_eq!(
        secret,
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": "web-0-tokens-1", "namespace": "acme-team",
                "labels": {"tensile.io/upper-cluster": "5e8e7a2c", "tensile.io/virtual-node": "east",
                    "tensile.io/upper-namespace": "team", "tensile.io/tokens": "true"},
                "annotations": {"tensile.io/upper-name": "team/web-0", "tensile.io/upper-uid": "u",
                    "tensile.io/tokens": format!(r#"{{"token-0":{life},"token-1":{life}}}"#)},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "l"}],
            },
            "stringData": {"token-0": "secret-0", "token-1": "secret-1"},
        })
    );
}

#[test]
fn a_renewed_token_replaces_its_own_and_no_other() {
    let patch = renew("s", &lives(&[("token-0", 0, 3607), ("token-1", 0, 600)]), &[issued(1)]);
    assert_eq!(patch["metadata"]["uid"], "s");
    assert_eq!(patch["stringData"], json!({"token-1": "secret-1"}));
    let noted = Lives::noted(patch["metadata"]["annotations"]["tensile.io/tokens"].as_str());
    assert_eq!(noted, lives(&[("token-0", 0, 3607), ("token-1", 60, 600)]));
}

#[test]
fn a_token_is_not_shown_where_it_is_debugged() {
    assert!(!format!("{:?}", issued(7)).contains("secret"));
}

proptest! {
    /// After 60 to 80 % of its life, or of a day if it lives longer.
    #[test]
    fn a_token_is_renewed_in_the_last_part_of_its_life(seconds in 600_u64..40_000_000, whose in "[0-9a-f]{8}") {
        let life = Life { expires: at(i64::try_from(seconds).unwrap()), seconds };
        let kept = renew_at(&life, &whose).duration_since(at(0)).as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "seconds of a year are far below the limit")]
        let whole = (seconds as f64).min(86_400.0);
        prop_assert!(kept >= whole * 0.6 - 1.0 && kept <= whole * 0.8 + 1.0, "{} of {}", kept, whole);
        prop_assert_eq!(renew_at(&life, &whose), renew_at(&life, &whose));
    }

    /// Whatever is noted on a Secret, and whatever the time is: something is to be done, or waited for.
    #[test]
    fn there_is_always_a_next_step(expires in -300_000_000_000_i64..200_000_000_000, seconds: u64) {
        let Ok(expires) = Timestamp::from_second(expires) else { return Ok(()) };
        let mut held = Lives::default();
        for key in ["token-0", "token-1"] {
            held.insert(key.to_owned(), Life { expires, seconds });
        }
        match plan(&tokens(), "u", Some(&held), at(0)) {
            Step::Request(places) => prop_assert!(!places.is_empty()),
            Step::Wait(until) => prop_assert!(until > at(0)),
        }
    }
}

/// Pods that were made together do not come back together: each tenth of the time between gets about a tenth of them.
#[test]
fn renewals_of_pods_that_were_made_together_are_spread() {
    let life = Life { expires: at(3607), seconds: 3607 };
    let mut tenths = [0_u32; 10];
    for pod in 0..10_000 {
        // UIDs are random; these differ only where it is hardest for a hash.
        let uid = format!("5e8e7a2c-0000-4000-8000-{pod:012}");
        let kept = renew_at(&life, &format!("{uid}/token-0")).duration_since(at(0));
        let part = (kept - SignedDuration::from_secs(2164)).as_secs() * 10 / 722;
        tenths[usize::try_from(part.clamp(0, 9)).unwrap()] += 1;
    }
    assert!(tenths.iter().all(|count| (800..1200).contains(count)), "{tenths:?}");
}
