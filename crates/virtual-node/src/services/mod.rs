// SPDX-License-Identifier: Apache-2.0
//! Services and their EndpointSlices, kept in step between the clusters: what is to be done for each the core decides
//! (`tensile_core::service`).
//!
//! Of a Service only its name is kept here, and of pods how many a namespace has. What is heard says "look again", and
//! looking again asks both API servers for the Service and its slices.

mod facts;
mod perform;
mod watch;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tensile_core::{
    pod::LinkView,
    service::{Facts, Networking, plan},
};
use tokio::{
    sync::{Semaphore, watch as channel},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use virtual_kubelet::{
    back_off::{back_off, chance},
    pod::PodError,
    queue::Queue,
};

use crate::lower::namespaces::Namespaces;

/// Services that are settled at the same time.
const WORKERS: usize = 4;
/// Steps in a row for one Service: more than any situation needs, if nobody else changes it meanwhile.
const STEPS: usize = 5;
/// How long a copy outlives the last pod of its namespace: the next one often comes at once.
const LINGER: Duration = Duration::from_secs(10);
/// First and longest wait before a Service in trouble is tried again; there is no last try.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(120);

/// Namespace and name of a Service, the same in both clusters.
type Name = (String, String);

/// The Services of one link.
pub struct Services {
    upper: Client,
    lower: Client,
    link: LinkView,
    namespaces: Arc<Namespaces>,
    networking: Networking,
    recorder: Recorder,
    queue: Queue<Name>,
    /// All Services upstairs.
    known: Mutex<HashSet<Name>>,
    /// Those below that are ours.
    copies: Mutex<HashSet<Name>>,
    /// The namespaces with pods of ours, and with ones that have just gone.
    present: Mutex<HashMap<Arc<str>, Presence>>,
    failures: Mutex<HashMap<Name, u32>>,
}

/// How many pods of ours a namespace has.
#[derive(Debug, Default)]
struct Presence {
    pods: usize,
    /// When the last of them went.
    left: Option<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Services {
    /// Those of `link`. Nothing happens before `Services::run`.
    pub fn new(
        upper: Client,
        lower: Client,
        link: LinkView,
        namespaces: Arc<Namespaces>,
        networking: Networking,
    ) -> Arc<Self> {
        let reporter = Reporter { controller: "virtual-kubelet".to_owned(), instance: Some(link.virtual_node.clone()) };
        let recorder = Recorder::new(upper.clone(), reporter);
        Arc::new(Self {
            upper,
            lower,
            link,
            namespaces,
            networking,
            recorder,
            queue: Queue::new(),
            known: Mutex::default(),
            copies: Mutex::default(),
            present: Mutex::default(),
            failures: Mutex::default(),
        })
    }

    /// A pod of ours has come below.
    pub(crate) fn pod_comes(&self, namespace: &Arc<str>) {
        let mut namespaces = lock(&self.present);
        let presence = namespaces.entry(namespace.clone()).or_default();
        presence.pods += 1;
        presence.left = None;
        if presence.pods == 1 {
            drop(namespaces);
            self.look_at(namespace, None);
        }
    }

    /// One that had come has gone.
    pub(crate) fn pod_goes(&self, namespace: &str) {
        let mut namespaces = lock(&self.present);
        let Some(presence) = namespaces.get_mut(namespace) else { return };
        presence.pods = presence.pods.saturating_sub(1);
        if presence.pods == 0 {
            let now = Instant::now();
            presence.left = Some(now);
            drop(namespaces);
            self.look_at(namespace, Some(now + LINGER));
        }
    }

    /// Queues all Services of a namespace.
    fn look_at(&self, namespace: &str, when: Option<Instant>) {
        for name in lock(&self.known).iter().filter(|name| name.0 == namespace) {
            match when {
                None => self.queue.add(name.clone()),
                Some(when) => self.queue.add_at(name.clone(), when),
            }
        }
    }

    /// Whether the namespace has pods of ours, or had some a moment ago.
    fn has_pods(&self, namespace: &str) -> bool {
        let mut namespaces = lock(&self.present);
        let left = namespaces.get(namespace).map(|presence| presence.left);
        let is_over = left.flatten().is_some_and(|left| left.elapsed() >= LINGER);
        if is_over {
            namespaces.remove(namespace);
        }
        left.is_some() && !is_over
    }

    /// Settles Services until `token` is cancelled; from the moment on that all pods are known, as `listed` says.
    pub(crate) async fn run(self: &Arc<Self>, mut listed: channel::Receiver<bool>, token: CancellationToken) {
        let work = async {
            // Before that, it is not known which Services nobody needs.
            if listed.wait_for(|listed| *listed).await.is_ok() {
                self.work().await;
            }
        };
        Box::pin(token.run_until_cancelled(async { tokio::join!(self.watch(), work) })).await;
    }

    async fn work(self: &Arc<Self>) {
        let (slots, tasks) = (Arc::new(Semaphore::new(WORKERS)), TaskTracker::new());
        loop {
            let name = self.queue.next().await;
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let services = self.clone();
            tasks.spawn(async move {
                let _slot = slot;
                if let Err(error) = services.settle(&name).await {
                    services.failed(&name, &error);
                } else {
                    lock(&services.failures).remove(&name);
                }
                services.queue.done(&name);
            });
        }
    }

    fn failed(&self, name: &Name, error: &PodError) {
        tracing::warn!(namespace = name.0, service = name.1, %error, "service not settled");
        let failures = *lock(&self.failures).entry(name.clone()).and_modify(|count| *count += 1).or_insert(1);
        self.queue.add_at(name.clone(), Instant::now() + back_off(RETRY_FIRST, RETRY_MOST, failures, chance()));
    }

    /// Does for a Service what there is to do.
    async fn settle(&self, name: &Name) -> Result<(), PodError> {
        for _ in 0..STEPS {
            let facts = self.facts(name).await?;
            let planned = plan(&facts, self.networking, &self.link);
            if planned.name_taken {
                self.tell_taken(name, &facts).await;
            }
            if planned.actions.is_empty() {
                return Ok(());
            }
            for member in &planned.dropped {
                tracing::warn!(
                    namespace = name.0,
                    service = name.1,
                    member,
                    "a member of the service is not known here and does not go down"
                );
            }
            for action in planned.actions {
                self.perform(name, action).await?;
            }
        }
        Ok(())
    }

    async fn tell_taken(&self, name: &Name, facts: &Facts) {
        let uid = facts.upper.as_ref().and_then(|upper| upper.pointer("/metadata/uid")?.as_str());
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            namespace: Some(name.0.clone()),
            name: Some(name.1.clone()),
            uid: uid.map(str::to_owned),
            ..ObjectReference::default()
        };
        let message = format!(
            "the lower cluster has a service {}/{} that node {} did not make; it is left alone, and pods there reach that \
             one. Rename one of them",
            self.link.lower_namespace(&name.0),
            self.link.lower_service(&name.0, &name.1),
            self.link.virtual_node
        );
        let event = Event {
            type_: EventType::Warning,
            reason: "LowerNameConflict".to_owned(),
            note: Some(message),
            action: "Copy".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &about).await {
            tracing::warn!(namespace = name.0, service = name.1, %error, "event not recorded");
        }
    }
}
