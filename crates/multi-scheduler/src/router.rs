// SPDX-License-Identifier: Apache-2.0
//! The HTTP around the answers: what is asked where, and what a question must look like.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Query, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tensile_runtime::admin::Readiness;
use tokio::sync::Semaphore;

use crate::access::{AccessError, Gate, Peer};
use crate::explain::FitQuestion;
use crate::fleet::Fleet;
use crate::metrics::{Metrics, Outcome};
use crate::wire::{ArgumentsError, Asked, FilterResult};

/// Where `filter` is asked.
pub const FILTER: &str = "/v1/filter";
/// Where `prioritize` is asked.
pub const PRIORITIZE: &str = "/v1/prioritize";
/// Where an explanation is asked for.
pub const EXPLAIN: &str = "/explain";
/// Where it is asked how many replicas fit.
pub const FIT: &str = "/fit";

/// Longest body that is read, in bytes: some thousand whole nodes.
pub const MAX_BODY: usize = 32 << 20;
/// Questions that are read and answered at the same time; further ones wait.
const AT_ONCE: usize = 16;
const JSON: &str = "application/json";

/// What all requests share.
pub struct Extender {
    /// What is known.
    pub fleet: Arc<Fleet>,
    /// Who may ask.
    pub gate: Gate,
    /// Whether enough is known to answer.
    pub ready: Readiness,
    /// How long a question may take to arrive.
    pub deadline: Duration,
    /// What is counted.
    pub metrics: Metrics,
    slots: Semaphore,
}

