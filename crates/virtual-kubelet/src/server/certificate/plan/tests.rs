// SPDX-License-Identifier: Apache-2.0
//! When what is due, as tables of times.

use super::*;

const START: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).unwrap()
}

fn addresses(one: &str) -> Addresses {
    [one.to_owned()].into()
}

/// A node at 192.0.2.1 that asked at time 0.
fn asked() -> State {
    let mut state = State::new(addresses("192.0.2.1"));
    state.answered(Answer::Begun, at(0), 0.0);
    state.answered(Answer::Sent, at(0), 0.0);
    state
}

/// The same, with a certificate that it got at time 0 and that holds from and until these times.
fn issued(from: i64, until: i64, spread: f64) -> State {
    let mut state = asked();
    state.answered(Answer::Issued(Validity { from: at(from), until: at(until) }), at(0), spread);
    state
}

/// When `state`, left alone, does something else than wait, and what.
fn next(state: &State, mut seconds: i64) -> (i64, Action) {
    loop {
        match state.plan(at(seconds)) {
            Action::Wait(Some(until)) => {
                assert!(until > at(seconds), "it waits for what is over");
                seconds = until.as_second() - START + i64::from(until.subsec_nanosecond() > 0);
            }
            action => return (seconds, action),
        }
    }
}

#[test]
fn a_new_node_asks_at_once_and_sends_what_it_asks() {
    let mut state = State::new(addresses("192.0.2.1"));
    assert_eq!(state.plan(at(0)), Action::Begin);
    state.answered(Answer::Begun, at(0), 0.0);
    assert_eq!(state.plan(at(0)), Action::Send);
    assert!(!state.is_undecided(), "nobody has it");
    state.answered(Answer::Sent, at(0), 0.0);
    assert!(state.is_undecided());
    assert_eq!(next(&state, 0), (1, Action::Look));
}

#[test]
fn a_node_without_an_address_asks_for_nothing() {
    let mut state = State::new(Addresses::new());
    assert_eq!(state.plan(at(0)), Action::Wait(None));
    state.reached_at(addresses("192.0.2.1"));
    assert_eq!(state.plan(at(0)), Action::Begin);
}

#[test]
fn looks_come_after_a_quarter_of_the_requests_age_from_a_second_to_ten() {
    let mut state = asked();
    let mut looks = Vec::new();
    let mut now = 0;
    while now < 100 {
        let (time, action) = next(&state, now);
        assert_eq!(action, Action::Look);
        state.answered(Answer::Undecided, at(time), 0.0);
        looks.push(time - now);
        now = time;
    }
    assert_eq!(looks, [1, 1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 10, 10, 10, 10, 10, 10]);
}

#[test]
fn after_a_quarter_of_an_hour_it_is_told_once_and_looked_at_less_often_for_ever() {
    let mut state = asked();
    let (mut now, mut looks, mut told) = (0, Vec::new(), Vec::new());
    while now < 24 * 3600 {
        let (time, action) = next(&state, now);
        now = time;
        match action {
            Action::Look => {
                looks.push(time);
                state.answered(Answer::Undecided, at(time), 0.0);
            }
            Action::Tell => {
                told.push(time);
                state.answered(Answer::Told, at(time), 0.0);
            }
            other => panic!("{other:?} at {time}"),
        }
    }
    assert_eq!(told, [900]);
    let late: Vec<i64> = looks.windows(2).filter(|pair| pair[1] > 2400).map(|pair| pair[1] - pair[0]).collect();
    assert!(late.len() > 100 && late.iter().all(|pause| *pause == 300), "{late:?}");
}

#[test]
fn a_look_that_failed_is_one_that_saw_nothing() {
    let mut state = asked();
    state.answered(Answer::Away, at(1), 0.0);
    assert_eq!(next(&state, 1), (2, Action::Look));
}

