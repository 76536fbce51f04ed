// SPDX-License-Identifier: Apache-2.0
//! The decision: from a pod upstairs and its counterpart at the provider to the one thing to do next.
//!
//! Pure and level-triggered: it looks at what is, never at what happened, so a missed or repeated event changes
//! nothing. What is not known for certain (an object that a list did not name) leads to a question, never to a deletion.

use super::{Grace, upper::UpperPod};

/// The shortest grace that is passed on, in seconds. A forced deletion upstairs means "kill at once", not "forget": with
/// none at all the provider's object, and with it the name, would be free before the containers have ended.
const SHORTEST_GRACE: i64 = 1;

/// How long after its announced end a pod that nobody wants any more is waited for before it is forgotten, in seconds.
const OVERDUE: i64 = 30;

/// What is known of the pod upstairs.
#[derive(Clone, Debug)]
pub(crate) enum Upper {
    /// Not seen, or missing from a list: it may exist.
    Unknown,
    /// It is known not to exist.
    Gone,
    /// It exists.
    Present(UpperPod),
}

/// What is known of the pod at the provider.
#[derive(Clone, Debug)]
pub(crate) enum Lower {
    /// Not seen, or missing from a list: it may exist.
    Unknown,
    /// It is known not to exist.
    Gone,
    /// It exists.
    Present(LowerPod),
}

/// The digest of a pod at the provider.
#[derive(Clone, Debug)]
pub(crate) struct LowerPod {
    /// See [`super::ProviderPod::applied`].
    pub(crate) applied: Option<u64>,
    /// See [`super::ProviderPod::ending_by`].
    pub(crate) ending_by: Option<i64>,
    /// Succeeded or Failed.
    pub(crate) terminal: bool,
    /// It is marked as disrupted.
    pub(crate) disrupted: bool,
    /// Hash of the status that should be shown upstairs.
    pub(crate) hash: u64,
}

/// What a process remembers of a pair; all of it may be lost without harm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// Its containers may have run.
    pub(crate) ran: bool,
    /// The status last sent, and what the API server made of it: an older one drops fields that it does not know, and
    /// must not be sent the same for ever.
    pub(crate) sent: Option<Sent>,
    /// The grace with which the provider was last asked to end the pod.
    pub(crate) asked_to_end: Option<Grace>,
    /// The upper object was told to go; it stays only for finalizers of others.
    pub(crate) finalized: bool,
    /// The refusal that is shown upstairs.
    pub(crate) refusal: Option<u64>,
}

/// One status on its way and its echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) hash: u64,
    pub(crate) disrupted: bool,
    pub(crate) generation: i64,
    pub(crate) echo: u64,
}

/// The situation of one pair.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) upper: Upper,
    pub(crate) lower: Lower,
    pub(crate) memory: Memory,
    /// The provider's pod is gone, but how it ended was heard and is not shown yet.
    pub(crate) last_words: bool,
    /// The API server has told all upper pods at least once.
    pub(crate) upper_synced: bool,
    /// The provider has told all its pods at least once.
    pub(crate) provider_synced: bool,
}

/// The next step for a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// All is as it should be, or something is under way that will be heard of.
    Nothing,
    /// Nothing now; look again after so many seconds.
    LookAgain(i64),
    /// Both are gone: forget the pair.
    Forget,
    /// Ask the API server whether the upper pod exists.
    AskUpper,
    /// Ask the provider whether it has the pod.
    AskProvider,
    /// Have the provider run it.
    Create,
    /// Have the provider take over what changed.
    Update,
    /// Show the provider's status upstairs.
    Report,
    /// Show upstairs that the pod was lost.
    ReportLost,
    /// Have the provider end it.
    End(Grace),
    /// Remove the upper object: nothing of it runs any more. With a last status when somebody waits for it.
    Finalize {
        /// A terminal status has to be shown first.
        report: bool,
    },
}

impl Action {
    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::LookAgain(_) => "look_again",
            Self::Forget => "forget",
            Self::AskUpper => "ask_upper",
            Self::AskProvider => "ask_provider",
            Self::Create => "create",
            Self::Update => "update",
            Self::Report => "report",
            Self::ReportLost => "report_lost",
            Self::End(_) => "end",
            Self::Finalize { .. } => "finalize",
        }
    }
}

/// The next step for `pair` at `now` (seconds since the epoch).
pub(crate) fn plan(pair: &Pair, now: i64) -> Action {
    match (&pair.upper, &pair.lower) {
        // The list that is under way will tell.
        (Upper::Unknown, _) if !pair.upper_synced => Action::Nothing,
        (Upper::Unknown | Upper::Gone, Lower::Gone) => Action::Forget,
        (Upper::Unknown | Upper::Gone, Lower::Unknown) if pair.provider_synced => Action::Forget,
        (_, Lower::Unknown) if !pair.provider_synced => Action::Nothing,
        (Upper::Unknown, _) => Action::AskUpper,
        (Upper::Gone, Lower::Present(lower)) => unwanted(lower, &pair.memory, Grace::OfPod, now),
        (Upper::Gone, Lower::Unknown) => Action::Forget,
        (Upper::Present(upper), lower) => match upper.deleting {
            _ if pair.last_words && !upper.shown.terminal() => Action::Report,
            Some(grace) => leaving(upper, grace, lower, &pair.memory, now),
            None if upper.shown.terminal() => finished(lower, &pair.memory, now),
            None => wanted(upper, lower, pair),
        },
    }
}

