// SPDX-License-Identifier: Apache-2.0
//! Events of our lower pods, shown on their upper pods.
//!
//! One watch follows the events about pods below. What is to be shown waits in a bounded table, one entry for each event,
//! so that a count that rises meanwhile costs one request; it is written within the limits, in all and for each pod.
//! After a restart, or when the watch has to list anew, what is on the upper events says what has been shown.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
    core::{PartialObjectMeta, Request},
};
use serde::Deserialize;
use serde_json::Value;
use tensile_core::{
    event::{About, upper_event, upper_name},
    names,
};
use tensile_runtime::clients::TokenBucket;
use tokio::time::{Instant, sleep};
use virtual_kubelet::{
    pod::PodId,
    queue::Queue,
    watched::{Seen, Selection, View, Watched, follow},
};

use super::{LowerCluster, Place};
use crate::heard::within;

/// That the lower scheduler found a node is told by the pod's status.
const ABOUT_PODS: &str = "involvedObject.kind=Pod,reason!=Scheduled";
/// Events of one pod at once, and a second in the long run: more than recorders write of one object by themselves.
const POD_BURST: u32 = 25;
const POD_QPS: f32 = 0.1;
/// Seconds' worth of events that may be shown at once.
const BURST: f32 = 5.0;
/// Events that wait; of ordinary ones, half as many. More are passed over.
const WAITING: usize = 2_000;
/// Pods of which it is remembered how much was shown of them.
const PODS: usize = 1_000;
/// An event may be here before its pod.
const POD_COMES: Duration = Duration::from_secs(1);
/// How long to wait before an upper API server that is away is asked again.
const AGAIN: Duration = Duration::from_secs(5);
/// Objects per answer.
const PAGE: u32 = 500;

/// What is read of an event when it comes.
#[derive(Clone, Debug)]
struct EventView {
    /// UID of the lower pod.
    pod: Option<u128>,
    warning: bool,
}

impl View for EventView {
    type Kind = Event;

    fn parse(raw: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Object {
            involved_object: Involved,
            #[serde(default, rename = "type")]
            kind: String,
        }
        #[derive(Deserialize)]
        struct Involved {
            #[serde(default)]
            uid: String,
        }
        let object: Object = serde_json::from_str(raw)?;
        Ok(Self { pod: number(&object.involved_object.uid), warning: object.kind == "Warning" })
    }
}

/// A UID of an API server as the number it is.
pub(super) fn number(uid: &str) -> Option<u128> {
    u128::from_str_radix(&uid.replace('-', ""), 16).ok()
}

/// Namespace and name of a lower event.
type Key = (String, String);

struct Showing {
    upper: Client,
    waiting: Mutex<HashMap<Key, Watched<EventView>>>,
    queue: Queue<Key>,
}

impl Showing {
    fn waiting(&self) -> MutexGuard<'_, HashMap<Key, Watched<EventView>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an event among those that wait, if there is room, to be shown `after` some time.
    fn wait(&self, event: Watched<EventView>, after: Duration) {
        let Ok(view) = &event.view else { return };
        let key = (event.namespace().unwrap_or_default(), event.name_any());
        let mut waiting = self.waiting();
        let room = if view.warning { WAITING } else { WAITING / 2 };
        if waiting.len() >= room && !waiting.contains_key(&key) {
            return tracing::debug!(namespace = key.0, event = key.1, "too many events wait; this one is passed over");
        }
        waiting.insert(key.clone(), event);
        drop(waiting);
        if after.is_zero() { self.queue.add(key) } else { self.queue.add_at(key, Instant::now() + after) }
    }
}

impl LowerCluster {
    /// Shows the events of our pods upstairs, `qps` a second in the long run. Does not end.
    pub async fn show_events(&self, upper: Client, qps: f32) {
        // Whose an event is, is known once the pods are.
        if self.listed.subscribe().wait_for(|listed| *listed).await.is_err() {
            return;
        }
        let showing = Showing { upper, waiting: Mutex::default(), queue: Queue::new() };
        tokio::join!(self.hear(&showing), self.show(&showing, qps));
    }

    async fn hear(&self, showing: &Showing) {
        let events: Api<Watched<EventView>> = within(&self.client, &self.link);
        let selection = Selection { fields: Some(ABOUT_PODS.to_owned()), ..Selection::default() };
        let mut events = std::pin::pin!(follow(events, selection));
        let mut shown = HashMap::new();
        while let Some(event) = events.next().await {
            match event {
                Seen::Begin => shown = self.shown(&showing.upper).await,
                Seen::Complete => shown = HashMap::new(),
                Seen::Listed(event) => {
                    let Some(pod) = self.pod_of(&event) else { continue };
                    let revision = event.resource_version().unwrap_or_default();
                    if shown.get(&upper_name(&about(&pod), &event.name_any())) != Some(&revision) {
                        showing.wait(event, Duration::ZERO);
                    }
                }
                Seen::Changed(event) => {
                    let known = self.pod_of(&event).is_some();
                    showing.wait(event, if known { Duration::ZERO } else { POD_COMES });
                }
                Seen::Deleted(_) => {}
            }
        }
    }

