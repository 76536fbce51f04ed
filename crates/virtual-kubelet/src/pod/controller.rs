// SPDX-License-Identifier: Apache-2.0
//! The loops: the watch of upper pods, the provider's feed, and the workers between them.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{Api, Client};
use prometheus::Registry;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    PodFeed, PodId, PodProvider, PodStart,
    execute::Executor,
    metrics::Metrics,
    pairs::Pairs,
    upper::{UpperPod, digest},
};
use crate::{
    back_off::{back_off, chance},
    events::Events,
    watched::{Seen, Selection, Watched, follow},
};

/// First and longest wait before a step that failed is tried again; there is no last try.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MOST: Duration = Duration::from_secs(60);

/// Settings of a [`PodController`].
#[derive(Clone, Debug)]
pub struct PodControllerConfig {
    /// Name of the virtual node.
    pub node: String,
    /// How many pods are worked on at the same time.
    pub workers: usize,
}

/// Runs the pods of one virtual node on one provider.
pub struct PodController<P> {
    executor: Arc<Executor<P>>,
    workers: usize,
}

impl<P: PodProvider> PodController<P> {
    /// A controller that has not begun yet. Its metrics go to `registry`.
    ///
    /// # Errors
    /// When the registry has metrics of a node of the same name already.
    pub fn new(
        client: Client,
        provider: Arc<P>,
        config: &PodControllerConfig,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let events = Events::new(client.clone(), &config.node);
        let metrics = Metrics::new(&config.node)?;
        let (pairs, node) = (Arc::new(Pairs::new(metrics.stages.clone())), config.node.as_str().into());
        metrics.register(registry, &config.node, pairs.clone())?;
        let executor = Executor { client, provider, pairs, events, metrics, node };
        Ok(Self { executor: Arc::new(executor), workers: config.workers.max(1) })
    }

    /// A handle to the pods, for metrics and for waking up what waits.
    pub fn pods(&self) -> PodsHandle {
        PodsHandle(self.executor.pairs.clone())
    }

    /// Tells `starts` of each pod that came to run while this looked, once that is shown upstairs. What it does not take at
    /// once is lost.
    pub fn tell_starts(&self, starts: mpsc::Sender<PodStart>) {
        self.executor.pairs.tell_starts(starts);
    }

    /// Works until `token` is cancelled; then finishes the steps under way, for five seconds at most.
    pub async fn run(&self, token: CancellationToken) {
        let mut loops = JoinSet::new();
        loops.spawn(token.clone().run_until_cancelled_owned(watch_upper(self.executor.clone())));
        let (provider, feed) = (self.executor.provider.clone(), PodFeed(self.executor.pairs.clone()));
        let provider_token = token.clone();
        loops.spawn(async move {
            provider.notify_pods(feed, provider_token).await;
            Some(())
        });
        self.work(token).await;
        loops.shutdown().await;
    }

    async fn work(&self, token: CancellationToken) {
        let slots = Arc::new(Semaphore::new(self.workers));
        let mut working = JoinSet::new();
        loop {
            while let Some(ended) = working.try_join_next() {
                report_panic(ended);
            }
            let next = async {
                let slot = slots.clone().acquire_owned().await;
                (slot, self.executor.pairs.queue.next().await)
            };
            let Some((Ok(slot), uid)) = token.run_until_cancelled(next).await else { break };
            let executor = self.executor.clone();
            working.spawn(async move {
                let _slot = slot;
                let work = Work { pairs: &executor.pairs, uid };
                executor.reconcile(&work.uid).await;
            });
        }
        let drained = async {
            while let Some(ended) = working.join_next().await {
                report_panic(ended);
            }
        };
        if tokio::time::timeout(Duration::from_secs(5), drained).await.is_err() {
            tracing::warn!("steps under way were cut off by the end of the process");
        }
    }
}

/// A key being worked on; given back however the work ends.
struct Work<'a> {
    pairs: &'a Pairs,
    uid: Arc<str>,
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.pairs.queue.done(&self.uid);
    }
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a step panicked; the pod is looked at again when it changes");
    }
}

