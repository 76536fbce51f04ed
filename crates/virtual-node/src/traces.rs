// SPDX-License-Identifier: Apache-2.0
//! One trace for each pod start, from when it was bound upstairs until it was shown there as running.

use std::time::{Duration, SystemTime};

use http::Uri;
use tensile_core::scheduling::Uid;
use tensile_runtime::{
    shutdown::Tasks,
    traces::{self, Span, Trace},
};
use tokio::{sync::mpsc, time::Instant};
use virtual_kubelet::pod::{PodController, PodProvider, PodStart};

use crate::config::COMPONENT;

/// Sends a trace of each pod that comes to run on `node` to the collector at `endpoint`.
pub(crate) fn start<P: PodProvider>(pods: &PodController<P>, node: &str, endpoint: Uri, tasks: &mut Tasks) {
    let (starts, told) = mpsc::channel(traces::WAITING);
    pods.tell_starts(starts);
    let node = node.to_owned();
    // The clock that counts has no date.
    let dated = move |start: &PodStart| trace(&node, start, SystemTime::now() - (Instant::now() - start.begin));
    let stop = tasks.stop();
    tasks.spawn("traces", traces::export(COMPONENT, endpoint, told, dated, stop));
}

/// The trace of `start`, which began at `begin`; none for a pod whose UID is none.
fn trace(node: &str, start: &PodStart, begin: SystemTime) -> Option<Trace> {
    let mut at = begin;
    let mut span = |name: &'static str, took: Duration| {
        let span = Span { name, begin: at, end: at + took };
        at = span.end;
        span
    };
    let parts: Vec<Span> = start.stages.iter().map(|(name, took)| span(name, *took)).collect();
    Some(Trace {
        id: Uid::of_uuid(&start.id.uid)?.to_be_bytes(),
        whole: Span { name: "pod start", begin, end: at },
        attributes: vec![
            ("k8s.namespace.name", start.id.namespace.to_string()),
            ("k8s.pod.name", start.id.name.to_string()),
            ("k8s.pod.uid", start.id.uid.to_string()),
            ("k8s.node.name", node.to_owned()),
        ],
        parts,
    })
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use virtual_kubelet::pod::PodId;

    use super::*;

    const UID: &str = "00112233-4455-6677-8899-aabbccddeeff";

    #[test]
    fn the_stages_of_a_start_follow_one_another_in_a_trace_with_the_uid_of_the_pod() {
        let second = Duration::from_secs(1);
        let stages = vec![("create", second), ("start", 2 * second), ("show", second)];
        let start = PodStart { id: PodId::new("n", "web", UID), begin: Instant::now(), stages };
        let trace = trace("east", &start, UNIX_EPOCH).unwrap();
        assert_eq!(
            trace.id,
            [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]
        );
        let span = |name, begin: u32, end: u32| Span {
            name,
            begin: UNIX_EPOCH + begin * second,
            end: UNIX_EPOCH + end * second,
        };
        assert_eq!(trace.whole, span("pod start", 0, 4));
        assert_eq!(trace.parts, [span("create", 0, 1), span("start", 1, 3), span("show", 3, 4)]);
        let value = |key| trace.attributes.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_str());
        assert_eq!((value("k8s.pod.name"), value("k8s.namespace.name")), (Some("web"), Some("n")));
        assert_eq!((value("k8s.pod.uid"), value("k8s.node.name")), (Some(UID), Some("east")));
    }

    #[test]
    fn what_is_no_uuid_makes_no_trace() {
        for text in ["", "u", "+0112233-4455-6677-8899-aabbccddeeff", "00112233-4455-6677-8899-aabbccddee"] {
            let start = PodStart { id: PodId::new("n", "web", text), begin: Instant::now(), stages: Vec::new() };
            assert_eq!(trace("east", &start, UNIX_EPOCH), None, "{text}");
        }
    }
}
