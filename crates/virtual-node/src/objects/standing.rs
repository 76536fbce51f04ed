// SPDX-License-Identifier: Apache-2.0
//! How things stand with the objects of a pod that is to be made.

use tensile_core::{
    pod::{LinkView, Names, References},
    sync::{lower_name, plan},
};
use virtual_kubelet::pod::{PodError, PodId, Refused};

use super::{
    Key, Trouble,
    object::Object,
    table::{Inner, Table},
};

/// As kubelets call it when a container cannot be made for want of an object.
const MISSING: &str = "CreateContainerConfigError";

/// How things stand with one object.
enum Standing {
    /// It is below, up to date, under this name.
    Ready(String),
    /// It does not exist upstairs. This name is kept for it.
    Missing(Option<String>),
    /// It cannot be settled.
    Trouble(Trouble),
    /// It is being settled.
    Open,
}

impl Table {
    /// What comes of the wish for `references`; `None` while it is not decided. A pod that does not get what it wants is
    /// one that waits.
    pub(super) fn outcome(
        &self,
        id: &PodId,
        references: &References,
        link: &LinkView,
    ) -> Option<Result<Names, PodError>> {
        let mut inner = self.lock();
        let (mut names, mut missing, mut trouble) = (Names::default(), Vec::new(), None);
        for (kind, name, optional) in references.iter() {
            let key = Key { kind, namespace: id.namespace.clone(), name: name.into() };
            match inner.standing(&key) {
                Standing::Open => return None,
                Standing::Ready(below) => names.insert(kind, name, &below),
                // A name that nobody else comes to: what is absent must not turn out to be somebody else's.
                Standing::Missing(below) if optional => {
                    let below = below.unwrap_or_else(|| lower_name(&id.namespace, name, link));
                    names.insert(kind, name, &below);
                    inner.keep(&key, below);
                }
                Standing::Missing(_) => missing.push(format!("{kind} {name:?} not found")),
                Standing::Trouble(found) => trouble = Some(found),
            }
        }
        let outcome = if !missing.is_empty() {
            Err(PodError::Refused(Refused { reason: MISSING, message: missing.join(", ") }))
        } else if let Some(trouble) = trouble {
            Err(trouble.into())
        } else {
            Ok(names)
        };
        if let Some(user) = inner.users.get_mut(&id.uid) {
            user.waiting = outcome.is_err();
        }
        Some(outcome)
    }

    /// The pods that wait, if what they may be waiting for has come.
    pub(super) fn waiting_for(&self, key: &Key) -> Vec<PodId> {
        let inner = self.lock();
        if !matches!(inner.standing(key), Standing::Ready(_)) {
            return Vec::new();
        }
        let Some(object) = inner.object(key) else { return Vec::new() };
        let users = object.users.iter().filter_map(|uid| inner.users.get(uid));
        users.filter(|user| user.waiting).map(|user| user.id.clone()).collect()
    }
}

impl Inner {
    fn object(&self, key: &Key) -> Option<&Object> {
        self.scopes.get(&key.scope())?.by_name.get(&key.name)
    }

    fn standing(&self, key: &Key) -> Standing {
        let (Some(objects), Some(object)) = (self.scopes.get(&key.scope()), self.object(key)) else {
            return Standing::Open;
        };
        let trouble = object.trouble.as_ref().or(objects.trouble.as_ref().filter(|_| !objects.listed));
        match (plan(&object.upper, object.copy.as_ref(), true), &object.copy) {
            (None, Some(copy)) if objects.listed => Standing::Ready(copy.name.clone()),
            (None, None) if objects.listed => Standing::Missing(object.name.clone()),
            _ => trouble.map_or(Standing::Open, |trouble| Standing::Trouble(trouble.clone())),
        }
    }

    fn keep(&mut self, key: &Key, name: String) {
        let objects = self.scopes.get_mut(&key.scope());
        if let Some(object) = objects.and_then(|objects| objects.by_name.get_mut(&key.name)) {
            object.name = Some(name);
        }
    }
}
