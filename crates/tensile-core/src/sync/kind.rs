// SPDX-License-Identifier: Apache-2.0
//! The kinds of objects that pods read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of object that pods read, and that is copied for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// A ConfigMap.
    #[serde(rename = "configmaps")]
    ConfigMap,
    /// A Secret.
    #[serde(rename = "secrets")]
    Secret,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::ConfigMap, Self::Secret];

    /// As in `kind:`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    /// As in URLs and roles.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
        }
    }

    /// The members that go down, beside name and type.
    pub(super) fn content(self) -> &'static [&'static str] {
        match self {
            Self::ConfigMap => &["data", "binaryData", "immutable"],
            Self::Secret => &["data", "immutable"],
        }
    }
}

impl fmt::Display for Kind {
    /// As the kubelet speaks of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        })
    }
}
