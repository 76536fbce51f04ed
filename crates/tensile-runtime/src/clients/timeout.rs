// SPDX-License-Identifier: Apache-2.0
//! An upper bound for the time until an API server begins to answer, except for requests that may rightly be silent.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use http::header::UPGRADE;
use thiserror::Error;
use tower::{BoxError, Layer, Service};

/// Nothing came back in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no answer within {} s", .0.as_secs())]
pub struct NoAnswer(pub Duration);

/// Puts a [`ResponseTimeout`] around a service.
#[derive(Debug, Clone, Copy)]
pub struct ResponseTimeoutLayer {
    limit: Duration,
}

impl ResponseTimeoutLayer {
    /// The layer that waits `limit` for the head of a response.
    pub fn new(limit: Duration) -> Self {
        Self { limit }
    }
}

impl<S> Layer<S> for ResponseTimeoutLayer {
    type Service = ResponseTimeout<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ResponseTimeout { inner, limit: self.limit }
    }
}

/// A service whose responses begin within a limit, or fail with [`NoAnswer`].
///
/// Only the head counts, so a watch may stream for hours. Followed logs and upgrades (exec, attach, port-forward) are
/// not limited: the API server answers them only when the container or the kubelet does.
#[derive(Debug, Clone)]
pub struct ResponseTimeout<S> {
    inner: S,
    limit: Duration,
}

impl<S, B> Service<Request<B>> for ResponseTimeout<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (limit, patient) = (self.limit, may_be_silent(&request));
        let answer = self.inner.call(request);
        Box::pin(async move {
            if patient {
                return answer.await.map_err(Into::into);
            }
            match tokio::time::timeout(limit, answer).await {
                Ok(answered) => answered.map_err(Into::into),
                Err(_) => Err(NoAnswer(limit).into()),
            }
        })
    }
}

fn may_be_silent<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(UPGRADE)
        || request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "follow=true"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tower::{ServiceExt, service_fn};

    async fn ask(request: Request<()>) -> Result<(), BoxError> {
        let silent = service_fn(|_: Request<()>| pending::<Result<(), BoxError>>());
        ResponseTimeoutLayer::new(Duration::from_secs(75)).layer(silent).oneshot(request).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_nothing_is_given_up() {
        let error = ask(Request::get("/api/v1/pods?watch=true").body(()).unwrap()).await.unwrap_err();
        assert_eq!(error.to_string(), "no answer within 75 s");
    }

    #[tokio::test(start_paused = true)]
    async fn followed_logs_and_upgrades_may_be_silent() {
        let follow = Request::get("/log?tailLines=1&follow=true").body(()).unwrap();
        let exec = Request::post("/exec").header(UPGRADE, "SPDY/3.1").body(()).unwrap();
        for request in [follow, exec] {
            assert!(tokio::time::timeout(Duration::from_secs(3600), ask(request)).await.is_err());
        }
    }

    #[tokio::test]
    async fn an_answer_comes_through() {
        let echo = service_fn(|request: Request<u8>| async move { Ok::<_, BoxError>(request.into_body()) });
        let service = ResponseTimeoutLayer::new(Duration::from_secs(1)).layer(echo);
        assert_eq!(service.oneshot(Request::get("/").body(7).unwrap()).await.unwrap(), 7);
    }
}
