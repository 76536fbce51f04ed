// SPDX-License-Identifier: Apache-2.0
//! The admin server: `/metrics`, `/healthz`, `/readyz`, as plain HTTP on the address the operator chose.
//!
//! It serves numbers and states, never objects, so that it needs no authentication; who must not see them is kept away
//! by the address or a network policy.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus::{Registry, TextEncoder};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Media type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether this process can do its work: named conditions, each ready or with a reason why not.
///
/// A process is ready when all its conditions are. Cheap to clone; all clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    conditions: Arc<Mutex<BTreeMap<String, Source>>>,
    remarks: Arc<Mutex<BTreeMap<String, Remark>>>,
}

/// Sentences about what is not as it should be.
struct Remark(Box<dyn Fn() -> Vec<String> + Send>);

impl fmt::Debug for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0().fmt(f)
    }
}

/// Where the state of a condition comes from.
enum Source {
    /// Its handle said so last.
    Told(Result<(), String>),
    /// Looked at whenever somebody wants to know.
    Checked(Box<dyn Fn() -> Result<(), String> + Send>),
}

impl Source {
    fn now(&self) -> Result<(), String> {
        match self {
            Self::Told(state) => state.clone(),
            Self::Checked(check) => check(),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now().fmt(f)
    }
}

impl Readiness {
    /// No conditions: ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds condition `name`, which is not ready until its handle says so. The condition goes when the handle does.
    pub fn condition(&self, name: impl Into<String>) -> Condition {
        let condition = Condition { readiness: self.clone(), name: name.into() };
        condition.not_ready("not started yet");
        condition
    }

    /// Adds condition `name`, which is what `check` says at the moment it is asked for. It must not block.
    pub fn check(&self, name: impl Into<String>, check: impl Fn() -> Result<(), String> + Send + 'static) {
        self.conditions().insert(name.into(), Source::Checked(Box::new(check)));
    }

    /// Shows under `name` what `look` finds at the moment it is asked for, a line each, without counting it: for what people
    /// should know and a restart would not help. It must not block.
    pub fn remark(&self, name: impl Into<String>, look: impl Fn() -> Vec<String> + Send + 'static) {
        let mut remarks = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        remarks.insert(name.into(), Remark(Box::new(look)));
    }

    /// Whether all conditions are ready.
    pub fn is_ready(&self) -> bool {
        self.conditions().values().all(|source| source.now().is_ok())
    }

    /// One line a condition, as Kubernetes' own `/readyz?verbose` shows them.
    pub fn report(&self) -> String {
        let line = |(name, source): (&String, &Source)| match source.now() {
            Ok(()) => format!("[+]{name} ok\n"),
            Err(reason) => format!("[-]{name} not ready: {reason}\n"),
        };
        let conditions = self.conditions().iter().map(line).collect::<Vec<_>>();
        let remarks = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        let remarks = remarks
            .iter()
            .flat_map(|(name, Remark(look))| look().into_iter().map(move |remark| format!("[!]{name}: {remark}\n")));
        conditions.into_iter().chain(remarks).collect::<Vec<_>>().concat()
    }

    fn conditions(&self) -> MutexGuard<'_, BTreeMap<String, Source>> {
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One condition of a [`Readiness`].
#[derive(Debug)]
pub struct Condition {
    readiness: Readiness,
    name: String,
}

impl Condition {
    /// From now on ready.
    pub fn ready(&self) {
        self.set(Ok(()));
    }

    /// From now on not ready, because of `reason`.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Err(reason.into()));
    }

    fn set(&self, state: Result<(), String>) {
        let mut conditions = self.readiness.conditions();
        match conditions.get_mut(&self.name) {
            Some(now) => *now = Source::Told(state),
            None => drop(conditions.insert(self.name.clone(), Source::Told(state))),
        }
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        self.readiness.conditions().remove(&self.name);
    }
}

/// The routes of the admin server.
pub fn router(registry: Registry, readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/livez", get(async || "ok"))
        .route("/readyz", get(ready).with_state(readiness))
        .route("/metrics", get(metrics).with_state(registry))
}

/// Serves `router` on `listener` until `stop` is cancelled.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await }).await
}

