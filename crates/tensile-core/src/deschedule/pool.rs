// SPDX-License-Identifier: Apache-2.0
//! What many pods have in common, kept once for all of them: 50,000 pods are made of far fewer templates.

use std::hash::Hash;
use std::sync::Arc;

use foldhash::HashSet;

use super::pod::{Owner, Pod};
use crate::resources::ResourceVector;

/// So many are never looked through.
const FEW: usize = 1_024;

/// What is shared between pods. It keeps nothing alive for long that no pod has any more.
#[derive(Debug, Default)]
pub struct Pools {
    texts: Pool<str>,
    owners: Pool<Owner>,
    requests: Pool<ResourceVector>,
}

impl Pools {
    /// The same pod, with what other pods have too taken from here.
    #[must_use]
    pub fn share(&mut self, mut pod: Pod) -> Pod {
        let Pod { namespace, node, owner, index, scheduler, constraints, requests, reasons, .. } = &mut pod;
        self.texts.share(namespace);
        for text in [node, index, scheduler, constraints].into_iter().flatten().chain(reasons) {
            self.texts.share(text);
        }
        self.requests.share(requests);
        if let Some(owner) = owner {
            let this = Arc::make_mut(owner);
            self.texts.share(&mut this.api_version);
            self.texts.share(&mut this.kind);
            self.owners.share(owner);
        }
        let Pod { unschedulable, refused, unbound, .. } = &mut pod;
        for trouble in [unschedulable, refused, unbound].into_iter().flatten() {
            self.texts.share(&mut trouble.message);
        }
        pod
    }
}

/// Values that somebody has, each once.
#[derive(Debug)]
struct Pool<T: ?Sized> {
    known: HashSet<Arc<T>>,
    /// With so many it is looked which of them nobody has any more.
    sweep_at: usize,
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { known: HashSet::default(), sweep_at: FEW }
    }
}

impl<T: ?Sized + Eq + Hash> Pool<T> {
    /// Puts the known one in place of its equal.
    fn share(&mut self, one: &mut Arc<T>) {
        if let Some(known) = self.known.get(&*one) {
            *one = known.clone();
            return;
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.sweep_at = FEW.max(self.known.len() * 2);
        }
        self.known.insert(one.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, node: &str) -> Pod {
        Pod::read(&json!({
            "metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]},
            "spec": {"nodeName": node, "tolerations": [{"operator": "Exists"}]},
        }))
        .unwrap()
    }

    #[test]
    fn what_pods_have_in_common_is_kept_once_and_changes_nothing() {
        let mut pools = Pools::default();
        let [one, other] = ["a", "b"].map(|name| pools.share(pod(name, "east")));
        assert_eq!((&one, &other), (&pod("a", "east"), &pod("b", "east")));
        assert!(Arc::ptr_eq(&one.namespace, &other.namespace));
        assert!(Arc::ptr_eq(one.node.as_ref().unwrap(), other.node.as_ref().unwrap()));
        assert!(Arc::ptr_eq(one.owner.as_ref().unwrap(), other.owner.as_ref().unwrap()));
        assert!(Arc::ptr_eq(&one.requests, &other.requests));
    }

    #[test]
    fn what_no_pod_has_any_more_is_forgotten() {
        let mut pools = Pools::default();
        let held: Vec<Pod> = (0..10).map(|n| pools.share(pod("a", &format!("kept-{n}")))).collect();
        for n in 0..100_000 {
            drop(pools.share(pod("a", &format!("node-{n}"))));
        }
        assert!(pools.texts.known.len() <= FEW, "{}", pools.texts.known.len());
        assert!(held.iter().all(|pod| pools.texts.known.contains(pod.node.as_ref().unwrap())));
    }
}
