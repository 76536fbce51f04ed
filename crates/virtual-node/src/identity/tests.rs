// SPDX-License-Identifier: Apache-2.0
//! Many pods at the pace that is kept.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tensile_core::identity::{Life, Lives, Step, Token, Tokens, key, plan};
use tensile_runtime::clients::TokenBucket;
use tokio::time::Instant;

use super::RENEWALS_PER_SECOND;

/// Ten thousand pods that were made in one minute, for half a day: no second has more than twenty requests, and no token
/// runs out.
#[test]
fn ten_thousand_pods_renew_their_tokens_without_a_burst_and_in_time() {
    const PODS: u32 = 10_000;
    const LIFE: u64 = 3607;
    let (start, clock) = (Instant::now(), Timestamp::from_second(1_800_000_000).unwrap());
    let time = |at: Duration| clock + SignedDuration::try_from(at).unwrap();
    let tokens = Tokens {
        secret: "s".to_owned(),
        account: "a".to_owned(),
        tokens: vec![Token { audience: String::new(), seconds: LIFE }],
    };
    let uid = |pod: u32| format!("5e8e7a2c-1111-4222-8333-{:012x}", u64::from(pod) * 2_654_435_761);
    let issued = |at: Duration| {
        let mut held = Lives::default();
        held.insert(key(0), Life { expires: time(at + Duration::from_secs(LIFE)), seconds: LIFE });
        held
    };
    let due = |pod: u32, at: Duration| match plan(&tokens, &uid(pod), Some(&issued(at)), time(at)) {
        Step::Wait(until) => Duration::try_from(until.duration_since(clock)).unwrap(),
        Step::Request(_) => panic!("a new token is due"),
    };

    let mut bucket = TokenBucket::new(RENEWALS_PER_SECOND, 1, start);
    let mut waiting: BinaryHeap<Reverse<(Duration, u32, Duration)>> = BinaryHeap::new();
    for pod in 0..PODS {
        let made = Duration::from_secs(60) * pod / PODS;
        waiting.push(Reverse((due(pod, made), pod, made + Duration::from_secs(LIFE))));
    }
    let (mut requests, mut now) = (Vec::new(), Duration::ZERO);
    while let Some(Reverse((due_at, pod, expires))) = waiting.pop() {
        now = now.max(due_at);
        if now > Duration::from_secs(12 * 3600) {
            break;
        }
        while let Err(wait) = bucket.take(start + now) {
            now += wait.max(Duration::from_nanos(1));
        }
        assert!(now < expires, "the token of pod {pod} ran out at {expires:?}, and it is {now:?}");
        requests.push(now);
        waiting.push(Reverse((due(pod, now), pod, now + Duration::from_secs(LIFE))));
    }

    let busiest =
        requests.iter().zip(requests.iter().skip(20)).map(|(first, last)| last.saturating_sub(*first)).min().unwrap();
    assert!(busiest >= Duration::from_millis(999), "21 requests within {busiest:?}");
    // Twelve hours are between 15 and 20 lives of which 60 to 80 % pass.
    assert!((130_000..200_000).contains(&requests.len()), "{}", requests.len());
}
