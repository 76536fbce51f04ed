// SPDX-License-Identifier: Apache-2.0
//! What is known of the objects, and who refers to them. Only digests: no content.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tensile_core::{
    pod::{Names, References},
    sync::{Action, Copy, Upper, plan},
};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use virtual_kubelet::pod::PodId;

use super::{Key, Scope, Trouble, object::Object};

/// How long a copy outlives the last pod that refers to it: the next pod of the same template often comes at once.
const LINGER: Duration = Duration::from_secs(10);

/// The table.
#[derive(Debug, Default)]
pub(super) struct Table(Mutex<Inner>);

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) scopes: HashMap<Scope, Objects>,
    pub(super) users: HashMap<Arc<str>, User>,
    /// All lower pods are known, so that an object to which none refers is needed by none.
    pods_listed: bool,
}

/// The objects of a scope.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) by_name: HashMap<Arc<str>, Object>,
    /// All copies there are known.
    pub(super) listed: bool,
    /// Why they are not.
    pub(super) trouble: Option<Trouble>,
    /// Ends the watches.
    _watches: DropGuard,
}

/// A pod that refers to objects.
#[derive(Debug)]
pub(super) struct User {
    pub(super) id: PodId,
    keys: Vec<Key>,
    /// It has been made below.
    below: bool,
    /// It was told that something is missing, and waits.
    pub(super) waiting: bool,
}

/// What to do for one object.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) action: Action,
    pub(super) upper: Upper,
    pub(super) copy: Option<Copy>,
    pub(super) name: Option<String>,
    pub(super) heard: u64,
}

/// The next step for an object.
#[derive(Debug)]
pub(super) enum Next {
    /// There is nothing to do.
    Nothing,
    /// There will be something to do.
    At(Instant),
    /// This.
    Now(Task),
}

impl Table {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod that is to be made refers to these. Returns the scopes that have to be watched from now on.
    pub(super) fn refer(&self, id: &PodId, references: &References) -> Vec<(Scope, CancellationToken)> {
        let keys = references
            .iter()
            .map(|(kind, name, _)| (Key { kind, namespace: id.namespace.clone(), name: name.into() }, None));
        self.lock().enter(id, false, keys.collect())
    }

    /// A pod that is there below refers to these. Returns the scopes that have to be watched from now on.
    pub(super) fn runs(&self, id: &PodId, names: &Names) -> Vec<(Scope, CancellationToken)> {
        let keys = names.iter().map(|(kind, upper, lower)| {
            let key = Key { kind, namespace: id.namespace.clone(), name: upper.into() };
            (key, Some(lower.to_owned()))
        });
        self.lock().enter(id, true, keys.collect())
    }

    /// The pod is known to be there below.
    pub(super) fn is_below(&self, uid: &str) -> bool {
        self.lock().users.get(uid).is_some_and(|user| user.below)
    }

    /// Names below and upstairs of the objects of a pod, where they differ.
    pub(super) fn renamed(&self, uid: &str) -> Vec<(String, String)> {
        let inner = self.lock();
        let keys = inner.users.get(uid).into_iter().flat_map(|user| &user.keys);
        let names = keys.filter_map(|key| {
            let object = inner.scopes.get(&key.scope())?.by_name.get(&key.name)?;
            Some((object.name.clone().filter(|below| **below != *key.name)?, key.name.to_string()))
        });
        names.collect()
    }

    /// The pod is gone: its keys, to be looked at.
    pub(super) fn release(&self, uid: &str) -> Vec<Key> {
        self.lock().release(uid)
    }

    /// All lower pods are known: the keys that no pod refers to.
    pub(super) fn pods_listed(&self) -> Vec<Key> {
        let mut inner = self.lock();
        inner.pods_listed = true;
        inner.keys(|object| object.users.is_empty())
    }

    /// Lets go of pods that are not below and not `wanted` above, and of scopes without objects.
    pub(super) fn sweep(&self, wanted: impl Fn(&PodId) -> bool) -> Vec<Key> {
        let mut inner = self.lock();
        let gone: Vec<Arc<str>> = inner
            .users
            .iter()
            .filter(|(_, user)| !user.below && !wanted(&user.id))
            .map(|(uid, _)| uid.clone())
            .collect();
        let keys = gone.iter().flat_map(|uid| inner.release(uid)).collect();
        inner.scopes.retain(|_, objects| !objects.by_name.is_empty() || !objects.listed);
        keys
    }

    /// Ends all watches.
    pub(super) fn close(&self) {
        self.lock().scopes.clear();
    }

    /// A copy of ours was found in this scope. Returns whether it has to be watched from now on.
    pub(super) fn open(&self, scope: Scope) -> Option<CancellationToken> {
        self.lock().open(scope)
    }