/// (from, until, chance) of what was issued at time 0, and when it is replaced.
#[test]
fn a_certificate_is_replaced_after_70_to_90_percent_of_what_is_left_of_its_life() {
    for (from, until, spread, expected) in [
        (0, 1000, 0.0, 700),
        (0, 1000, 0.5, 800),
        (0, 1000, 1.0, 900),
        // Chance that is none.
        (0, 1000, 7.0, 900),
        // Dated back by five minutes, as the controller manager does it: a life of a minute is left.
        (-300, 60, 0.0, 42),
        (-300, 60, 1.0, 54),
        // By a clock that is ahead of ours.
        (100, 1100, 0.0, 800),
        // A life too short to be true is no reason to ask without a pause.
        (0, 2, 0.0, 10),
        (0, 0, 0.0, 10),
    ] {
        assert_eq!(next(&issued(from, until, spread), 0), (expected, Action::Begin), "{from} {until} {spread}");
    }
}

#[test]
fn a_new_address_needs_a_new_certificate_at_once_and_the_old_address_none() {
    let mut state = issued(0, 1000, 0.0);
    state.reached_at(addresses("192.0.2.1"));
    assert_eq!(next(&state, 5), (700, Action::Begin), "nothing has changed");
    state.reached_at(addresses("192.0.2.2"));
    assert_eq!(state.plan(at(5)), Action::Begin);
    state.answered(Answer::Begun, at(5), 0.0);
    state.answered(Answer::Sent, at(5), 0.0);
    // It changes back before anybody decides: what is asked for is not wanted any more, and what is shown is right.
    state.reached_at(addresses("192.0.2.1"));
    assert_eq!(next(&state, 6), (700, Action::Begin));
}

#[test]
fn a_request_for_an_address_that_is_gone_is_replaced() {
    let mut state = asked();
    state.reached_at(addresses("192.0.2.2"));
    assert_eq!(state.plan(at(1)), Action::Begin);
    assert_eq!(state.addresses(), &addresses("192.0.2.2"));
}

/// Pauses after so many failures in a row, without and with chance.
#[test]
fn a_refusal_is_followed_by_a_new_request_after_five_minutes_and_then_ever_later() {
    let mut state = State::new(addresses("192.0.2.1"));
    let (mut now, mut pauses) = (0, Vec::new());
    for _ in 0..7 {
        state.answered(Answer::Begun, at(now), 0.0);
        state.answered(Answer::Sent, at(now), 0.0);
        state.answered(Answer::Refused, at(now), 0.0);
        assert!(!state.is_undecided());
        let (time, action) = next(&state, now);
        assert_eq!(action, Action::Begin);
        pauses.push(time - now);
        now = time;
    }
    assert_eq!(pauses, [300, 600, 1200, 2400, 3600, 3600, 3600]);
    state.answered(Answer::Refused, at(now), 1.0);
    assert_eq!(next(&state, now).0 - now, 2700, "chance makes it up to a quarter shorter");
}

#[test]
fn a_refusal_counts_for_the_addresses_it_was_about() {
    let mut state = asked();
    state.answered(Answer::Refused, at(0), 0.0);
    state.reached_at(addresses("192.0.2.2"));
    assert_eq!(state.plan(at(1)), Action::Begin);
}

#[test]
fn a_request_that_was_not_taken_is_sent_again_with_the_same_key() {
    let mut state = State::new(addresses("192.0.2.1"));
    state.answered(Answer::Begun, at(0), 0.0);
    let (mut now, mut pauses) = (0, Vec::new());
    for _ in 0..10 {
        state.answered(Answer::Away, at(now), 0.0);
        let (time, action) = next(&state, now);
        assert_eq!(action, Action::Send);
        pauses.push(time - now);
        now = time;
    }
    assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
}

#[test]
fn after_a_certificate_failures_count_anew() {
    let mut state = State::new(addresses("192.0.2.1"));
    state.answered(Answer::Begun, at(0), 0.0);
    for _ in 0..5 {
        state.answered(Answer::Away, at(0), 0.0);
    }
    state.answered(Answer::Sent, at(0), 0.0);
    state.answered(Answer::Issued(Validity { from: at(0), until: at(1000) }), at(0), 0.0);
    state.answered(Answer::Begun, at(700), 0.0);
    state.answered(Answer::Away, at(700), 0.0);
    assert_eq!(next(&state, 700), (702, Action::Send));
}
