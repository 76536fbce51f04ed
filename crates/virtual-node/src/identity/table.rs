// SPDX-License-Identifier: Apache-2.0
//! What is known of the pods that have tokens. No token is here.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tensile_core::identity::{Lives, Tokens};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use virtual_kubelet::pod::PodId;

use crate::objects::{Meta, Trouble, number};

/// The table.
#[derive(Debug, Default)]
pub(super) struct Table(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By UID upstairs.
    pods: HashMap<Arc<str>, Pod>,
    namespaces: HashMap<Arc<str>, Namespace>,
    /// Pods that are being made: their tokens are on the way.
    delivering: HashSet<Arc<str>>,
    /// All lower pods have been seen.
    begun: bool,
    /// Namespaces that are to be watched then.
    postponed: HashSet<Arc<str>>,
}

/// A lower pod with tokens.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) id: PodId,
    /// UID of the lower pod.
    pub(super) lower_uid: Arc<str>,
    pub(super) tokens: Arc<Tokens>,
    pub(super) secret: Secret,
    /// The newest version of the Secret that was heard of.
    revision: u64,
    failures: u32,
    /// When it is looked at next.
    look: Option<Instant>,
}

/// The Secret with its tokens.
#[derive(Clone, Debug)]
pub(super) enum Secret {
    Absent,
    Held(Held),
}

/// A Secret that is there.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) uid: Arc<str>,
    pub(super) lives: Lives,
    /// Since when it is known to be like this.
    pub(super) since: Instant,
}

impl Secret {
    pub(super) fn lives(&self) -> Option<&Lives> {
        match self {
            Self::Absent => None,
            Self::Held(held) => Some(&held.lives),
        }
    }
}

/// A namespace with pods that have tokens.
#[derive(Debug)]
struct Namespace {
    /// All Secrets there are known.
    listed: bool,
    /// Why they are not.
    trouble: Option<Trouble>,
    /// Pods that were told so.
    waiting: HashSet<PodId>,
    /// It had no pods when it was last looked at.
    idle: bool,
    /// Ends the watch.
    _watch: DropGuard,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod is being made: nobody else sees to its tokens.
    pub(super) fn delivers(&self, id: &PodId) {
        let mut inner = self.lock();
        inner.delivering.insert(id.uid.clone());
        if let Some(namespace) = inner.namespaces.get_mut(&id.namespace) {
            namespace.idle = false;
        }
    }

    /// It is made, or was not.
    pub(super) fn delivered(&self, uid: &str) {
        self.lock().delivering.remove(uid);
    }

    /// A lower pod with tokens is there.
    pub(super) fn enter(&self, id: &PodId, lower_uid: &str, tokens: Arc<Tokens>) {
        let pod = Pod {
            id: id.clone(),
            lower_uid: lower_uid.into(),
            tokens,
            secret: Secret::Absent,
            revision: 0,
            failures: 0,
            look: None,
        };
        let mut inner = self.lock();
        if inner.pods.get(&id.uid).is_none_or(|known| *known.lower_uid != *lower_uid) {
            inner.pods.insert(id.uid.clone(), pod);
        }
    }

    pub(super) fn knows(&self, uid: &str, lower_uid: &str) -> bool {
        self.lock().pods.get(uid).is_some_and(|pod| *pod.lower_uid == *lower_uid)
    }

    pub(super) fn remove(&self, uid: &str) {
        self.lock().pods.remove(uid);
    }

    pub(super) fn pod(&self, uid: &str) -> Option<Pod> {
        self.lock().pods.get(uid).cloned()
    }

    /// The pod to look at now, if all is known that decides about its tokens.
    pub(super) fn ready(&self, uid: &str, now: Instant) -> Option<Pod> {
        let mut inner = self.lock();
        let Inner { pods, namespaces, delivering, .. } = &mut *inner;
        let pod = pods.get_mut(uid)?;
        pod.look.take_if(|look| *look <= now);
        let known = namespaces.get(&pod.id.namespace).is_some_and(|namespace| namespace.listed);
        (known && !delivering.contains(uid)).then(|| pod.clone())
    }

    /// The pod is to be looked at then; `false` if it will be before that.
    pub(super) fn plan_look(&self, uid: &str, when: Instant) -> bool {
        let mut inner = self.lock();
        let Some(pod) = inner.pods.get_mut(uid).filter(|pod| pod.look.is_none_or(|look| when < look)) else {
            return false;
        };
        pod.look = Some(when);
        true
    }

    /// Returns how often in a row.
    pub(super) fn fails(&self, uid: &str) -> u32 {
        self.lock().pods.get_mut(uid).map_or(1, |pod| {
            pod.failures = pod.failures.saturating_add(1);
            pod.failures
        })
    }

