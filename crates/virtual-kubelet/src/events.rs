// SPDX-License-Identifier: Apache-2.0
//! Events on upper pods and on the node, for `kubectl describe`. Repetitions are counted by the recorder, not written
//! anew.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};

use crate::pod::{PodId, Refused};

/// Records events in the name of one node.
pub(crate) struct Events {
    recorder: Recorder,
}

impl Events {
    pub(crate) fn new(client: Client, node: &str) -> Self {
        let reporter = Reporter { controller: "virtual-kubelet".to_owned(), instance: Some(node.to_owned()) };
        Self { recorder: Recorder::new(client, reporter) }
    }

    /// A warning on the pod. That it cannot be written is no reason to stop: the condition tells the same.
    pub(crate) async fn warn(&self, id: &PodId, refused: &Refused) {
        let pod = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(id.namespace.to_string()),
            name: Some(id.name.to_string()),
            uid: Some(id.uid.to_string()),
            ..ObjectReference::default()
        };
        self.record(&pod, EventType::Warning, refused.reason, "Run", &refused.message).await;
    }

    /// An event on the node of this name. Its UID is the name, as in a kubelet's own events.
    pub(crate) async fn on_node(&self, node: &str, kind: EventType, reason: &str, action: &str, message: &str) {
        let node = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            uid: Some(node.to_owned()),
            ..ObjectReference::default()
        };
        self.record(&node, kind, reason, action, message).await;
    }

    async fn record(&self, about: &ObjectReference, kind: EventType, reason: &str, action: &str, message: &str) {
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(shorten(message)),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, about).await {
            tracing::warn!(namespace = about.namespace, name = about.name, %error, "event not recorded");
        }
    }
}

/// A note may have 1,024 bytes (Kubernetes `pkg/apis/core/validation/events.go`, `NoteLengthLimit`).
fn shorten(message: &str) -> String {
    const LIMIT: usize = 1024;
    if message.len() <= LIMIT {
        return message.to_owned();
    }
    let mut end = LIMIT - "...".len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_at_a_character_and_a_short_one_is_not() {
        assert_eq!(shorten("short"), "short");
        let cut = shorten(&"ü".repeat(600));
        assert!(cut.len() <= 1024 && cut.ends_with("ü..."));
    }
}
