//! One trace for each pod start, from when it was bound upstairs until it was shown there as running.

use std::{
    convert::Infallible,
    time::{Duration, SystemTime},
};

use http::Uri;
use tensile_runtime::{
    shutdown::Tasks,
    traces::{self, Span, Trace, Tracer},
};
use tokio::{sync::mpsc, time::Instant};
use virtual_kubelet::pod::{PodController, PodProvider, PodStart};

/// Starts that wait to be told.
const WAITING: usize = 256;

/// Sends a trace of each pod that comes to run on `node` to the collector at `endpoint`.
pub(crate) fn start<P: PodProvider>(pods: &PodController<P>, node: &str, endpoint: Uri, tasks: &mut Tasks) {
    let (tracer, exporter) = traces::channel("virtual-node");
    let (starts, told) = of_starts(node, tracer);
    pods.tell_starts(starts);
    let stop = tasks.stop();
    tasks.spawn("traces of pods", {
        let stop = stop.clone();
        async move {
            stop.run_until_cancelled(told).await;
            Ok::<_, Infallible>(())
        }
    });
    tasks.spawn("trace exporter", exporter.run(endpoint, stop));
}

/// What becomes of the starts of pods: traces for `tracer`. The task that sees to it ends with the last sender.
fn of_starts(node: &str, tracer: Tracer) -> (mpsc::Sender<PodStart>, impl Future<Output = ()> + use<>) {
    let (sender, mut starts) = mpsc::channel::<PodStart>(WAITING);
    let node = node.to_owned();
    let told = async move {
        while let Some(start) = starts.recv().await {
            // The clock that counts has no date.
            let begin = SystemTime::now() - (Instant::now() - start.begin);
            if let Some(trace) = trace(&node, &start, begin) {
                tracer.tell(trace);
            }
        }
    };
    (sender, told)
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
        id: uuid(&start.id.uid)?,
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

/// The sixteen bytes of a UUID.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.split('-').collect();
    // Shorter ones, and signs that `from_str_radix` would take, are none.
    let is_one = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| u128::from_str_radix(&digits, 16).ok()).flatten().map(u128::to_be_bytes)
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
            assert_eq!(uuid(text), None, "{text}");
        }
    }
}