async fn ready(State(readiness): State<Readiness>) -> Response {
    let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let report = readiness.report();
    (status, if report.is_empty() { "ok\n".to_owned() } else { report }).into_response()
}

async fn metrics(State(registry): State<Registry>) -> Response {
    match TextEncoder::new().encode_to_string(&registry.gather()) {
        Ok(text) => ([(CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use prometheus::IntCounter;
    use tower::ServiceExt;

    async fn fetch(router: Router, path: &str) -> (StatusCode, String) {
        let response = router.oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_process_is_ready_only_when_every_condition_is() {
        let readiness = Readiness::new();
        let (upper, lower) = (readiness.condition("upper-watch"), readiness.condition("lower-watch"));
        upper.ready();
        let router = router(Registry::new(), readiness);
        assert_eq!(
            fetch(router.clone(), "/readyz").await,
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "[-]lower-watch not ready: not started yet\n[+]upper-watch ok\n".to_owned()
            )
        );
        lower.ready();
        assert_eq!(fetch(router.clone(), "/readyz").await.0, StatusCode::OK);
        lower.not_ready("the API server is away");
        let (status, report) = fetch(router, "/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(report.contains("[-]lower-watch not ready: the API server is away"), "{report}");
    }

    #[test]
    fn a_condition_goes_with_its_handle() {
        let readiness = Readiness::new();
        let gone = readiness.condition("link");
        assert!(!readiness.is_ready());
        drop(gone);
        assert!(readiness.is_ready());
    }

    #[test]
    fn a_check_is_made_whenever_somebody_asks() {
        let readiness = Readiness::new();
        let valid = Arc::new(Mutex::new(true));
        let looked_at = valid.clone();
        readiness.check("certificate", move || if *looked_at.lock().unwrap() { Ok(()) } else { Err("expired".into()) });
        assert!(readiness.is_ready());
        *valid.lock().unwrap() = false;
        assert!(!readiness.is_ready());
        assert_eq!(readiness.report(), "[-]certificate not ready: expired\n");
    }

    #[test]
    fn a_remark_is_shown_and_does_not_count() {
        let readiness = Readiness::new();
        readiness.check("watches", || Ok(()));
        readiness.remark("clusters", || vec!["east: away".to_owned()]);
        assert!(readiness.is_ready());
        assert_eq!(readiness.report(), "[+]watches ok\n[!]clusters: east: away\n");
    }

    #[tokio::test]
    async fn a_process_that_is_not_ready_is_still_alive() {
        let readiness = Readiness::new();
        let _starting = readiness.condition("sync");
        assert_eq!(fetch(router(Registry::new(), readiness), "/healthz").await, (StatusCode::OK, "ok".to_owned()));
    }

    #[tokio::test]
    async fn metrics_are_in_the_text_format() {
        let registry = Registry::new();
        let counter = IntCounter::new("tensile_things_total", "Things seen.").unwrap();
        registry.register(Box::new(counter.clone())).unwrap();
        counter.inc_by(3);
        let response = router(registry, Readiness::new())
            .oneshot(Request::get("/metrics").body(Body::empty()).unwrap())
            .await
            .unwrap();
        assert_eq!(response.headers().get(CONTENT_TYPE).unwrap(), METRICS_TYPE);
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert_eq!(
            text,
            "# HELP tensile_things_total Things seen.\n# TYPE tensile_things_total counter\ntensile_things_total 3\n"
        );
    }

    #[tokio::test]
    async fn the_server_ends_when_it_is_told_to() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, router(Registry::new(), Readiness::new()), stop.clone()));
        stop.cancel();
        server.await.unwrap().unwrap();
    }
}
