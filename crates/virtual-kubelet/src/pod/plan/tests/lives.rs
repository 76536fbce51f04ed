// SPDX-License-Identifier: Apache-2.0
//! Whole lives: a small world (an API server, a provider, containers that count their starts) in which the plan is
//! performed while the process is killed, lists come up short and users delete things on both sides.

use proptest::prelude::*;

use super::*;

/// What is really there.
#[derive(Debug)]
struct World {
    upper: Option<Up>,
    lower: Option<Down>,
    started_once_known: bool,
    revived: bool,
    removed_while_running: bool,
}

#[derive(Debug, Clone)]
struct Up {
    phase: &'static str,
    deleting: bool,
}

#[derive(Debug, Clone)]
struct Down {
    phase: &'static str,
    ending: bool,
}

/// What happens to the world from outside.
#[derive(Debug, Clone, Copy)]
enum Happening {
    /// The process looks and does one step.
    Step,
    /// The process is killed: it forgets everything.
    Kill,
    /// A list upstairs comes up short: that the upper pod exists is no longer certain.
    ShortListAbove,
    /// The same below.
    ShortListBelow,
    /// The first list upstairs is complete.
    ListAbove,
    /// The first list below is complete.
    ListBelow,
    /// The containers get on with their lives.
    Containers,
    /// The containers finish.
    Finish,
    /// A user deletes the upper pod with grace.
    DeleteAbove,
    /// A user deletes the upper pod by force.
    ForceAbove,
    /// Somebody deletes the lower pod.
    DeleteBelow,
}

/// What the process knows; refreshed from the world as watches would.
#[derive(Debug)]
struct Known {
    pair: Pair,
    watches: bool,
}

impl World {
    fn look(&self, known: &mut Known) {
        self.look_above(known);
        self.look_below(known);
    }

    fn look_above(&self, known: &mut Known) {
        if !known.pair.upper_synced {
            return;
        }
        known.pair.upper = match &self.upper {
            Some(up) if up.deleting => deleted(30, json!({"phase": up.phase})),
            Some(up) => upper(json!({}), json!({"phase": up.phase})),
            None => match known.pair.upper {
                Upper::Unknown => Upper::Unknown,
                _ => Upper::Gone,
            },
        };
    }

    fn look_below(&self, known: &mut Known) {
        if !known.pair.provider_synced {
            return;
        }
        known.pair.lower = match &self.lower {
            Some(down) => {
                let mut pod = lower(json!({"phase": down.phase}));
                pod.ending_by = down.ending.then_some(NOW - OVERDUE);
                known.pair.memory.ran |= down.phase != "Pending";
                Lower::Present(pod)
            }
            None => match known.pair.lower {
                Lower::Unknown => Lower::Unknown,
                _ => Lower::Gone,
            },
        };
    }

    fn step(&mut self, known: &mut Known) {
        if known.watches {
            self.look(known);
        }
        known.watches = true;
        match plan(&known.pair, NOW) {
            Action::Nothing | Action::LookAgain(_) | Action::Update | Action::Forget => {}
            Action::AskUpper => {
                known.pair.upper = Upper::Gone;
                self.look(known);
            }
            Action::AskProvider => {
                known.pair.lower = Lower::Gone;
                self.look(known);
            }
            Action::Create => {
                // Idempotent by UID, as providers have to be.
                if self.lower.is_none() {
                    self.lower = Some(Down { phase: "Pending", ending: false });
                }
            }
            Action::Report => {
                if let (Some(up), Some(down)) = (&mut self.upper, &self.lower) {
                    up.phase = down.phase;
                }
            }
            Action::ReportLost => {
                if let Some(up) = &mut self.upper {
                    up.phase = "Failed";
                }
            }
            Action::End(grace) => {
                if let Some(down) = &mut self.lower {
                    down.ending = true;
                    if down.phase == "Pending" || grace == Grace::Seconds(0) {
                        self.lower = None;
                    }
                }
                known.pair.memory.asked_to_end = Some(grace);
            }
            Action::Finalize { .. } => {
                self.removed_while_running |= self.lower.as_ref().is_some_and(|down| down.phase == "Running");
                self.upper = None;
            }
        }
    }