    pub(super) fn succeeds(&self, uid: &str) {
        if let Some(pod) = self.lock().pods.get_mut(uid) {
            pod.failures = 0;
        }
    }

    /// How many pods have tokens that could not be renewed at the last try.
    pub(super) fn failing(&self) -> usize {
        self.lock().pods.values().filter(|pod| pod.failures > 0).count()
    }

    /// The Secret of a pod, as a watch or an answer has it. Returns whether that is news.
    pub(super) fn secret_seen(&self, uid: &str, meta: &Meta) -> bool {
        let mut inner = self.lock();
        let Some(pod) = inner.pods.get_mut(uid) else { return false };
        let revision = number(&meta.version.revision);
        if revision <= pod.revision || meta.name != pod.tokens.secret {
            return false;
        }
        pod.revision = revision;
        // One that goes with an earlier lower pod will go.
        pod.secret = if meta.goes_with.as_deref() == Some(&*pod.lower_uid) {
            let (uid, lives) = (meta.version.uid.as_str().into(), Lives::noted(meta.tokens.as_deref()));
            Secret::Held(Held { uid, lives, since: Instant::now() })
        } else {
            Secret::Absent
        };
        true
    }

    /// The Secret of a pod is gone; `meta`: as it was last. Returns whether that is news.
    pub(super) fn secret_gone(&self, uid: &str, meta: Option<&Meta>) -> bool {
        let mut inner = self.lock();
        let Some(pod) = inner.pods.get_mut(uid) else { return false };
        if let Some(meta) = meta {
            let same = matches!(&pod.secret, Secret::Held(held) if *held.uid == *meta.version.uid);
            if !same {
                return false;
            }
            pod.revision = pod.revision.max(number(&meta.version.revision));
        }
        !matches!(std::mem::replace(&mut pod.secret, Secret::Absent), Secret::Absent)
    }

    /// All lower pods have been seen. Returns the namespaces that are to be opened.
    pub(super) fn begin(&self) -> HashSet<Arc<str>> {
        let mut inner = self.lock();
        inner.begun = true;
        std::mem::take(&mut inner.postponed)
    }

    /// A namespace with tokens, once all lower pods have been seen: before that it could not be told whose Secrets are
    /// there. Returns whether it has to be watched from now on.
    pub(super) fn open(&self, name: &Arc<str>) -> Option<CancellationToken> {
        let mut inner = self.lock();
        if !inner.begun {
            inner.postponed.insert(name.clone());
            return None;
        }
        if inner.namespaces.contains_key(name) {
            return None;
        }
        let token = CancellationToken::new();
        let namespace = Namespace {
            listed: false,
            trouble: None,
            waiting: HashSet::new(),
            idle: false,
            _watch: token.clone().drop_guard(),
        };
        inner.namespaces.insert(name.clone(), namespace);
        Some(token)
    }

    /// Whether tokens can be kept in the namespace of a pod; `None` while that is not known. A pod that hears that they
    /// cannot is one that waits.
    pub(super) fn namespace(&self, id: &PodId) -> Option<Result<(), Trouble>> {
        let mut inner = self.lock();
        let namespace = inner.namespaces.get_mut(&id.namespace)?;
        if namespace.listed {
            return Some(Ok(()));
        }
        let trouble = namespace.trouble.clone()?;
        namespace.waiting.insert(id.clone());
        Some(Err(trouble))
    }

    /// All Secrets of a namespace are known, and those `listed` (pods, by UID) are there. Returns the pods to look at, and
    /// those that waited.
    pub(super) fn listed(&self, name: &str, listed: &HashSet<Arc<str>>) -> (Vec<Arc<str>>, HashSet<PodId>) {
        let mut inner = self.lock();
        let Some(namespace) = inner.namespaces.get_mut(name) else {
            return (Vec::new(), HashSet::new());
        };
        namespace.listed = true;
        namespace.trouble = None;
        let waiting = std::mem::take(&mut namespace.waiting);
        let there = inner.pods.iter_mut().filter(|(_, pod)| *pod.id.namespace == *name);
        let pods = there.map(|(uid, pod)| {
            if !listed.contains(uid) {
                pod.secret = Secret::Absent;
            }
            uid.clone()
        });
        (pods.collect(), waiting)
    }

    /// The Secrets of a namespace cannot be known.
    pub(super) fn troubled(&self, name: &str, trouble: Trouble) {
        if let Some(namespace) = self.lock().namespaces.get_mut(name) {
            namespace.trouble = Some(trouble);
        }
    }