impl<P: PodProvider> Executor<P> {
    async fn reconcile(&self, uid: &Arc<str>) {
        let now = jiff::Timestamp::now().as_second();
        let Some(step) = self.pairs.step(uid, now) else { return };
        let (id, action) = (step.id.clone(), step.action);
        tracing::debug!(pod = %id, ?action, "step");
        let begin = Instant::now();
        let result = self.perform(step).await;
        self.metrics.count(action, result.is_ok(), begin.elapsed());
        match result {
            Ok(()) => self.pairs.succeeded(&id),
            Err(error) => {
                tracing::warn!(pod = %id, ?action, %error, "step failed");
                self.pairs.failed(&id, |attempts| back_off(RETRY_FIRST, RETRY_MOST, attempts, chance()));
            }
        }
    }
}

async fn watch_upper<P: PodProvider>(executor: Arc<Executor<P>>) {
    let pods: Api<Watched<UpperPod>> = Api::all(executor.client.clone());
    let selection = Selection { fields: Some(format!("spec.nodeName={}", executor.node)), labels: None };
    let pairs = &executor.pairs;
    let mut events = std::pin::pin!(follow(pods, selection));
    while let Some(event) = events.next().await {
        match event {
            Seen::Begin => pairs.upper_list_begins(),
            Seen::Listed(object) => {
                if let Some((pod, text)) = digest(object) {
                    pairs.upper_listed(pod, text);
                }
            }
            Seen::Complete => pairs.upper_list_ends(),
            Seen::Changed(object) => {
                if let Some((pod, text)) = digest(object) {
                    pairs.upper_seen(pod, text);
                }
            }
            Seen::Deleted(object) => {
                if let Ok(pod) = object.view {
                    pairs.upper_gone(&pod.id);
                }
            }
        }
    }
}

/// The pods of a running controller.
#[derive(Clone, Debug)]
pub struct PodsHandle(Arc<Pairs>);

impl PodsHandle {
    /// How many pods the controller knows.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// How many pods are due to be looked at.
    pub fn queue_depth(&self) -> usize {
        self.0.queue.depth()
    }

    /// The pod of this name that is bound to the node; an earlier one that is on its way out has lost the name.
    pub fn find(&self, namespace: &str, name: &str) -> Option<PodId> {
        self.0.find(namespace, name)
    }

    /// The pods that are bound to the node.
    pub fn ids(&self) -> Vec<PodId> {
        self.0.ids()
    }

    /// The backend is back: what failed is tried again at once.
    pub fn retry_all(&self) {
        self.0.retry_all();
    }
}

#[cfg(test)]
impl PodsHandle {
    /// A handle to pods of which only the upper side is known.
    pub(crate) fn of(pods: &[PodId]) -> Self {
        use crate::watched::View;
        let pairs = Pairs::new(Metrics::new("node").unwrap().stages);
        for PodId { namespace, name, uid } in pods {
            let metadata = serde_json::json!({"namespace": **namespace, "name": **name, "uid": **uid});
            let text = serde_json::json!({"metadata": metadata, "spec": {}}).to_string();
            pairs.upper_seen(UpperPod::parse(&text).unwrap(), serde_json::value::RawValue::from_string(text).unwrap());
        }
        Self(Arc::new(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_found_by_its_name_until_it_is_gone() {
        let (first, second) = (PodId::new("n", "a", "1"), PodId::new("m", "a", "2"));
        let pods = PodsHandle::of(&[first.clone(), second.clone()]);
        assert_eq!(pods.find("n", "a"), Some(first.clone()));
        assert_eq!(pods.find("m", "a"), Some(second));
        assert_eq!((pods.find("n", "b"), pods.find("o", "a")), (None, None));
        assert_eq!(pods.ids().len(), 2);
        pods.0.upper_gone(&first);
        assert_eq!(pods.ids().len(), 1);
        assert_eq!(pods.find("n", "a"), None);
    }
}
