// SPDX-License-Identifier: Apache-2.0
//! Whose pods an exclusion is about.

use crate::names::fnv1a;

/// Longest key of a ConfigMap's entry, in characters.
const KEY_MAX: usize = 253;

/// Whose pods an exclusion is about: something that stays the same when a pod is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    /// All pods of a controller, by its UID.
    Owner(&'a str),
    /// One of them, by its index: the ordinal in a StatefulSet, the completion index in a Job.
    Member {
        /// UID of the controller.
        owner: &'a str,
        /// The index, in decimal.
        index: &'a str,
    },
    /// A pod without a controller. Its UID changes when it is made again, its name does not.
    Bare {
        /// Its namespace.
        namespace: &'a str,
        /// Its name.
        name: &'a str,
    },
}

impl<'a> Subject<'a> {
    /// Whose pod a pod is: `owner` is the UID of its controller, `index` its index there
    /// ([`names::POD_INDEXES`](crate::names::POD_INDEXES)). A pod without controller and name is nobody's yet.
    pub fn of_pod(owner: Option<&'a str>, index: Option<&'a str>, namespace: &'a str, name: &'a str) -> Vec<Self> {
        match (owner, index) {
            (Some(owner), Some(index)) => vec![Self::Owner(owner), Self::Member { owner, index }],
            (Some(owner), None) => vec![Self::Owner(owner)],
            (None, _) if name.is_empty() => Vec::new(),
            (None, _) => vec![Self::Bare { namespace, name }],
        }
    }

    /// The key of its entry. Different subjects have different keys: UIDs, indexes and namespaces have no dots.
    #[must_use]
    pub fn key(&self) -> String {
        let key = match self {
            Self::Owner(uid) => format!("owner.{uid}"),
            Self::Member { owner, index } => format!("owner.{owner}.{index}"),
            Self::Bare { namespace, name } => format!("pod.{namespace}.{name}"),
        };
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if key.len() <= KEY_MAX && key.bytes().all(fits) {
            return key;
        }
        let head: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(200).collect();
        format!("{head}-{:016x}", fnv1a(key.as_bytes()))
    }
}