    /// Lets go of namespaces that have had no pods for a while.
    pub(super) fn sweep(&self) {
        let mut inner = self.lock();
        let Inner { pods, namespaces, delivering, .. } = &mut *inner;
        let used: HashSet<&Arc<str>> = pods.values().map(|pod| &pod.id.namespace).collect();
        namespaces.retain(|name, namespace| {
            let keep = used.contains(name) || !delivering.is_empty() || !namespace.idle;
            namespace.idle = !used.contains(name);
            keep
        });
    }

    /// Ends all watches.
    pub(super) fn close(&self) {
        self.lock().namespaces.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    const LIVES: &str = r#"{"token-0":{"expires":"2027-01-15T08:00:00Z","seconds":3607}}"#;

    fn id(name: &str) -> PodId {
        PodId::new("ns", name, &format!("uid-of-{name}"))
    }

    fn tokens() -> Arc<Tokens> {
        Arc::new(Tokens { secret: "s".to_owned(), account: "a".to_owned(), tokens: Vec::new() })
    }

    /// A Secret `s` at this revision, which goes with the lower pod of this UID.
    fn secret(revision: u64, lower_uid: &str) -> Meta {
        let metadata = json!({
            "name": "s", "uid": "secret", "resourceVersion": revision.to_string(),
            "annotations": {"tensile.io/tokens": LIVES},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": lower_uid}],
        });
        serde_json::from_value::<k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>(metadata).unwrap().into()
    }

    fn holds(table: &Table) -> bool {
        table.pod("uid-of-p").unwrap().secret.lives() == Some(&Lives::noted(Some(LIVES)))
    }

    /// A table that knows lower pod `p` and all Secrets of its namespace.
    fn known() -> Table {
        let table = Table::default();
        table.begin();
        drop(table.open(&"ns".into()));
        table.enter(&id("p"), "lower", tokens());
        table.listed("ns", &HashSet::new());
        table
    }

    #[test]
    fn only_the_newest_account_of_a_secret_counts() {
        let table = known();
        assert!(table.secret_seen("uid-of-p", &secret(7, "lower")) && holds(&table));
        assert!(!table.secret_seen("uid-of-p", &secret(7, "lower")), "heard twice");
        assert!(!table.secret_seen("uid-of-p", &secret(6, "another")) && holds(&table));
        assert!(table.secret_gone("uid-of-p", Some(&secret(9, "lower"))) && !holds(&table));
        assert!(!table.secret_seen("uid-of-p", &secret(8, "lower")) && !holds(&table), "it is gone since");
    }

    #[test]
    fn a_secret_that_goes_with_an_earlier_lower_pod_holds_nothing() {
        let table = known();
        table.secret_seen("uid-of-p", &secret(7, "earlier"));
        assert!(!holds(&table));
        table.secret_seen("uid-of-p", &secret(8, "lower"));
        table.enter(&id("p"), "later", tokens());
        assert!(!holds(&table), "the pod was made again");
    }

    #[test]
    fn nothing_is_decided_before_all_is_known() {
        let (table, now) = (Table::default(), Instant::now());
        table.enter(&id("p"), "lower", tokens());
        assert!(table.open(&"ns".into()).is_none(), "not all lower pods are known");
        assert_eq!(table.begin(), ["ns".into()].into());
        assert!(table.open(&"ns".into()).is_some() && table.open(&"ns".into()).is_none());
        assert!(table.ready("uid-of-p", now).is_none(), "nor all Secrets");
        assert!(table.namespace(&id("p")).is_none());
        table.troubled("ns", Trouble::Unavailable("away".to_owned()));
        assert!(table.namespace(&id("p")).unwrap().is_err());
        let (pods, waiting) = table.listed("ns", &HashSet::new());
        assert_eq!((pods, waiting), (vec!["uid-of-p".into()], [id("p")].into()));
        assert!(table.namespace(&id("p")).unwrap().is_ok() && table.ready("uid-of-p", now).is_some());
        table.delivers(&id("p"));
        assert!(table.ready("uid-of-p", now).is_none(), "its tokens are on the way");
    }

    #[test]
    fn however_often_a_pod_is_looked_at_one_look_is_planned() {
        let (table, now) = (known(), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        assert!(table.plan_look("uid-of-p", later(60)));
        assert!(!table.plan_look("uid-of-p", later(60)) && !table.plan_look("uid-of-p", later(90)));
        assert!(table.plan_look("uid-of-p", later(30)), "an earlier one replaces it");
        assert!(table.ready("uid-of-p", later(30)).is_some());
        assert!(table.plan_look("uid-of-p", later(90)), "that one is over");
    }

    #[test]
    fn a_namespace_without_pods_is_let_go_of_after_a_while() {
        let table = known();
        table.remove("uid-of-p");
        table.sweep();
        assert!(table.open(&"ns".into()).is_none(), "it may be needed again at once");
        table.sweep();
        assert!(table.open(&"ns".into()).is_some());
    }
}
