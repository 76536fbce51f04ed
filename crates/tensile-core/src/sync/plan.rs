// SPDX-License-Identifier: Apache-2.0
//! The decision for one object: from what is upstairs and what is below to the one thing to do next.

/// A version of an object upstairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its UID: an object that was deleted and made again is another one.
    pub uid: String,
    /// Its `resourceVersion`.
    pub revision: String,
}

/// What is known of the object upstairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Upper {
    /// Nothing for certain.
    #[default]
    Unknown,
    /// It does not exist.
    Absent,
    /// It exists.
    Present(Version),
}

/// A copy of ours in the lower cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Its name, which need not be the one upstairs.
    pub name: String,
    /// Its own version.
    pub version: Version,
    /// What it is a copy of.
    pub of: Version,
}

/// What is to be done for one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the upper API server for it.
    Look,
    /// Make the copy.
    Create,
    /// Bring the copy up to date.
    Update,
    /// Remove the copy.
    Delete,
}

/// What to do next for an object; `None` when all is as it should be. `wanted`: a pod refers to it.
///
/// A copy is removed only when it is certain that there is nothing to copy (an object that a list did not name is asked
/// for first), or when nobody needs it. Another object of the same name is a new copy and not a change of this one:
/// its type may differ, and what is immutable cannot become it.
#[must_use]
pub fn plan(upper: &Upper, copy: Option<&Copy>, wanted: bool) -> Option<Action> {
    match (upper, copy) {
        _ if !wanted => copy.map(|_| Action::Delete),
        (Upper::Unknown, _) => Some(Action::Look),
        (Upper::Absent, None) => None,
        (Upper::Present(_), None) => Some(Action::Create),
        (Upper::Present(upper), Some(copy)) if copy.of == *upper => None,
        (Upper::Present(upper), Some(copy)) if copy.of.uid == upper.uid => Some(Action::Update),
        (Upper::Absent | Upper::Present(_), Some(_)) => Some(Action::Delete),
    }
}
