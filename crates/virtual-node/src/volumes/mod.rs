// SPDX-License-Identifier: Apache-2.0
//! Claims and volumes, kept in step between the clusters: what is to be done for each claim the core decides
//! (`tensile_core::volume`).
//!
//! Claims are few and change seldom, so nothing of them is kept here: whatever is heard of one (`watch`) says "look again",
//! and looking again asks both API servers what there is (`facts`), until there is nothing to do (`perform`).

mod facts;
mod perform;
mod watch;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject},
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use serde_json::Value;
use tensile_core::{
    pod::{LinkView, claims, ephemeral_claims},
    volume::{Claim, Standing, Storage, plan},
};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use virtual_kubelet::{
    back_off::{back_off, chance},
    pod::{PodError, PodFeed, PodId, PodObject, Refused},
    queue::Queue,
};

use crate::{
    lower::{answer, namespaces::Namespaces},
    objects::{Objects, OnConflict},
};

/// Claims that are settled at the same time.
const WORKERS: usize = 4;
/// Steps in a row for one claim: more than any situation needs, if nobody else changes it meanwhile.
const STEPS: usize = 10;
/// First and longest wait before a claim in trouble is tried again; there is no last try.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(120);
/// Claims that are waited for, beyond which it is looked whose pods are gone.
const WAITED_FOR: usize = 500;

/// Namespace and name of a claim, whichever of that name it is.
type Name = (Arc<str>, String);

/// The claims and volumes of one link.
pub struct Volumes {
    upper: Client,
    lower: Client,
    link: LinkView,
    namespaces: Arc<Namespaces>,
    storage: Storage,
    on_conflict: OnConflict,
    objects: Arc<Objects>,
    recorder: Recorder,
    queue: Queue<Claim>,
    /// Claims with a copy below.
    copies: Mutex<HashSet<Claim>>,
    /// Pods that cannot be made before these claims change.
    waiting: Mutex<HashMap<Name, HashSet<PodId>>>,
    failures: Mutex<HashMap<Claim, u32>>,
    /// Where pods that wait are woken.
    feed: OnceLock<PodFeed>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What came of settling a claim.
struct Settled {
    standing: Standing,
    /// Something that is left to do could not be done.
    trouble: Option<PodError>,
}

impl Volumes {
    /// Those of `link`; `objects` sees to the Secrets that volumes name. Nothing happens before `Volumes::run`.
    pub fn new(
        upper: Client,
        lower: Client,
        link: LinkView,
        namespaces: Arc<Namespaces>,
        storage: Storage,
        on_conflict: OnConflict,
        objects: Arc<Objects>,
    ) -> Arc<Self> {
        let reporter = Reporter { controller: "virtual-kubelet".to_owned(), instance: Some(link.virtual_node.clone()) };
        let recorder = Recorder::new(upper.clone(), reporter);
        Arc::new(Self {
            upper,
            lower,
            link,
            namespaces,
            storage,
            on_conflict,
            objects,
            recorder,
            queue: Queue::new(),
            copies: Mutex::default(),
            waiting: Mutex::default(),
            failures: Mutex::default(),
            feed: OnceLock::new(),
        })
    }

    /// Sees to it that the claims that `lower`, made for `upper`, names are below, and returns what they are called there.
    ///
    /// # Errors
    /// What is missing or refused. The pod is woken when that changes.
    pub(crate) async fn ensure(&self, upper: &PodObject, lower: &Value) -> Result<BTreeMap<String, String>, PodError> {
        let (id, ephemeral) = (&upper.id, ephemeral_claims(&upper.json));
        let mut names = BTreeMap::new();
        for name in claims(lower) {
            // Before it is looked at: what happens meanwhile must wake the pod.
            self.wait(id, &name);
            let below = self.ensure_one(id, &name, ephemeral.contains(&name)).await?;
            self.wait_no_more(id, &name);
            names.insert(name, below);
        }
        Ok(names)
    }