/// The upper pod should run.
fn wanted(upper: &UpperPod, lower: &Lower, pair: &Pair) -> Action {
    match lower {
        Lower::Present(lower) => {
            let current = lower.applied.is_none_or(|applied| applied == upper.revision);
            if !current && !lower.terminal && lower.ending_by.is_none() {
                Action::Update
            } else if differs(upper, lower, &pair.memory) || is_stale(upper, &pair.memory) {
                Action::Report
            } else {
                Action::Nothing
            }
        }
        // A pod that may have run never runs again; that it is lost must be certain.
        Lower::Gone if upper.shown.started() || pair.memory.ran => Action::ReportLost,
        Lower::Unknown if upper.shown.started() || pair.memory.ran => Action::AskProvider,
        Lower::Gone | Lower::Unknown => Action::Create,
    }
}

/// The upper pod is being deleted: it goes when nothing of it runs any more (Kubernetes `pkg/kubelet/kubelet.go`,
/// `PodCouldHaveRunningContainers`).
fn leaving(upper: &UpperPod, grace: i64, lower: &Lower, memory: &Memory, now: i64) -> Action {
    let report = upper.finalizers && !upper.shown.terminal();
    let forced = grace == 0;
    let grace = grace.max(SHORTEST_GRACE);
    match lower {
        _ if memory.finalized => Action::Nothing,
        Lower::Unknown => Action::AskProvider,
        Lower::Gone => Action::Finalize { report },
        Lower::Present(lower) => {
            if lower.terminal && !upper.shown.terminal() && differs(upper, lower, memory) {
                Action::Report
            } else if asks_less(memory.asked_to_end, grace) {
                Action::End(Grace::Seconds(grace))
            } else if lower.terminal && lower.ending_by.is_some() {
                // A finalizer of somebody else holds the provider's object, but its containers have ended.
                Action::Finalize { report }
            } else if differs(upper, lower, memory) {
                Action::Report
            } else if forced {
                unwanted(lower, memory, Grace::Seconds(grace), now)
            } else {
                Action::Nothing
            }
        }
    }
}

/// Grace can only shrink (Kubernetes `pkg/registry/core/pod/strategy.go`, `CheckGracefulDelete`).
fn asks_less(asked: Option<Grace>, grace: i64) -> bool {
    match asked {
        Some(Grace::Seconds(before)) => grace < before,
        Some(Grace::OfPod) | None => true,
    }
}

/// The upper pod has finished, or was declared to be by somebody upstairs: what still runs of it ends. What has ended
/// stays for its logs until the upper pod goes.
fn finished(lower: &Lower, memory: &Memory, now: i64) -> Action {
    match lower {
        Lower::Present(lower) if !lower.terminal => unwanted(lower, memory, Grace::OfPod, now),
        _ => Action::Nothing,
    }
}

/// Nobody upstairs wants this pod. When its end is long overdue (a lost node below) it is forgotten by force: upstairs
/// it was removed by force as well.
fn unwanted(lower: &LowerPod, memory: &Memory, grace: Grace, now: i64) -> Action {
    match lower.ending_by {
        None if memory.asked_to_end.is_none() => Action::End(grace),
        None => Action::Nothing,
        Some(end) if now < end + OVERDUE => Action::LookAgain(end + OVERDUE - now),
        Some(_) if memory.asked_to_end == Some(Grace::Seconds(0)) => Action::Nothing,
        Some(_) => Action::End(Grace::Seconds(0)),
    }
}

/// Whether the upper pod shows something else than it should. A finished pod is never revived.
fn differs(upper: &UpperPod, lower: &LowerPod, memory: &Memory) -> bool {
    let shown = &upper.shown;
    if shown.terminal() {
        return false;
    }
    let unsent = memory
        .sent
        .is_none_or(|sent| sent.hash != lower.hash || sent.disrupted != lower.disrupted || sent.echo != shown.hash);
    unsent && (shown.hash != lower.hash || (lower.disrupted && !shown.disrupted))
        || (shown.refused && memory.refusal.is_none())
}

/// Whether the upper pod shows a status of an earlier generation, on a server that knows `observedGeneration`. A pod on
/// its way out is not worth the request: its last status tells.
fn is_stale(upper: &UpperPod, memory: &Memory) -> bool {
    let observed = upper.shown.observed_generation;
    !upper.shown.terminal()
        && observed.is_some_and(|observed| observed < upper.generation)
        && memory.sent.is_none_or(|sent| sent.generation != upper.generation)
}

#[cfg(test)]
mod tests;
