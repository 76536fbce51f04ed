// SPDX-License-Identifier: Apache-2.0
//! Events on pods and on their owners, written aside: nothing waits for them.

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tensile_core::deschedule::Pod;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Events that wait to be written; more are dropped.
const WAITING: usize = 1024;
/// Events that are written at the same time: what is done for pods comes first.
const AT_ONCE: usize = 4;

/// Where events are given.
#[derive(Debug, Clone)]
pub struct Teller(mpsc::Sender<(Event, ObjectReference)>);

/// Makes a teller, and what writes for it until `stop`.
pub fn teller(
    client: Client,
    instance: &str,
    stop: CancellationToken,
) -> (Teller, impl Future<Output = ()> + Send + use<>) {
    let (sender, mut events) = mpsc::channel::<(Event, ObjectReference)>(WAITING);
    let reporter = Reporter { controller: "tensile-descheduler".to_owned(), instance: Some(instance.to_owned()) };
    let recorder = Recorder::new(client, reporter);
    let told = stream::poll_fn(move |cx| events.poll_recv(cx)).take_until(stop.cancelled_owned());
    let write = told.for_each_concurrent(AT_ONCE, move |(event, about)| {
        let recorder = recorder.clone();
        async move {
            if let Err(error) = recorder.publish(&event, &about).await {
                tracing::warn!(name = about.name, %error, "event not recorded");
            }
        }
    });
    (Teller(sender), write)
}

impl Teller {
    /// Something was done to the pod: tells its owner, which stays, and names the pod; without one, the pod.
    pub fn moved(&self, pod: &Pod, reason: &str, note: &str) {
        match owner(pod) {
            Some(owner) => {
                let note = format!("{}: {note}", pod.name);
                self.tell(EventType::Normal, reason, &note, owner, Some(this(pod)));
            }
            None => self.tell(EventType::Normal, reason, note, this(pod), None),
        }
    }

    /// Something is not done, or failed: warns on the pod.
    pub fn warn(&self, pod: &Pod, reason: &str, note: &str) {
        self.tell(EventType::Warning, reason, note, this(pod), owner(pod));
    }

    fn tell(&self, kind: EventType, reason: &str, note: &str, about: ObjectReference, other: Option<ObjectReference>) {
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(shortened(note)),
            action: "Deschedule".to_owned(),
            secondary: other,
        };
        if self.0.try_send((event, about)).is_err() {
            tracing::warn!(reason, "event dropped: too many wait to be written");
        }
    }
}

fn this(pod: &Pod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.to_string()),
        name: Some(pod.name.to_string()),
        uid: Some(pod.uid.to_string()),
        ..ObjectReference::default()
    }
}

fn owner(pod: &Pod) -> Option<ObjectReference> {
    let owner = pod.owner.as_ref()?;
    Some(ObjectReference {
        api_version: Some(owner.api_version.to_string()),
        kind: Some(owner.kind.to_string()),
        namespace: Some(pod.namespace.to_string()),
        name: Some(owner.name.to_string()),
        uid: Some(owner.uid.to_string()),
        ..ObjectReference::default()
    })
}

/// A note may have 1,024 bytes (Kubernetes `pkg/apis/core/validation/events.go`, `NoteLengthLimit`).
fn shortened(note: &str) -> String {
    const LIMIT: usize = 1024;
    let end = (0..=note.len().min(LIMIT)).rev().find(|end| note.is_char_boundary(*end)).unwrap_or_default();
    note[..end].to_owned()
}