    async fn ensure_one(&self, id: &PodId, name: &str, ephemeral: bool) -> Result<String, PodError> {
        let found: Option<DynamicObject> =
            self.above_claims(&id.namespace).get_opt(name).await.map_err(|error| answer::upper_error(&error))?;
        let Some(object) = found else {
            return Err(refused("ClaimNotFound", format!("persistentvolumeclaim {name:?} not found")));
        };
        let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true));
        if ephemeral && owner.is_none_or(|owner| *owner.uid != *id.uid) {
            let message = format!("claim {name} was not made for this pod's ephemeral volume; rename one of them");
            return Err(refused("ClaimNotOwned", message));
        }
        let claim =
            Claim { namespace: id.namespace.to_string(), name: name.to_owned(), uid: object.uid().unwrap_or_default() };
        let settled = self.settle(&claim, true).await?;
        if settled.trouble.is_some() {
            self.queue.add_at(claim.clone(), Instant::now() + RETRY_FIRST);
        }
        match settled.standing {
            Standing::Below(below) => Ok(below),
            Standing::Problem(problem) => Err(refused(problem.reason(), problem.to_string())),
            Standing::Foreign | Standing::Open => {
                Err(PodError::Unavailable(format!("claim {name} is not in the lower cluster yet")))
            }
        }
    }

    /// Settles claims until `token` is cancelled, and wakes through `feed` the pods that wait for them.
    pub(crate) async fn run(self: &Arc<Self>, feed: PodFeed, token: CancellationToken) {
        if self.feed.set(feed).is_err() {
            return tracing::error!("volumes are settled already");
        }
        Box::pin(token.run_until_cancelled(async { tokio::join!(self.watch(), self.work()) })).await;
    }

    async fn work(self: &Arc<Self>) {
        let (slots, tasks) = (Arc::new(Semaphore::new(WORKERS)), TaskTracker::new());
        loop {
            let claim = self.queue.next().await;
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let volumes = self.clone();
            tasks.spawn(async move {
                let _slot = slot;
                volumes.look_again(&claim).await;
                volumes.queue.done(&claim);
            });
        }
    }

    async fn look_again(&self, claim: &Claim) {
        let name: Name = (claim.namespace.as_str().into(), claim.name.clone());
        let wanted = lock(&self.waiting).contains_key(&name);
        let trouble = match self.settle(claim, wanted).await {
            Ok(Settled { standing, trouble }) => {
                match &standing {
                    Standing::Problem(problem) if !wanted => {
                        self.tell(claim, problem.reason(), &problem.to_string()).await;
                    }
                    _ => self.wake(&name),
                }
                trouble
            }
            Err(error) => Some(error),
        };
        let Some(error) = trouble else {
            lock(&self.failures).remove(claim);
            return;
        };
        tracing::warn!(namespace = claim.namespace, claim = claim.name, %error, "claim not settled");
        if let (PodError::Refused(refused), false) = (&error, wanted) {
            self.tell(claim, refused.reason, &refused.message).await;
        }
        let failures = *lock(&self.failures).entry(claim.clone()).and_modify(|count| *count += 1).or_insert(1);
        let wait = back_off(RETRY_FIRST, RETRY_MOST, failures, chance());
        self.queue.add_at(claim.clone(), Instant::now() + wait);
    }

    /// Does for `claim` what there is to do. `wanted`: a pod of ours needs it.
    async fn settle(&self, claim: &Claim, wanted: bool) -> Result<Settled, PodError> {
        for _ in 0..STEPS {
            let facts = self.facts(claim, wanted).await?;
            let planned = plan(claim, &facts, &self.storage, &self.link);
            let Some(action) = planned.action else {
                self.note(claim, facts.lower.is_some());
                self.keep_secrets(&facts).await?;
                return Ok(Settled { standing: planned.standing, trouble: None });
            };
            if let Err(error) = self.perform(claim, &facts, action).await {
                // A claim that is below is of use, also while it cannot grow or be shown.
                return match planned.standing {
                    Standing::Below(_) => Ok(Settled { standing: planned.standing, trouble: Some(error) }),
                    _ => Err(error),
                };
            }
        }
        Err(PodError::Unavailable(format!("claim {} changes all the time", claim.name)))
    }

    /// Notes whether there is a copy of the claim below.
    fn note(&self, claim: &Claim, is_below: bool) {
        let mut copies = lock(&self.copies);
        if is_below {
            copies.insert(claim.clone());
        } else {
            copies.remove(claim);
        }
    }

    fn wait(&self, id: &PodId, claim: &str) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= WAITED_FOR
            && let Some(feed) = self.feed.get()
        {
            waiting.retain(|_, pods| {
                pods.retain(|pod| feed.wanted(pod));
                !pods.is_empty()
            });
        }
        waiting.entry((id.namespace.clone(), claim.to_owned())).or_default().insert(id.clone());
    }

    fn wait_no_more(&self, id: &PodId, claim: &str) {
        let mut waiting = lock(&self.waiting);
        let name = (id.namespace.clone(), claim.to_owned());
        if let Some(pods) = waiting.get_mut(&name) {
            pods.remove(id);
            if pods.is_empty() {
                waiting.remove(&name);
            }
        }
    }

    /// Wakes the pods that wait for a claim of this name.
    fn wake(&self, name: &Name) {
        let pods = lock(&self.waiting).remove(name).unwrap_or_default();
        for (feed, id) in self.feed.get().iter().flat_map(|feed| pods.iter().map(move |id| (feed, id))) {
            feed.retry(id);
        }
    }

    /// A warning on the claim upstairs: where no pod is here yet that could tell, as while the scheduler waits for it.
    async fn tell(&self, claim: &Claim, reason: &str, message: &str) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("PersistentVolumeClaim".to_owned()),
            namespace: Some(claim.namespace.clone()),
            name: Some(claim.name.clone()),
            uid: Some(claim.uid.clone()),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(message.chars().take(1000).collect()),
            action: "Provision".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &about).await {
            tracing::warn!(namespace = claim.namespace, claim = claim.name, %error, "event not recorded");
        }
    }

    fn above_claims(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.upper.clone(), namespace, &ApiResource::erase::<PersistentVolumeClaim>(&()))
    }
}

fn refused(reason: &'static str, message: String) -> PodError {
    PodError::Refused(Refused { reason, message })
}
