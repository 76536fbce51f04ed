// SPDX-License-Identifier: Apache-2.0
//! Pods without a controller: deleted and made again, with a journal, so that a kill at any step loses and doubles none.
//!
//! A move is written down ([`Journal`]) with all that is needed to make the pod again, before anything is done to it. What
//! comes next follows from the journal and the pod as they are ([`step`]): whoever was killed goes on where it was.
//!
//! - [`names::MOVE`](crate::names::MOVE), a finalizer, keeps the old pod until its end was seen, and tells a pod that somebody
//!   else deleted from one that we did.
//! - It is deleted by an eviction, which leaves a mark on it that a deletion by its owner does not; it must be the very
//!   version that was looked at.
//! - When its kubelet has said that nothing of it runs any more, the finalizer goes; when it is gone, its successor is
//!   made under its name, with the annotation [`names::ORIGIN_UID`](crate::names::ORIGIN_UID), and held by the same finalizer
//!   until the journal is closed: should it be deleted in between, it is not made a third time.
//!
//! One thing cannot be told: a deletion by its owner *after* our eviction leaves no mark. Such a pod comes again.

mod journal;
mod manifest;
#[cfg(test)]
mod tests;

pub use self::journal::{Journal, JournalError, State};
pub use self::manifest::{checked, placed, sanitized};
use super::Pod;

/// The pod of the journal's name, as it is.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// It.
    pub pod: &'a Pod,
    /// It would be made again as the journal has it.
    pub same: bool,
}

/// The next step of a move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Put the finalizer on the old pod.
    Keep,
    /// It has changed: write it down anew.
    Rewrite,
    /// Write down that it is deleted from here on, in the version it has.
    Commit,
    /// Evict it in that version.
    Evict,
    /// It has changed since: write down that it is not deleted yet.
    Reconsider,
    /// Take the finalizer off the old pod: nothing of it runs any more.
    Release,
    /// Make its successor.
    Create,
    /// Close the journal.
    Close(End),
    /// Something will be heard of.
    Wait,
}

/// How a move ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its successor is there.
    Moved,
    /// Somebody else deleted the pod.
    Withdrawn,
    /// It started, or finished, where it was.
    Started,
    /// Somebody else made a pod of its name.
    Taken,
}

/// The next step of the move in `journal`, `pod` being the one of its name, if there is one.
pub fn step(journal: &Journal, pod: Option<Sight<'_>>) -> Step {
    let Some(Sight { pod, same }) = pod else {
        return match journal.state {
            State::Prepared => Step::Close(End::Withdrawn),
            State::Deleting { .. } => Step::Create,
        };
    };
    if *pod.uid != *journal.uid {
        let is_successor = pod.origin.as_deref() == Some(&*journal.uid);
        return Step::Close(if is_successor { End::Moved } else { End::Taken });
    }
    match &journal.state {
        State::Prepared if pod.deleting => Step::Close(End::Withdrawn),
        State::Prepared if pod.started || pod.finished() => Step::Close(End::Started),
        State::Prepared if !pod.kept => Step::Keep,
        State::Prepared if !same => Step::Rewrite,
        State::Prepared => Step::Commit,
        State::Deleting { version } if !pod.deleting => {
            if version.parse() == Ok(pod.resource_version) {
                Step::Evict
            } else {
                Step::Reconsider
            }
        }
        State::Deleting { .. } if !pod.evicted => Step::Close(End::Withdrawn),
        // What has finished well never runs again.
        State::Deleting { .. } if pod.phase == super::Phase::Succeeded => Step::Close(End::Started),
        State::Deleting { .. } if pod.ended && pod.kept => Step::Release,
        State::Deleting { .. } => Step::Wait,
    }
}
