//! One lower cluster, kept up to date by its watches.

use std::hash::Hash;

use foldhash::{HashMap, HashSet};

use super::answer::Answer;
use super::ask;
use super::assumed::{Assumed, Assumption};
use super::capacity;
use super::change::{Change, Gain, Kind, Object};
use super::namespaces::Namespaces;
use super::nodes::Nodes;
use super::objects::Pod;
use super::pods::{Changed, Pods};
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
    texts: Texts,
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
        ask::ask(self, question)
    }

    /// How many replicas of the pod would find a node, up to `most`.
    #[must_use]
    pub fn capacity(&self, question: &Question, most: u64) -> u64 {
        capacity::capacity(self, question, most)
    }

    /// How good a place the cluster is for a pod that got this answer: 0 to 10, and 0 where it does not fit.
    #[must_use]
    pub fn score(&self, question: &Question, answer: &Answer, weights: &score::Weights) -> u8 {
        score::score(self, question, answer, weights)
    }

    /// Counts the pod of this upper UID as if it were on the node that the scheduler would choose, until a lower pod
    /// appears that was made for it, or [`Cluster::forget`].
    ///
    /// Returns whether it is counted, here or already as a lower pod; a pod that fits nowhere is not. To be called once
    /// the cluster is chosen, and again after an answer of `false`, whenever the cluster gains room.
    pub fn assume(&mut self, uid: Uid, question: &Question) -> bool {
        if self.pods.is_settled(uid) || self.assumed.contains(uid) {
            return true;
        }
        let Some(node) = score::best_node(self, question) else { return false };
        let shape = self.pods.come(&question.shape, node, &mut self.nodes, &mut self.texts);
        let namespace = question.shape.namespace.clone();
        self.assumed.insert(uid, Assumption::new(node, shape, namespace, question.quota.clone()));
        true
    }

    /// The upper pod is gone, ended, or goes elsewhere: it is not on its way any more.
    pub fn forget(&mut self, uid: Uid) -> Gain {
        match self.assumed.remove(uid) {
            Some(assumption) => {
                self.pods.leave(assumption.shape, assumption.node, false, &mut self.nodes);
                Gain::Room
            }
            None => Gain::None,
        }
    }

    /// How much is known.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { nodes: self.nodes.len(), pods: self.pods.len(), assumed: self.assumed.len() }
    }

    /// What is left over when nothing is known.
    #[cfg(test)]
    pub(super) fn residue(&self) -> usize {
        let names = self.namespaces.names().count() + self.namespaces.quota_names().count();
        let storage = &self.storage;
        let storage = storage.claims.len() + storage.volumes.len() + storage.classes.len() + storage.limits.len();
        self.nodes.residue() + self.pods.residue() + self.assumed.len() + self.listed.len() + names + storage
    }

    fn seen(&mut self, object: Object) -> Gain {
        let changed = match object {
            Object::Node(node) => self.nodes.apply(node, &mut self.texts),
            Object::Pod(pod) => return self.seen_pod(pod),
            Object::Namespace(namespace) => self.namespaces.apply(namespace),
            Object::Quota(quota) => self.namespaces.apply_quota(quota),
            Object::Claim(claim) => put(&mut self.storage.claims, (claim.namespace.clone(), claim.name.clone()), claim),
            Object::Volume(volume) => put(&mut self.storage.volumes, volume.name.clone(), volume),
            Object::StorageClass(class) => put(&mut self.storage.classes, class.name.clone(), class),
            Object::CsiNode(node) => put(&mut self.storage.limits, node.name.clone(), node),
        };
        if changed { Gain::Room } else { Gain::None }
    }

    fn seen_pod(&mut self, pod: Pod) -> Gain {
        let mut gain = Gain::None;
        if let Some(upper) = pod.upper {
            if pod.node.is_some() || pod.finished {
                gain = self.confirm(upper, pod.node.as_deref());
            } else {
                self.assumed.created(upper);
            }
        }
        match self.pods.apply(pod, &mut self.nodes, &mut self.texts) {
            Changed { left: true, .. } => Gain::Room,
            Changed { came: true, .. } => gain.max(Gain::Company),
            _ => gain,
        }
    }

    /// The lower pod has come to `node`, or has ended: it counts itself from now on.
    ///
    /// The scheduler may have chosen another node than the one it was counted on. Then another pod like it that is counted
    /// where it came to changes places with it: else that node would be full twice, and the one that is left would look
    /// free, though one of the two has to go there.
    fn confirm(&mut self, upper: Uid, node: Option<&str>) -> Gain {
        let Some(assumption) = self.assumed.remove(upper) else { return Gain::None };
        let came = node.and_then(|name| self.nodes.id(name)).filter(|came| *came != assumption.node);
        let swapped = came.filter(|came| self.assumed.swap(assumption.shape, *came, assumption.node));
        self.pods.leave(assumption.shape, swapped.unwrap_or(assumption.node), false, &mut self.nodes);
        Gain::Room
    }

    fn gone(&mut self, kind: Kind, key: &Key) -> Gain {
        let gone = match (kind, key) {
            (Kind::Pod, Key::Uid(uid)) => self.pods.remove(*uid, &mut self.nodes),
            (Kind::Node, Key::Name(name)) => self.nodes.remove(name).is_some(),
            (Kind::Namespace, Key::Name(name)) => self.namespaces.remove(name),
            (Kind::Quota, Key::Of(namespace, name)) => self.namespaces.remove_quota(namespace, name),
            (Kind::Claim, Key::Of(namespace, name)) => {
                self.storage.claims.remove(&(namespace.clone(), name.clone())).is_some()
            }
            (Kind::Volume, Key::Name(name)) => self.storage.volumes.remove(name).is_some(),
            (Kind::StorageClass, Key::Name(name)) => self.storage.classes.remove(name).is_some(),
            (Kind::CsiNode, Key::Name(name)) => self.storage.limits.remove(name).is_some(),
            _ => false,
        };
        if gone { Gain::Room } else { Gain::None }
    }

    fn keys(&self, kind: Kind) -> Vec<Key> {
        let name = |name: &Text| Key::Name(name.clone());
        let of = |(namespace, name): (&Text, &Text)| Key::Of(namespace.clone(), name.clone());
        match kind {
            Kind::Node => self.nodes.names().map(name).collect(),
            Kind::Pod => self.pods.uids().copied().map(Key::Uid).collect(),
            Kind::Namespace => self.namespaces.names().map(name).collect(),
            Kind::Quota => self.namespaces.quota_names().map(of).collect(),
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
