// SPDX-License-Identifier: Apache-2.0
//! One lower cluster, kept up to date by its watches.

use std::borrow::Cow;
use std::hash::Hash;

use foldhash::{HashMap, HashSet};

use super::answer::Answer;
use super::ask;
use super::assumed::Assumed;
use super::capacity;
use super::change::{Change, Gain, Kind, Object};
use super::namespaces::Namespaces;
use super::nodes::Nodes;
use super::objects::Node;
use super::pods::Pods;
use super::profile::Profile;
use super::question::Question;
use super::score;
use super::storage::Storage;
use super::text::{Text, Texts};
use super::uid::Uid;

/// What is known of a lower cluster.
///
/// Nothing is said before its nodes and pods were listed: whoever feeds it knows when that is.
#[derive(Debug)]
pub struct Cluster {
    pub(super) profile: Profile,
    pub(super) nodes: Nodes,
    pub(super) pods: Pods,
    pub(super) namespaces: Namespaces,
    pub(super) storage: Storage,
    pub(super) assumed: Assumed,
    /// Nothing has happened since pods on their way looked for a place.
    pub(super) settled: bool,
    pub(super) texts: Texts,
    /// What was listed so far of the kinds that are being listed anew.
    listed: HashMap<Kind, HashSet<Key>>,
}

/// How much is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes.
    pub nodes: usize,
    /// Pods that are bound to a node.
    pub pods: usize,
    /// Pods on their way.
    pub assumed: usize,
    /// Those of them that are bound upstairs and for which there is no room.
    pub owed: usize,
}

/// What tells objects of a kind apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Uid(Uid),
    Name(Text),
    Of(Text, Text),
}

impl Key {
    fn of(object: &Object) -> Self {
        match object {
            Object::Pod(pod) => Self::Uid(pod.uid),
            Object::Node(node) => Self::Name(node.name.clone()),
            Object::Namespace(namespace) => Self::Name(namespace.name.clone()),
            Object::Quota(quota) => Self::Of(quota.namespace.clone(), quota.name.clone()),
            Object::LimitRange(range) => Self::Of(range.namespace.clone(), range.name.clone()),
            Object::Claim(claim) => Self::Of(claim.namespace.clone(), claim.name.clone()),
            Object::Volume(volume) => Self::Name(volume.name.clone()),
            Object::StorageClass(class) => Self::Name(class.name.clone()),
            Object::CsiNode(node) => Self::Name(node.name.clone()),
        }
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new(Profile::default())
    }
}

