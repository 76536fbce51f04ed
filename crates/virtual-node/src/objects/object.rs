// SPDX-License-Identifier: Apache-2.0
//! What is known of one object.

use std::{collections::HashSet, sync::Arc};

use tensile_core::sync::{Copy, Upper, Version};
use tokio::time::Instant;

use super::Trouble;

/// One object.
#[derive(Debug, Default)]
pub(super) struct Object {
    pub(super) upper: Upper,
    pub(super) copy: Option<Copy>,
    /// What the copy is called, once that is decided.
    pub(super) name: Option<String>,
    /// Pods that refer to it, by UID.
    pub(super) users: HashSet<Arc<str>>,
    /// When the last of them went.
    pub(super) unwanted_since: Option<Instant>,
    /// Why it is not settled.
    pub(super) trouble: Option<Trouble>,
    failures: u32,
    /// Counts what was heard of it: an answer that was asked for before is out of date.
    pub(super) heard: u64,
    /// The newest version below that is known to be gone.
    gone: u64,
}

impl Object {
    /// What a watch says of the object upstairs; `None`: that it may be gone. Returns whether that is news.
    pub(super) fn upper_heard(&mut self, version: Option<Version>) -> bool {
        let heard = version.map_or(Upper::Unknown, Upper::Present);
        if let (Upper::Present(known), Upper::Present(heard)) = (&self.upper, &heard)
            && known.uid == heard.uid
            && number(&known.revision) >= number(&heard.revision)
        {
            return false;
        }
        self.heard += 1;
        self.upper = heard;
        true
    }

    /// The answer to a question that was asked when `heard` was the last that was heard.
    pub(super) fn upper_answered(&mut self, heard: u64, answer: Upper) {
        if self.heard == heard {
            self.upper = answer;
        }
    }

    /// A copy as a watch or an answer has it. Returns whether that is news.
    pub(super) fn copy_seen(&mut self, copy: Copy) -> bool {
        let revision = number(&copy.version.revision);
        let known = self.copy.as_ref().map_or(self.gone, |known| number(&known.version.revision));
        if revision <= known {
            return false;
        }
        self.name = Some(copy.name.clone());
        self.copy = Some(copy);
        true
    }

    /// The copy with this UID is gone. Returns whether that is news.
    pub(super) fn copy_gone(&mut self, uid: &str, revision: &str) -> bool {
        self.gone = self.gone.max(number(revision));
        self.copy.take_if(|copy| copy.version.uid == uid).is_some()
    }

    /// Something was settled.
    pub(super) fn progress(&mut self) {
        self.trouble = None;
        self.failures = 0;
    }

    /// Nothing was settled. Returns how often in a row.
    pub(super) fn fails(&mut self, trouble: Trouble) -> u32 {
        self.trouble = Some(trouble);
        self.failures = self.failures.saturating_add(1);
        self.failures
    }
}

/// Revisions are numbers that grow; the API server promises so since 1.35 and has always kept to it.
pub(crate) fn number(revision: &str) -> u64 {
    revision.parse().unwrap_or_default()
}