    /// The events that were shown: their names, and the revisions below.
    async fn shown(&self, upper: &Client) -> HashMap<String, String> {
        let events: Api<PartialObjectMeta<Event>> = Api::all(upper.clone());
        let ours = format!("{}={}", names::VIRTUAL_NODE, names::label_value(&self.link.virtual_node));
        let mut params = ListParams::default().labels(&ours).limit(PAGE);
        let mut shown = HashMap::new();
        loop {
            match events.list(&params).await {
                Ok(page) => {
                    shown.extend(page.items.into_iter().filter_map(|mut event| {
                        let revision = event.annotations_mut().remove(names::APPLIED_REVISION)?;
                        Some((event.name_any(), revision))
                    }));
                    match page.metadata.continue_.filter(|token| !token.is_empty()) {
                        Some(token) => params = params.continue_token(&token),
                        None => return shown,
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 410 => params.continue_token = None,
                Err(error) => {
                    tracing::warn!(%error, "events of pods cannot be listed upstairs");
                    sleep(AGAIN).await;
                }
            }
        }
    }

    /// The upper pod that the event is about, if its lower pod is ours.
    fn pod_of(&self, event: &Watched<EventView>) -> Option<PodId> {
        let lower = event.view.as_ref().ok()?.pod?;
        self.by_lower_uid().get(&lower).cloned()
    }

    async fn show(&self, showing: &Showing, qps: f32) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
        let mut in_all = TokenBucket::new(qps, (qps * BURST) as u32, Instant::now());
        let mut of_pods: HashMap<PodId, TokenBucket> = HashMap::new();
        loop {
            let key = showing.queue.next().await;
            let pod = showing.waiting().get(&key).and_then(|event| self.pod_of(event));
            if let Some(pod) = pod {
                if of_pods.len() >= PODS {
                    of_pods.retain(|_, bucket| !bucket.is_full(Instant::now()));
                }
                let of_pod = of_pods.entry(pod.clone());
                let of_pod = of_pod.or_insert_with(|| TokenBucket::new(POD_QPS, POD_BURST, Instant::now()));
                if let Err(wait) = of_pod.take(Instant::now()) {
                    showing.queue.add_at(key.clone(), Instant::now() + wait);
                } else {
                    while let Err(wait) = in_all.take(Instant::now()) {
                        sleep(wait).await;
                    }
                    self.show_one(showing, &key, &pod).await;
                }
            } else {
                showing.waiting().remove(&key);
            }
            showing.queue.done(&key);
        }
    }

    async fn show_one(&self, showing: &Showing, key: &Key, pod: &PodId) {
        let Some(event) = showing.waiting().remove(key) else { return };
        let lower: Value = serde_json::from_str(event.raw.get()).unwrap_or_default();
        let mut renamed = self.objects.renamed(&pod.uid);
        let Place { namespace, name } = self.place(pod);
        renamed
            .extend([(namespace.into_owned(), pod.namespace.to_string()), (name.into_owned(), pod.name.to_string())]);
        let Some(upper) = upper_event(&lower, &about(pod), &renamed, &self.link.virtual_node) else { return };
        match put(&showing.upper, pod, &upper).await {
            Ok(()) => {}
            // The namespace or the pod is going, or it is not allowed.
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                tracing::warn!(pod = %pod, error = status.message, "event of a lower pod not shown");
            }
            Err(error) => {
                tracing::warn!(pod = %pod, %error, "event of a lower pod not shown, trying again");
                if !showing.waiting().contains_key(key) {
                    showing.wait(event, AGAIN);
                }
            }
        }
    }
}

/// An event may be created by its replacement (Kubernetes `pkg/registry/core/event/strategy.go`).
async fn put(client: &Client, pod: &PodId, event: &Value) -> kube::Result<()> {
    let name = event["metadata"]["name"].as_str().unwrap_or_default();
    let body = serde_json::to_vec(event).map_err(kube::Error::SerdeError)?;
    let request = Request::new(format!("/api/v1/namespaces/{}/events", pod.namespace));
    let request = request.replace(name, &PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
    client.request_text(request).await.map(drop)
}

fn about(pod: &PodId) -> About<'_> {
    About { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_known_by_the_uid_of_its_pod_and_its_type() {
        let uid = "0a1b2c3d-0000-4000-8000-0123456789ab";
        let view = EventView::parse(&format!(r#"{{"involvedObject":{{"uid":"{uid}"}},"type":"Warning"}}"#)).unwrap();
        assert_eq!((view.pod, view.warning), (Some(0x0a1b_2c3d_0000_4000_8000_0123_4567_89ab), true));
        let view = EventView::parse(r#"{"involvedObject":{"uid":"node-1"},"type":"Normal"}"#).unwrap();
        assert_eq!((view.pod, view.warning), (None, false));
        assert!(EventView::parse("{}").is_err());
    }
}