impl Extender {
    /// With a limit of its own to what is read at the same time.
    pub fn new(fleet: Arc<Fleet>, gate: Gate, ready: Readiness, deadline: Duration, metrics: Metrics) -> Self {
        Self { fleet, gate, ready, deadline, metrics, slots: Semaphore::new(AT_ONCE) }
    }
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the body did not arrive within {} s", .0.as_secs_f32())]
    Slow(Duration),
    #[error("the body breaks off or is longer than {MAX_BODY} bytes")]
    Body,
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    #[error("the body is not {what}: {error}")]
    Malformed { what: &'static str, error: serde_json::Error },
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("not everything that an answer needs is known yet")]
    Early,
    #[error("there is no pod {0}")]
    NoPod(String),
    #[error("the upper cluster cannot be asked for the pod: {0}")]
    Upper(kube::Error),
    #[error("the answer cannot be written: {0}")]
    Answer(serde_json::Error),
    #[error("this process ends")]
    Ending,
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Slow(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Body => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Arguments(_) | Self::Malformed { .. } => StatusCode::BAD_REQUEST,
            Self::Access(error) => error.status(),
            Self::NoPod(_) => StatusCode::NOT_FOUND,
            Self::Early | Self::Upper(_) | Self::Ending => StatusCode::SERVICE_UNAVAILABLE,
            Self::Answer(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// The routes. Their connections must say who is at the other end ([`Peer`]).
pub fn router(extender: Arc<Extender>) -> Router {
    Router::new()
        .route(FILTER, post(filter))
        .route(PRIORITIZE, post(prioritize))
        .route(EXPLAIN, get(explain))
        .route(FIT, post(fit))
        .with_state(extender)
}

type Shared = State<Arc<Extender>>;
type Caller = ConnectInfo<Peer>;

async fn filter(State(extender): Shared, ConnectInfo(peer): Caller, request: Request) -> Response {
    let answer = async {
        extender.gate.scheduler(peer)?;
        let body = read(&extender, request.into_body()).await?;
        let asked = Asked::read(&body.bytes)?;
        if !extender.ready.is_ready() {
            // The protocol has a word for that: the scheduler tries the pod again later.
            return Ok((json_of(&FilterResult::error(Refusal::Early.to_string()))?, Outcome::Refused));
        }
        let timer = extender.metrics.seconds.with_label_values(&["filter"]).start_timer();
        let names = asked.candidates.names();
        let refused = extender.fleet.filter(&asked.pod, &names, Instant::now(), Timestamp::now());
        let outcome = if refused.len() < names.len() { Outcome::Answered } else { Outcome::Nowhere };
        let answer = json_of(&FilterResult::new(&asked.candidates, refused))?;
        timer.observe_duration();
        Ok((answer, outcome))
    };
    respond(&extender, "filter", answer.await)
}

async fn prioritize(State(extender): Shared, ConnectInfo(peer): Caller, request: Request) -> Response {
    let answer = async {
        extender.gate.scheduler(peer)?;
        let body = read(&extender, request.into_body()).await?;
        let asked = Asked::read(&body.bytes)?;
        let timer = extender.metrics.seconds.with_label_values(&["prioritize"]).start_timer();
        let names = asked.candidates.names();
        let answer = json_of(&extender.fleet.prioritize(&asked.pod, &names, Instant::now()))?;
        timer.observe_duration();
        Ok((answer, Outcome::Answered))
    };
    respond(&extender, "prioritize", answer.await)
}

/// Which pod is to be explained.
#[derive(Deserialize)]
struct Which {
    namespace: String,
    pod: String,
}

async fn explain(
    State(extender): Shared,
    ConnectInfo(peer): Caller,
    Query(Which { namespace, pod }): Query<Which>,
    headers: HeaderMap,
) -> Response {
    let answer = async {
        extender.gate.anybody(peer, &headers, "get", EXPLAIN).await?;
        let kind = ApiResource::erase::<Pod>(&());
        let pods: Api<DynamicObject> = Api::namespaced_with(extender.gate.client.clone(), &namespace, &kind);
        let found = pods.get_opt(&pod).await.map_err(Refusal::Upper)?;
        let found = found.ok_or_else(|| Refusal::NoPod(format!("{namespace}/{pod}")))?;
        let found = serde_json::to_value(found).map_err(Refusal::Answer)?;
        Ok((json_of(&reports(&extender, &found, 1))?, Outcome::Answered))
    };
    respond(&extender, "explain", answer.await)
}

async fn fit(State(extender): Shared, ConnectInfo(peer): Caller, headers: HeaderMap, request: Request) -> Response {
    let answer = async {
        extender.gate.anybody(peer, &headers, "post", FIT).await?;
        let body = read(&extender, request.into_body()).await?;
        let question: FitQuestion = serde_json::from_slice(&body.bytes)
            .map_err(|error| Refusal::Malformed { what: r#"{"pod": POD, "most": NUMBER}"#, error })?;
        let mut pod = question.pod;
        complete(&mut pod);
        Ok((json_of(&reports(&extender, &pod, question.most))?, Outcome::Answered))
    };
    respond(&extender, "fit", answer.await)
}

/// A template has no name, namespace or UID of its own; what is made of it will.
fn complete(pod: &mut Value) {
    if let Some(meta) = pod.as_object_mut().map(|pod| pod.entry("metadata").or_insert_with(|| json!({}))) {
        for (member, value) in
            [("name", "pod"), ("namespace", "default"), ("uid", "00000000-0000-0000-0000-000000000000")]
        {
            if let Some(meta) = meta.as_object_mut() {
                meta.entry(member).or_insert_with(|| json!(value));
            }
        }
    }
}

fn reports(extender: &Extender, pod: &Value, most: u64) -> Value {
    let meta = &pod["metadata"];
    let reports = extender.fleet.explain(pod, most, Instant::now(), Timestamp::now());
    json!({ "namespace": meta["namespace"], "pod": meta["name"], "nodes": reports })
}

fn respond(extender: &Extender, verb: &'static str, answer: Result<(Vec<u8>, Outcome), Refusal>) -> Response {
    match answer {
        Ok((answer, outcome)) => {
            extender.metrics.count(verb, outcome);
            ([(CONTENT_TYPE, JSON)], answer).into_response()
        }
        Err(refusal) => {
            tracing::warn!(verb, reason = %refusal, "request refused");
            extender.metrics.count(verb, Outcome::Refused);
            (refusal.status(), format!("{refusal}\n")).into_response()
        }
    }
}

/// A body, and the right to hold it.
struct Held<'a> {
    bytes: Bytes,
    _slot: tokio::sync::SemaphorePermit<'a>,
}

async fn read(extender: &Extender, body: Body) -> Result<Held<'_>, Refusal> {
    let deadline = extender.deadline;
    let arrived = async {
        let slot = extender.slots.acquire().await.map_err(|_| Refusal::Ending)?;
        let bytes = to_bytes(body, MAX_BODY).await.map_err(|_| Refusal::Body)?;
        Ok(Held { bytes, _slot: slot })
    };
    tokio::time::timeout(deadline, arrived).await.unwrap_or(Err(Refusal::Slow(deadline)))
}

fn json_of(answer: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(answer).map_err(Refusal::Answer)
}
