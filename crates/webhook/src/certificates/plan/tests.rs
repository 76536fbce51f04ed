// SPDX-License-Identifier: Apache-2.0
//! The plan, by a table, and lived through from the first day on.

use super::*;

const SETTLE: SignedDuration = SignedDuration::from_secs(10);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn validity(from: i64, until: i64) -> Validity {
    Validity { from: at(from), until: at(until) }
}

fn leaf(from: i64, until: i64, issuer: Option<usize>) -> LeafFacts {
    LeafFacts { validity: validity(from, until), issuer, fits: true }
}

#[test]
fn the_next_step_follows_from_what_is_held_what_was_told_and_the_time() {
    let one = || vec![validity(0, 900)];
    let two = || vec![validity(600, 1500), validity(0, 900)];
    let misfit = || Some(LeafFacts { fits: false, ..leaf(0, 300, Some(0)) });
    let wait = |second| Action::Wait(at(second));
    let table = [
        ("nothing is there", vec![], None, None, 0, Action::Begin),
        ("a leaf without a CA", vec![], Some(leaf(0, 300, None)), None, 0, Action::Begin),
        ("the only CA has ended", one(), Some(leaf(0, 300, Some(0))), Some(0), 901, Action::Begin),
        ("a CA without a leaf", one(), None, None, 0, Action::Issue),
        ("a leaf of an unknown CA", one(), Some(leaf(0, 300, None)), Some(0), 1, Action::Issue),
        ("a leaf for other names", one(), misfit(), Some(0), 1, Action::Issue),
        ("a fresh leaf", one(), Some(leaf(0, 300, Some(0))), Some(0), 1, wait(200)),
        ("a fresh leaf, and nobody was told yet", one(), Some(leaf(0, 300, Some(0))), None, 1, wait(200)),
        ("two thirds of the leaf's life", one(), Some(leaf(0, 300, Some(0))), Some(0), 200, Action::Issue),
        ("an ended leaf", one(), Some(leaf(0, 300, Some(0))), Some(0), 301, Action::Issue),
        ("its last second", one(), Some(leaf(0, 300, Some(0))), None, 300, Action::Issue),
        ("a clock that is behind", one(), Some(leaf(0, 300, Some(0))), Some(0), -100, wait(200)),
        ("the CA's turn comes before the leaf's", one(), Some(leaf(500, 800, Some(0))), Some(0), 550, wait(600)),
        ("two thirds of the CA's life", one(), Some(leaf(500, 800, Some(0))), Some(0), 600, Action::AddCa),
        ("both are due: the CA first", one(), Some(leaf(400, 700, Some(0))), Some(0), 600, Action::AddCa),
        ("a new CA that nobody was told of", two(), Some(leaf(500, 800, Some(1))), None, 601, wait(801)),
        ("a new CA that was told just now", two(), Some(leaf(500, 800, Some(1))), Some(601), 605, wait(611)),
        ("a new CA that all have heard of", two(), Some(leaf(500, 800, Some(1))), Some(601), 611, Action::Issue),
        ("waiting no longer than the leaf lives", two(), Some(leaf(500, 800, Some(1))), Some(795), 797, wait(801)),
        ("the old leaf ended, nothing to lose", two(), Some(leaf(500, 800, Some(1))), None, 801, Action::Issue),
        ("the new CA signs, the old one is told on", two(), Some(leaf(611, 911, Some(0))), Some(601), 620, wait(811)),
        ("until it ends", two(), Some(leaf(811, 1111, Some(0))), Some(601), 850, wait(901)),
        ("the old CA has ended", two(), Some(leaf(811, 1111, Some(0))), Some(601), 901, Action::Forget),
    ];
    for (case, cas, leaf, told, now, expected) in table {
        assert_eq!(plan(&Facts { cas, leaf }, told.map(at), SETTLE, at(now)), expected, "{case}");
    }
}

/// What replicas and API servers do around the plan, second by second.
struct World {
    ca_life: i64,
    leaf_life: i64,
    facts: Facts,
    /// The CAs that API servers know, which is what they were told some time ago.
    known: Vec<(i64, Vec<Validity>)>,
    told: Option<Timestamp>,
}

impl World {
    fn act(&mut self, now: i64) -> Action {
        let action = plan(&self.facts, self.told, SETTLE, at(now));
        let ca = validity(now, now + self.ca_life);
        match action {
            Action::Begin => self.facts = Facts { cas: vec![ca], leaf: Some(self.sign(ca, now)) },
            Action::AddCa => {
                self.facts.cas.insert(0, ca);
                self.facts.leaf =
                    self.facts.leaf.map(|leaf| LeafFacts { issuer: leaf.issuer.map(|at| at + 1), ..leaf });
            }
            Action::Issue => self.facts.leaf = Some(self.sign(self.facts.cas[0], now)),
            Action::Forget => self.facts.cas.retain(|ca| at(now) <= ca.until),
            Action::Wait(_) => return action,
        }
        if self.known.last().is_none_or(|(_, known)| *known != self.facts.cas) {
            if self.known.last().is_none_or(|(_, known)| known.first() != self.facts.cas.first()) {
                self.told = Some(at(now));
            }
            self.known.push((now, self.facts.cas.clone()));
        }
        action
    }

    fn sign(&self, ca: Validity, now: i64) -> LeafFacts {
        leaf(now, (now + self.leaf_life).min(ca.until.as_second()), Some(0))
    }

    /// Whether an API server that hears of things `late` seconds after they are told accepts what is served.
    fn accepts(&self, now: i64, late: i64) -> bool {
        let heard = self.known.iter().rev().find(|(told, _)| told + late <= now);
        let (Some((_, heard)), Some(leaf)) = (heard, self.facts.leaf) else { return false };
        let issuer = self.facts.cas[leaf.issuer.unwrap()];
        let valid = |validity: Validity| validity.from <= at(now) && at(now) <= validity.until;
        heard.contains(&issuer) && valid(issuer) && valid(leaf.validity)
    }
}

#[test]
fn over_many_rotations_every_api_server_that_hears_within_the_settling_time_trusts_what_is_served() {
    for (ca_life, leaf_life) in [(900, 300), (300, 30), (1000, 333), (100, 33)] {
        let mut world = World { ca_life, leaf_life, facts: Facts::default(), known: Vec::new(), told: None };
        let mut seen = [0; 4];
        for now in 0..20 * ca_life {
            loop {
                match world.act(now) {
                    Action::Begin => seen[0] += 1,
                    Action::AddCa => seen[1] += 1,
                    Action::Issue => seen[2] += 1,
                    Action::Forget => seen[3] += 1,
                    Action::Wait(until) => {
                        assert!(at(now) < until, "nothing is waited for that has come");
                        break;
                    }
                }
            }
            for late in [0, 3, SETTLE.as_secs()] {
                let since_start = now >= late;
                assert_eq!(world.accepts(now, late), since_start, "{ca_life}/{leaf_life} at {now}, {late} s late");
            }
            assert!(world.facts.cas.len() <= 2, "at most two CAs are told");
        }
        assert_eq!(seen[0], 1, "one beginning");
        assert!(seen[1] > 25 && seen[3] > 25 && seen[2] > 80, "{seen:?}");
    }
}
