// SPDX-License-Identifier: Apache-2.0
//! Whose metrics count: our pods below, by the names they have there.

use std::{collections::BTreeSet, sync::Arc};

use foldhash::HashMap;

use super::Millis;

/// A pod of ours that has a node below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Namespace above.
    pub namespace: Arc<str>,
    /// Name above.
    pub name: Arc<str>,
    /// Namespace and name below.
    pub below: (Arc<str>, Arc<str>),
    /// UID above.
    pub uid: Arc<str>,
    /// UID below.
    pub lower_uid: Box<str>,
    /// The node below.
    pub lower_node: Arc<str>,
    /// When its kubelet took it.
    pub since: Option<Millis>,
    /// Since when each of its containers runs, for those that do.
    pub running: Box<[(Box<str>, Millis)]>,
}

impl Member {
    /// Since when a container runs; `None` when it does not.
    pub fn started(&self, container: &str) -> Option<Millis> {
        self.running.iter().find(|(name, _)| **name == *container).map(|(_, since)| *since)
    }
}

/// Our pods below, as of one moment.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    /// By namespace and name below.
    members: HashMap<Arc<str>, HashMap<Arc<str>, Member>>,
}

impl FromIterator<Member> for Roster {
    /// A member with a name or UID that no API server would accept is left out: names are written into metrics and
    /// paths as they are.
    fn from_iter<T: IntoIterator<Item = Member>>(members: T) -> Self {
        let mut roster = Self::default();
        for member in members {
            let Member { namespace, name, below, uid, lower_node, .. } = &member;
            if [namespace, name, &below.0, &below.1, uid, lower_node].into_iter().all(|text| is_plain(text)) {
                let namespace = roster.members.entry(below.0.clone()).or_default();
                namespace.insert(below.1.clone(), member);
            }
        }
        roster
    }
}

impl Roster {
    /// The pod of this name below.
    pub fn find(&self, namespace: &str, name: &str) -> Option<&Member> {
        self.members.get(namespace)?.get(name)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.members.values().flat_map(HashMap::values)
    }

    /// The nodes below that run them.
    pub fn nodes(&self) -> BTreeSet<Arc<str>> {
        self.iter().map(|member| member.lower_node.clone()).collect()
    }

    /// Their namespaces below.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        self.members.keys().map(|namespace| &**namespace).collect()
    }

    /// UIDs above.
    pub fn uids(&self) -> foldhash::HashSet<&str> {
        self.iter().map(|member| &*member.uid).collect()
    }
}

/// Letters, digits, `-` and `.`: what names and UIDs are made of, and what needs no escape in any format.
pub(super) fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}
