//! Warnings on upper pods, for `kubectl describe`. Repetitions are counted by the recorder, not written anew.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};

use super::{PodId, Refused};

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
        let event = Event {
            type_: EventType::Warning,
            reason: refused.reason.to_owned(),
            note: Some(shorten(&refused.message)),
            action: "Run".to_owned(),
            secondary: None,
        };
        let pod = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(id.namespace.to_string()),
            name: Some(id.name.to_string()),
            uid: Some(id.uid.to_string()),
            ..ObjectReference::default()
        };
        if let Err(error) = self.recorder.publish(&event, &pod).await {
            tracing::warn!(pod = %id, %error, "event not recorded");
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
