// SPDX-License-Identifier: Apache-2.0
//! The kubelets below, asked through their API server: only those that run our pods, all at once, none for long.

use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::{Client, client::Body};
use tensile_core::stats::{Picked, Picker, PodReading, Reading, Roster, Sample, bytes, cpu_nanos, summary};
use tokio::time::{Instant, timeout_at};

use super::Failure;

/// Kubelets that are asked at the same time.
const AT_ONCE: usize = 16;
/// How long one kubelet may take: one that is dead must not hold up the others.
const EACH: Duration = Duration::from_secs(5);
/// How long all of them may take together: less than the ten seconds after which readers give up.
const ALL: Duration = Duration::from_secs(8);
/// As much as is kept, or read, of one kubelet's answer.
const LIMIT: usize = 64 << 20;

/// What the kubelets said.
#[derive(Debug)]
pub(super) struct Asked<T> {
    pub(super) answers: Vec<T>,
    pub(super) failed: Vec<(Arc<str>, Failure)>,
    /// The API server does not let us ask.
    pub(super) forbidden: bool,
}

/// What one kubelet said in Prometheus text.
#[derive(Debug, Default)]
pub(super) struct Exposed {
    pub(super) picked: Picked,
    /// CPU time of pods.
    pub(super) readings: Vec<PodReading>,
    /// Memory of all of them, in bytes.
    pub(super) memory: u64,
}

impl Asked<Exposed> {
    /// All that was said, and whether it is all there is.
    pub(super) fn merged(self) -> (Exposed, bool) {
        let mut all = Exposed::default();
        for Exposed { picked, readings, memory } in self.answers {
            all.picked.incomplete |= picked.incomplete;
            all.picked.families.merge(picked.families);
            all.readings.extend(readings);
            all.memory = all.memory.saturating_add(memory);
        }
        let complete = self.failed.is_empty() && !all.picked.incomplete;
        (all, complete)
    }
}

/// Metrics at `path` of the kubelets of `roster`, as virtual node `node` shows them.
pub(super) async fn exposed(client: &Client, roster: &Roster, node: &str, path: &str) -> Asked<Exposed> {
    ask(client, roster.nodes(), path, |lower_node, mut body| async move {
        let mut exposed = Exposed::default();
        let Exposed { readings, memory, .. } = &mut exposed;
        let seen = |sample: &Sample<'_>| match sample.name {
            "pod_cpu_usage_seconds_total" => {
                if let (Some(at), Some(nanos)) = (sample.at, cpu_nanos(sample.value)) {
                    let (uid, since) = (sample.member.uid.clone(), sample.member.since);
                    readings.push(PodReading { uid, since, reading: Reading { at, nanos } });
                }
            }
            "pod_memory_working_set_bytes" => {
                *memory = memory.saturating_add(bytes(sample.value).unwrap_or_default());
            }
            _ => {}
        };
        let mut picker = Picker::new(roster, &lower_node, node, LIMIT, seen);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Failure::away(error.to_string()))?;
            if let Some(chunk) = frame.data_ref() {
                picker.feed(chunk).map_err(|error| Failure::away(error.to_string()))?;
            }
        }
        exposed.picked = picker.finish().map_err(|error| Failure::away(error.to_string()))?;
        Ok(exposed)
    })
    .await
}

/// Summaries at `path` of the kubelets of `roster`.
pub(super) async fn summaries(client: &Client, roster: &Roster, path: &str) -> Asked<summary::Picked> {
    ask(client, roster.nodes(), path, |lower_node, body| async move {
        let json = whole(body).await?;
        summary::pick(&json, &lower_node, roster).map_err(|error| Failure::away(format!("no summary: {error}")))
    })
    .await
}

/// All of an answer's body.
pub(super) async fn whole(body: Body) -> Result<Bytes, Failure> {
    let body = Limited::new(body, LIMIT).collect().await.map_err(|error| Failure::away(error.to_string()))?;
    Ok(body.to_bytes())
}

async fn ask<T, F>(
    client: &Client,
    nodes: BTreeSet<Arc<str>>,
    path: &str,
    read: impl Fn(Arc<str>, Body) -> F,
) -> Asked<T>
where
    F: Future<Output = Result<T, Failure>>,
{
    let (begun, read) = (Instant::now(), &read);
    let answers = stream::iter(nodes).map(|node| async move {
        let path = format!("/api/v1/nodes/{node}/proxy/{path}");
        let one = async { read(node.clone(), get(client, &path).await?).await };
        let answer = timeout_at((Instant::now() + EACH).min(begun + ALL), one).await;
        let answer = answer.unwrap_or_else(|_| Err(Failure::away("no answer in time")));
        (node, answer)
    });
    let mut asked = Asked { answers: Vec::new(), failed: Vec::new(), forbidden: false };
    let mut answers = std::pin::pin!(answers.buffer_unordered(AT_ONCE));
    while let Some((node, answer)) = answers.next().await {
        match answer {
            Ok(answer) => asked.answers.push(answer),
            Err(failure) => {
                asked.forbidden |= failure.status == StatusCode::FORBIDDEN;
                asked.failed.push((node, failure));
            }
        }
    }
    asked
}

/// What the lower API server has at `path`; its refusals keep their status.
pub(super) async fn get(client: &Client, path: &str) -> Result<Body, Failure> {
    let away = |error: &dyn std::error::Error| Failure::away(format!("lower API server: {error}"));
    let request = Request::get(path).body(Body::empty()).map_err(|error| away(&error))?;
    let answer = client.send(request).await.map_err(|error| away(&error))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer.into_body());
    }
    Err(Failure { status, message: format!("the lower API server answers {status} to {path}").into() })
}
