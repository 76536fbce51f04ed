// SPDX-License-Identifier: Apache-2.0
//! Which source is asked when.

use super::super::*;

fn found(kubelet: bool, metrics_api: bool, prometheus: bool) -> Found {
    let known = |there: bool, why: &str| if there { Ok(()) } else { Err(why.to_owned()) };
    Found { kubelet: known(kubelet, "may not"), metrics_api: known(metrics_api, "is not there"), prometheus }
}

#[test]
fn the_best_source_there_is_is_taken_and_what_was_passed_over_is_told() {
    for (found, source, reason) in [
        (found(true, true, true), Source::Kubelet, "it is the best there is"),
        (found(false, true, true), Source::MetricsApi, "kubelet: may not"),
        (found(false, false, true), Source::Prometheus, "kubelet: may not; metrics-api: is not there"),
        (found(false, false, false), Source::None, "kubelet: may not; metrics-api: is not there"),
    ] {
        assert_eq!(choose(Wanted::Auto, &found), Choice { source, reason: reason.to_owned() });
    }
}

#[test]
fn what_was_asked_for_is_taken_whatever_there_is() {
    for source in Source::ALL {
        assert_eq!(choose(Wanted::Only(source), &found(true, true, true)).source, source);
        assert_eq!(choose(Wanted::Only(source), &found(false, false, false)).source, source);
    }
}

#[test]
fn every_source_has_a_name_that_is_understood() {
    for (text, wanted) in [
        ("auto", Wanted::Auto),
        ("kubelet", Wanted::Only(Source::Kubelet)),
        ("metrics-api", Wanted::Only(Source::MetricsApi)),
        ("prometheus", Wanted::Only(Source::Prometheus)),
        ("none", Wanted::Only(Source::None)),
    ] {
        assert_eq!(text.parse(), Ok(wanted));
    }
    assert_eq!("Kubelet".parse::<Wanted>(), Err(UnknownSource));
}