    fn happens(&mut self, happening: Happening, known: &mut Known) {
        let finished = self.upper.as_ref().map(|up| up.phase).filter(|phase| matches!(*phase, "Succeeded" | "Failed"));
        match happening {
            Happening::Step => self.step(known),
            Happening::Kill => *known = unknowing(),
            Happening::ListAbove => known.pair.upper_synced = true,
            Happening::ListBelow => known.pair.provider_synced = true,
            Happening::ShortListAbove => {
                known.pair.upper = Upper::Unknown;
                known.watches = false;
            }
            Happening::ShortListBelow => {
                known.pair.lower = Lower::Unknown;
                known.watches = false;
            }
            Happening::Containers => match &mut self.lower {
                Some(down) if down.ending => self.lower = None,
                Some(down) if down.phase == "Pending" => {
                    down.phase = "Running";
                    self.started_once_known |= self.upper.as_ref().is_some_and(|up| up.phase != "Pending");
                    // The process hears of it, or reads it upstairs later: its own report is a step of its own.
                    self.look(known);
                }
                _ => {}
            },
            Happening::Finish => {
                if let Some(down) = &mut self.lower
                    && down.phase == "Running"
                {
                    down.phase = "Succeeded";
                    self.look(known);
                }
            }
            Happening::DeleteAbove => {
                if let Some(up) = &mut self.upper {
                    up.deleting = true;
                    if up.phase == "Succeeded" || up.phase == "Failed" {
                        self.upper = None; // The API server does not wait for the kubelet.
                    }
                }
            }
            Happening::ForceAbove => {
                self.upper = None;
            }
            Happening::DeleteBelow => {
                if let Some(down) = &mut self.lower {
                    down.ending = true;
                    if down.phase != "Running" {
                        self.lower = None;
                    }
                }
            }
        }
        self.revived |= finished.is_some_and(|before| self.upper.as_ref().is_some_and(|up| up.phase != before));
    }
}

fn unknowing() -> Known {
    let pair = Pair { upper_synced: false, provider_synced: false, ..pair(Upper::Unknown, Lower::Unknown) };
    Known { pair, watches: true }
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        8 => Just(Happening::Step),
        2 => Just(Happening::Kill),
        3 => Just(Happening::ListAbove),
        3 => Just(Happening::ListBelow),
        1 => Just(Happening::ShortListAbove),
        1 => Just(Happening::ShortListBelow),
        4 => Just(Happening::Containers),
        1 => Just(Happening::Finish),
        1 => Just(Happening::DeleteAbove),
        1 => Just(Happening::ForceAbove),
        1 => Just(Happening::DeleteBelow),
    ];
    prop::collection::vec(one, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn nothing_runs_after_it_finished_and_nothing_goes_while_it_runs(script in happenings()) {
        let mut world = World {
            upper: Some(Up { phase: "Pending", deleting: false }), lower: None, started_once_known: false,
            revived: false, removed_while_running: false,
        };
        let mut known = unknowing();
        for happening in script {
            world.happens(happening, &mut known);
            prop_assert!(!world.started_once_known, "a pod that is known to have run was run again");
            prop_assert!(!world.revived, "a finished pod changed its phase");
            prop_assert!(!world.removed_while_running, "the upper pod went while containers ran");
        }
        // Left alone, it settles: what is wanted is there, what is not is gone.
        world.happens(Happening::ListAbove, &mut known);
        world.happens(Happening::ListBelow, &mut known);
        for _ in 0..12 {
            world.step(&mut known);
            if world.lower.as_ref().is_some_and(|down| down.ending || down.phase == "Pending") {
                world.happens(Happening::Containers, &mut known);
            }
        }
        match &world.upper {
            None => prop_assert!(world.lower.is_none(), "an orphan stayed: {:?}", world.lower),
            Some(up) => {
                prop_assert!(!up.deleting, "a deleted pod stayed");
                let below = world.lower.as_ref().map(|down| down.phase);
                prop_assert!(below.is_none_or(|below| below == up.phase) , "shown {} but is {:?}", up.phase, below);
                prop_assert!(below.is_some() || up.phase == "Failed" || up.phase == "Succeeded", "a wanted pod is missing");
            }
        }
    }
}