impl Cluster {
    /// A cluster of which nothing is known, to be judged by this profile.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            nodes: Nodes::default(),
            pods: Pods::default(),
            namespaces: Namespaces::default(),
            storage: Storage::default(),
            assumed: Assumed::default(),
            settled: true,
            texts: Texts::default(),
            listed: HashMap::default(),
        }
    }

    /// Judges by another profile from now on.
    pub fn set_profile(&mut self, profile: Profile) {
        self.profile = profile;
    }

    /// Takes in an event of a watch, or an object of a list. Events may come twice.
    pub fn apply(&mut self, change: Change) -> Gain {
        match change {
            Change::Seen(object) => {
                if let Some(listed) = self.listed.get_mut(&object.kind()) {
                    listed.insert(Key::of(&object));
                }
                self.seen(object)
            }
            Change::Gone(object) => {
                let key = Key::of(&object);
                if let Some(listed) = self.listed.get_mut(&object.kind()) {
                    listed.remove(&key);
                }
                self.gone(object.kind(), &key)
            }
        }
    }

    /// A kind is about to be listed anew.
    pub fn begin(&mut self, kind: Kind) {
        self.listed.insert(kind, HashSet::default());
    }

    /// The list that [`Cluster::begin`] announced is complete: what was not in it is gone. Without a beginning, nothing
    /// happens.
    pub fn end(&mut self, kind: Kind) -> Gain {
        let Some(listed) = self.listed.remove(&kind) else { return Gain::None };
        let gone: Vec<Key> = self.keys(kind).into_iter().filter(|key| !listed.contains(key)).collect();
        gone.iter().map(|key| self.gone(kind, key)).max().unwrap_or_default()
    }

    /// Whether the pod finds a node: on the first one found, or why on none.
    #[must_use]
    pub fn ask(&self, question: &Question) -> Answer {
        ask::ask(self, &self.admitted(question))
    }

    /// How many replicas of the pod would find a node, up to `most`.
    #[must_use]
    pub fn capacity(&self, question: &Question, most: u64) -> u64 {
        capacity::capacity(self, &self.admitted(question), most)
    }

    /// How good a place the cluster is for a pod that got this answer: 0 to 10, and 0 where it does not fit.
    #[must_use]
    pub fn score(&self, question: &Question, answer: &Answer, weights: &score::Weights) -> u8 {
        score::score(self, &self.admitted(question), answer, weights)
    }

    /// The question for the pod as this cluster would admit it.
    pub(super) fn admitted<'q>(&self, question: &'q Question) -> Cow<'q, Question> {
        let mut ranges = self.namespaces.ranges.of(question.namespace()).peekable();
        if ranges.peek().is_none() {
            return Cow::Borrowed(question);
        }
        Cow::Owned(question.with_defaults(ranges))
    }

    /// How much is known.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (assumed, owed) = (self.assumed.len(), self.assumed.owed());
        Counts { nodes: self.nodes.len(), pods: self.pods.len(), assumed, owed }
    }

    /// What is left over when nothing is known.
    #[cfg(test)]
    pub(super) fn residue(&self) -> usize {
        let within = self.namespaces.quotas.names().count() + self.namespaces.ranges.names().count();
        let names = self.namespaces.names().count() + within;
        let storage = &self.storage;
        let storage = storage.claims.len() + storage.volumes.len() + storage.classes.len() + storage.limits.len();
        self.nodes.residue() + self.pods.residue() + self.assumed.residue() + self.listed.len() + names + storage
    }

    fn seen(&mut self, object: Object) -> Gain {
        let changed = match object {
            Object::Node(node) => self.seen_node(node),
            Object::Pod(pod) => return self.seen_pod(pod),
            Object::Namespace(namespace) => self.namespaces.apply(namespace),
            Object::Quota(quota) => self.namespaces.quotas.apply(quota.namespace.clone(), quota.name.clone(), quota),
            Object::LimitRange(range) => {
                self.namespaces.ranges.apply(range.namespace.clone(), range.name.clone(), range)
            }
            Object::Claim(claim) => put(&mut self.storage.claims, (claim.namespace.clone(), claim.name.clone()), claim),
            Object::Volume(volume) => put(&mut self.storage.volumes, volume.name.clone(), volume),
            Object::StorageClass(class) => put(&mut self.storage.classes, class.name.clone(), class),
            Object::CsiNode(node) => put(&mut self.storage.limits, node.name.clone(), node),
        };
        self.gained(if changed { Gain::Room } else { Gain::None })
    }

    fn seen_node(&mut self, node: Node) -> bool {
        let name = node.name.clone();
        let changed = self.nodes.apply(node, &mut self.texts);
        if let Some(node) = self.nodes.id(&name).filter(|_| changed) {
            self.unseat(node, true);
        }
        changed
    }

    fn lost_node(&mut self, name: &str) -> bool {
        let Some(node) = self.nodes.remove(name) else { return false };
        self.unseat(node, true);
        true
    }

    fn gone(&mut self, kind: Kind, key: &Key) -> Gain {
        let gone = match (kind, key) {
            (Kind::Pod, Key::Uid(uid)) => self.pods.remove(*uid, &mut self.nodes),
            (Kind::Node, Key::Name(name)) => self.lost_node(name),
            (Kind::Namespace, Key::Name(name)) => self.namespaces.remove(name),
            (Kind::Quota, Key::Of(namespace, name)) => self.namespaces.quotas.remove(namespace, name),
            (Kind::LimitRange, Key::Of(namespace, name)) => self.namespaces.ranges.remove(namespace, name),
            (Kind::Claim, Key::Of(namespace, name)) => {
                self.storage.claims.remove(&(namespace.clone(), name.clone())).is_some()
            }
            (Kind::Volume, Key::Name(name)) => self.storage.volumes.remove(name).is_some(),
            (Kind::StorageClass, Key::Name(name)) => self.storage.classes.remove(name).is_some(),
            (Kind::CsiNode, Key::Name(name)) => self.storage.limits.remove(name).is_some(),
            _ => false,
        };
        self.gained(if gone { Gain::Room } else { Gain::None })
    }

    fn keys(&self, kind: Kind) -> Vec<Key> {
        let name = |name: &Text| Key::Name(name.clone());
        let of = |(namespace, name): (&Text, &Text)| Key::Of(namespace.clone(), name.clone());
        match kind {
            Kind::Node => self.nodes.names().map(name).collect(),
            Kind::Pod => self.pods.uids().copied().map(Key::Uid).collect(),
            Kind::Namespace => self.namespaces.names().map(name).collect(),
            Kind::Quota => self.namespaces.quotas.names().map(of).collect(),
            Kind::LimitRange => self.namespaces.ranges.names().map(of).collect(),
            Kind::Claim => self.storage.claims.keys().map(|(namespace, name)| of((namespace, name))).collect(),
            Kind::Volume => self.storage.volumes.keys().map(name).collect(),
            Kind::StorageClass => self.storage.classes.keys().map(name).collect(),
            Kind::CsiNode => self.storage.limits.keys().map(name).collect(),
        }
    }
}

/// Returns whether anything is different.
fn put<K: Eq + Hash, V: PartialEq>(map: &mut HashMap<K, V>, key: K, value: V) -> bool {
    map.get(&key) != Some(&value) && {
        map.insert(key, value);
        true
    }
}
