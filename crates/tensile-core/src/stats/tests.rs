// SPDX-License-Identifier: Apache-2.0
//! What kubelets and other sources say, and what may be said of it above.

mod choosing;
mod counting;
mod picking;
mod sources;
mod summaries;

use super::{Member, Millis, Roster};

/// Pod `ns/NAME` above with UID `above-NAME`; below it has UID `below-NAME` and runs on `lower-1`.
fn member(name: &str) -> Member {
    Member {
        namespace: "ns".into(),
        name: name.into(),
        below: ("ns".into(), name.into()),
        uid: format!("above-{name}").into(),
        lower_uid: format!("below-{name}").into(),
        lower_node: "lower-1".into(),
        since: Some(5_000),
        running: [("main".into(), 7_000)].into(),
    }
}

fn roster(names: &[&str]) -> Roster {
    names.iter().map(|name| member(name)).collect()
}

#[test]
fn what_no_api_server_would_accept_is_on_no_roster() {
    let named = |uid: &str| Member { uid: uid.into(), ..member("a") };
    for uid in ["", "a\"b", "a\nb", "a b", "a{"] {
        assert_eq!(Roster::from_iter([named(uid)]).iter().count(), 0, "{uid:?}");
    }
    assert_eq!(Roster::from_iter([named("6e8b-4f.x")]).iter().count(), 1);
}

#[test]
fn numbers_that_are_none_are_not_used() {
    let nanos: Vec<Option<u64>> = [1.5, 0.0, -1.0, f64::NAN, f64::INFINITY, 1e300].map(super::cpu_nanos).into();
    assert_eq!(nanos, [Some(1_500_000_000), Some(0), None, None, None, None]);
    assert_eq!([super::bytes(4096.0), super::bytes(-1.0), super::bytes(f64::NAN)], [Some(4096), None, None]);
}

/// A time that all tests may call now.
const NOW: Millis = 1_700_000_000_000;
