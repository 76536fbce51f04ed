// SPDX-License-Identifier: Apache-2.0
//! Several candidates on one lease whose server refuses outdated writes: never two leaders at a time.

use proptest::prelude::*;

use super::*;

fn terms(identity: &str) -> Terms {
    Terms::new("lease", identity)
}

/// What an API server does with one object.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
}

impl Server {
    fn answer(&mut self, request: &Request) -> Answer {
        let version = |lease: &Lease| lease.metadata.resource_version.clone();
        match request {
            Request::Get => match &self.lease {
                Some(lease) => Answer::Lease(Box::new(lease.clone())),
                None => Answer::NotFound,
            },
            Request::Create(_) if self.lease.is_some() => Answer::Failed,
            Request::Replace(lease) if self.lease.as_ref().is_none_or(|held| version(held) != version(lease)) => {
                Answer::Failed
            }
            Request::Create(lease) | Request::Replace(lease) => {
                self.version += 1;
                let mut stored = (**lease).clone();
                stored.metadata.resource_version = Some(self.version.to_string());
                self.lease = Some(stored.clone());
                Answer::Lease(Box::new(stored))
            }
        }
    }

    fn holder(&self) -> String {
        self.lease.as_ref().unwrap().spec.as_ref().unwrap().holder_identity.clone().unwrap()
    }

    fn transitions(&self) -> Option<i32> {
        self.lease.as_ref().unwrap().spec.as_ref().unwrap().lease_transitions
    }
}

/// One try: requests until one is not due at once.
fn attempt(candidate: &mut Candidate, server: &mut Server, now: Instant) {
    for _ in 0..4 {
        let request = candidate.request(now, Timestamp::UNIX_EPOCH);
        let answer = server.answer(&request);
        if !candidate.answered(&request, answer, now) {
            return;
        }
    }
    panic!("it never rests");
}

fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn the_first_makes_the_lease_and_leads_and_the_second_waits_until_it_runs_out() {
    let (mut server, start) = (Server::default(), Instant::now());
    let (mut a, mut b) = (Candidate::new(terms("a")), Candidate::new(terms("b")));
    attempt(&mut a, &mut server, start);
    assert!(a.leads(start) && server.transitions() == Some(0));
    attempt(&mut b, &mut server, start + secs(1));
    assert!(!b.leads(start + secs(1)));
    // `b` saw it at 1 s: its 15 s end at 16 s.
    attempt(&mut b, &mut server, start + secs(16));
    assert!(!b.leads(start + secs(16)));
    attempt(&mut b, &mut server, start + secs(17));
    assert!(b.leads(start + secs(17)) && server.transitions() == Some(1));
    assert!(!a.leads(start + secs(10)), "it gave up in time");
}

#[test]
fn a_leader_renews_with_one_request_and_stays() {
    let (mut server, start) = (Server::default(), Instant::now());
    let mut a = Candidate::new(terms("a"));
    attempt(&mut a, &mut server, start);
    let (at, sent) = (start + secs(2), a.request(start + secs(2), Timestamp::UNIX_EPOCH));
    assert!(matches!(sent, Request::Replace(_)));
    let answer = server.answer(&sent);
    assert!(!a.answered(&sent, answer, at));
    assert!(a.leads(start + secs(11)) && server.transitions() == Some(0));
}

#[test]
fn what_is_given_back_is_taken_at_once() {
    let (mut server, start) = (Server::default(), Instant::now());
    let (mut a, mut b) = (Candidate::new(terms("a")), Candidate::new(terms("b")));
    attempt(&mut a, &mut server, start);
    let released = a.release(start, Timestamp::UNIX_EPOCH).unwrap();
    server.answer(&Request::Replace(released));
    attempt(&mut b, &mut server, start + secs(1));
    assert!(b.leads(start + secs(1)));
    assert_eq!(server.holder(), "b");
}

#[test]
fn who_does_not_lead_gives_nothing_back() {
    let (mut server, start) = (Server::default(), Instant::now());
    let (mut a, mut b) = (Candidate::new(terms("a")), Candidate::new(terms("b")));
    attempt(&mut a, &mut server, start);
    attempt(&mut b, &mut server, start);
    assert!(b.release(start, Timestamp::UNIX_EPOCH).is_none());
    assert!(a.release(start + secs(10), Timestamp::UNIX_EPOCH).is_none(), "it is too late");
}

#[test]
fn a_lost_answer_is_no_leadership_until_the_lease_was_read_again() {
    let (mut server, start) = (Server::default(), Instant::now());
    let mut a = Candidate::new(terms("a"));
    let get = a.request(start, Timestamp::UNIX_EPOCH);
    let answer = server.answer(&get);
    assert!(a.answered(&get, answer, start), "there is none: it is made at once");
    let create = a.request(start, Timestamp::UNIX_EPOCH);
    server.answer(&create);
    assert!(!a.answered(&create, Answer::Failed, start) && !a.leads(start));
    attempt(&mut a, &mut server, start + secs(2));
    assert!(a.leads(start + secs(2)), "it is our own");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Tries of three candidates at any times, with answers that are lost before or after they took effect.
    #[test]
    fn there_are_never_two_leaders(steps in prop::collection::vec((0..3_usize, 0..4000_u64, 0..10_u8), 1..200)) {
        let (mut server, mut now, mut time) = (Server::default(), Instant::now(), Timestamp::UNIX_EPOCH);
        let mut candidates = ["a", "b", "c"].map(|name| Candidate::new(terms(name)));
        for (who, wait, luck) in steps {
            now += Duration::from_millis(wait);
            // The wall clock goes on too: by it a renewal is seen.
            time += Duration::from_millis(wait + 1);
            let candidate = &mut candidates[who];
            let sent = candidate.request(now, time);
            let answer = match luck {
                0 => Answer::Failed,
                1 => {
                    server.answer(&sent);
                    Answer::Failed
                }
                _ => server.answer(&sent),
            };
            candidate.answered(&sent, answer, now);
            let leaders = candidates.iter().filter(|candidate| candidate.leads(now)).count();
            prop_assert!(leaders <= 1, "{leaders} lead");
        }
    }
}
