// SPDX-License-Identifier: Apache-2.0
//! Why something is not known, for all who wait for the same answer.

use std::{fmt, sync::Arc};

use http::StatusCode;
use virtual_kubelet::server::IoError;

/// A status for those who asked, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) message: Arc<str>,
}

impl Failure {
    /// Whoever was asked is away, or refuses: that is not the asking one's fault.
    pub(super) fn away(message: impl Into<Arc<str>>) -> Self {
        Self { status: StatusCode::BAD_GATEWAY, message: message.into() }
    }

    /// The source does not have this.
    pub(super) fn lacking(message: impl Into<Arc<str>>) -> Self {
        Self { status: StatusCode::NOT_IMPLEMENTED, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Failure> for IoError {
    fn from(failure: Failure) -> Self {
        Self::Refused { status: failure.status, message: failure.message.as_ref().to_owned() }
    }
}