    /// The next step for `key`.
    pub(super) fn next(&self, key: &Key) -> Next {
        let mut inner = self.lock();
        let pods_listed = inner.pods_listed;
        let Some(objects) = inner.scopes.get_mut(&key.scope()).filter(|objects| objects.listed) else {
            return Next::Nothing;
        };
        let Some(object) = objects.by_name.get_mut(&key.name) else { return Next::Nothing };
        if object.users.is_empty() {
            let linger = object.unwanted_since.map(|since| since + LINGER).filter(|until| *until > Instant::now());
            if object.copy.is_none() {
                objects.by_name.remove(&key.name);
                return Next::Nothing;
            } else if !pods_listed {
                return Next::Nothing;
            } else if let Some(until) = linger {
                return Next::At(until);
            }
        }
        match plan(&object.upper, object.copy.as_ref(), !object.users.is_empty()) {
            Some(action) => {
                let Object { upper, copy, name, heard, .. } = object;
                let (upper, copy, name) = (upper.clone(), copy.clone(), name.clone());
                Next::Now(Task { action, upper, copy, name, heard: *heard })
            }
            None => Next::Nothing,
        }
    }

    /// A copy of ours is there. Returns whether that is news.
    pub(super) fn copy_seen(&self, key: &Key, copy: Copy) -> bool {
        let mut inner = self.lock();
        let Some(objects) = inner.scopes.get_mut(&key.scope()) else { return false };
        let object = objects.by_name.entry(key.name.clone()).or_default();
        if object.users.is_empty() && object.unwanted_since.is_none() {
            object.unwanted_since = Some(Instant::now());
        }
        object.copy_seen(copy)
    }

    /// The keys of a scope of which `holds` is true.
    pub(super) fn choose(&self, scope: &Scope, holds: impl Fn(&str, &Object) -> bool) -> Vec<Key> {
        let inner = self.lock();
        let all = inner.scopes.get(scope).into_iter().flat_map(|objects| &objects.by_name);
        all.filter(|(name, object)| holds(name, object)).map(|(name, _)| scope.key(name)).collect()
    }

    /// All copies of the scope are known, or why they are not.
    pub(super) fn listed_below(&self, scope: &Scope, outcome: Result<(), Trouble>) {
        if let Some(objects) = self.lock().scopes.get_mut(scope) {
            objects.listed |= outcome.is_ok();
            objects.trouble = outcome.err();
        }
    }

    /// Changes what is known of an object, if it is known at all.
    pub(super) fn change<T>(&self, key: &Key, change: impl FnOnce(&mut Object) -> T) -> Option<T> {
        let mut inner = self.lock();
        inner.scopes.get_mut(&key.scope())?.by_name.get_mut(&key.name).map(change)
    }
}

impl Inner {
    fn open(&mut self, scope: Scope) -> Option<CancellationToken> {
        if self.scopes.contains_key(&scope) {
            return None;
        }
        let token = CancellationToken::new();
        let objects =
            Objects { by_name: HashMap::new(), listed: false, trouble: None, _watches: token.clone().drop_guard() };
        self.scopes.insert(scope, objects);
        Some(token)
    }

    fn enter(&mut self, id: &PodId, below: bool, keys: Vec<(Key, Option<String>)>) -> Vec<(Scope, CancellationToken)> {
        let mut opened = Vec::new();
        for (key, name) in &keys {
            opened.extend(self.open(key.scope()).map(|token| (key.scope(), token)));
            let Some(objects) = self.scopes.get_mut(&key.scope()) else { continue };
            let object = objects.by_name.entry(key.name.clone()).or_default();
            object.users.insert(id.uid.clone());
            object.unwanted_since = None;
            if object.name.is_none() {
                object.name.clone_from(name);
            }
        }
        let keys = keys.into_iter().map(|(key, _)| key).collect();
        let user = User { id: id.clone(), keys, below, waiting: false };
        let known = self.users.insert(id.uid.clone(), user);
        if let Some(user) = self.users.get_mut(&id.uid) {
            user.below |= known.is_some_and(|known| known.below);
        }
        opened
    }

    fn release(&mut self, uid: &str) -> Vec<Key> {
        let Some(user) = self.users.remove(uid) else { return Vec::new() };
        for key in &user.keys {
            let objects = self.scopes.get_mut(&key.scope());
            if let Some(object) = objects.and_then(|objects| objects.by_name.get_mut(&key.name)) {
                object.users.remove(uid);
                if object.users.is_empty() {
                    object.unwanted_since = Some(Instant::now());
                }
            }
        }
        user.keys
    }

    /// The keys of all objects of which `holds` is true.
    fn keys(&self, holds: impl Fn(&Object) -> bool) -> Vec<Key> {
        let all = self.scopes.iter().flat_map(|(scope, objects)| objects.by_name.iter().map(move |one| (scope, one)));
        all.filter(|(_, (_, object))| holds(object)).map(|(scope, (name, _))| scope.key(name)).collect()
    }
}
