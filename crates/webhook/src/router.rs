// SPDX-License-Identifier: Apache-2.0
//! The HTTP around the decision: what is asked where, and what a question must look like.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use jiff::Timestamp;
use tensile_core::exclusion::Exclusions;

use crate::metrics::{Metrics, Outcome};
use crate::mutate::{Known, Policy, decide};
use crate::review::{Review, ReviewError, Verdict};
use crate::selected_node::SelectedNodes;

/// Where reviews are asked; the path of tensile-kube's webhook.
pub const MUTATE: &str = "/mutate";
/// Longest body that is read, in bytes. An API server takes objects of up to 3 MiB; a review holds two at most.
pub const MAX_BODY: usize = 7 << 20;
const JSON: &str = "application/json";

/// What all requests share.
#[derive(Debug)]
pub struct Admission {
    /// What the operator decides.
    pub policy: Policy,
    /// Virtual nodes that pods of some owners shall not go to, as last heard.
    pub exclusions: Arc<ArcSwap<Exclusions>>,
    /// Virtual nodes that claims were given to, as last heard.
    pub selected: Arc<RwLock<SelectedNodes>>,
    /// How long a question may take to arrive.
    pub deadline: Duration,
    /// What is counted.
    pub metrics: Metrics,
}

/// Why a request is not answered with a review.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("expected a body of type {JSON}, got {0:?}")]
    ContentType(String),
    #[error("the body did not arrive within {} s", .0.as_secs_f32())]
    Slow(Duration),
    #[error("the body breaks off or is longer than {MAX_BODY} bytes")]
    Body,
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error("the answer cannot be written: {0}")]
    Answer(serde_json::Error),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self {
            Self::ContentType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Slow(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Body => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Review(_) => StatusCode::BAD_REQUEST,
            Self::Answer(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, format!("{self}\n")).into_response()
    }
}

/// The routes. `/healthz` is here too because tensile-kube's manifests ask for it on this port.
pub fn router(service: Arc<Admission>) -> Router {
    Router::new().route("/healthz", get(async || "ok")).route(MUTATE, post(mutate)).with_state(service)
}

async fn mutate(State(service): State<Arc<Admission>>, request: Request) -> Response {
    match review(&service, request).await {
        Ok(answer) => ([(CONTENT_TYPE, JSON)], answer).into_response(),
        Err(refusal) => {
            tracing::warn!(reason = %refusal, "request refused");
            service.metrics.count(Outcome::Refused);
            refusal.into_response()
        }
    }
}

async fn review(service: &Admission, request: Request) -> Result<Vec<u8>, Refusal> {
    check_type(request.headers())?;
    let body = read(request.into_body(), service.deadline).await?;
    let timer = service.metrics.seconds.start_timer();
    let review = Review::read(&body)?;
    let verdict = {
        let selected = service.selected.read().unwrap_or_else(PoisonError::into_inner);
        let known = Known { exclusions: &service.exclusions.load(), selected: &selected, now: Timestamp::now() };
        decide(&review.request, &service.policy, known)
    };
    let answer = review.answer(&verdict).map_err(Refusal::Answer)?;
    timer.observe_duration();
    service.metrics.count(Outcome::from(&verdict));
    log(&review, &verdict);
    Ok(answer)
}

fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = given.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case(JSON) { Ok(()) } else { Err(Refusal::ContentType(given.to_owned())) }
}

async fn read(body: Body, deadline: Duration) -> Result<axum::body::Bytes, Refusal> {
    match tokio::time::timeout(deadline, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(Refusal::Body),
        Err(_) => Err(Refusal::Slow(deadline)),
    }
}

fn log(review: &Review<'_>, verdict: &Verdict) {
    let (uid, namespace) = (&review.request.uid, &review.request.namespace);
    match verdict {
        Verdict::Untouched => tracing::debug!(%uid, %namespace, "left as it is"),
        Verdict::Changed { patch, .. } => tracing::debug!(%uid, %namespace, operations = patch.len(), "pod changed"),
        Verdict::Denied(denial) => tracing::info!(%uid, %namespace, reason = denial.message, "pod denied"),
    }
}
