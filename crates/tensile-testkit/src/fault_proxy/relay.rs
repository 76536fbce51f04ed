// SPDX-License-Identifier: Apache-2.0
//! One request after another, from a client's connection to the API server's and back.

use std::future::pending;
use std::io;
use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri, header};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use tokio::sync::Mutex;

use super::Shared;
use super::answer::{self, Body, Treatment};
use super::rule::{Fault, Seen};

/// The way to send requests on a connection to the API server.
pub(super) type Upstream = SendRequest<Incoming>;

/// A client's connection together with its own to the API server.
#[derive(Clone)]
pub(super) struct Relay {
    shared: Arc<Shared>,
    upstream: Arc<Mutex<Upstream>>,
}

/// The address of the watch, beginning at `version`.
fn from_version(seen: &Seen, version: &str) -> Result<Uri, http::uri::InvalidUri> {
    let others = seen.query.split('&').filter(|pair| !pair.starts_with("resourceVersion="));
    let query = others.chain([format!("resourceVersion={version}").as_str()]).collect::<Vec<_>>().join("&");
    format!("{}?{query}", seen.path).parse()
}

impl Relay {
    pub(super) fn new(shared: Arc<Shared>, upstream: Upstream) -> Self {
        Self { shared, upstream: Arc::new(Mutex::new(upstream)) }
    }

    /// The answer to one request; an error closes the client's connection without one.
    pub(super) async fn answer(self, mut request: Request<Incoming>) -> io::Result<Response<Body>> {
        let seen = Seen {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
        };
        let mut treatment = Treatment::default();
        match self.shared.decide(&seen) {
            Some(Fault::Status { code, reason, retry_after }) => return Ok(answer::failure(code, reason, retry_after)),
            Some(Fault::ExpiredInStream) => return Ok(answer::expired_watch()),
            Some(Fault::Stall) => pending().await,
            Some(Fault::WatchFrom(version)) if seen.is_watch() => {
                *request.uri_mut() = from_version(&seen, &version).map_err(io::Error::other)?;
            }
            Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
            fault => treatment.fault = fault,
        }
        if seen.is_watch() {
            treatment.commands = Some(self.shared.commands.subscribe());
        }
        let response = self.forward(request).await?;
        super::lock(&self.shared.answered).push(seen);
        Ok(response.map(|body| answer::relayed(body, treatment)))
    }

    async fn forward(&self, mut request: Request<Incoming>) -> io::Result<Response<Incoming>> {
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from(path);
        // The API server's name, and nothing about this hop.
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
        request.headers_mut().remove(header::CONNECTION);
        let mut upstream = self.upstream.lock().await;
        if upstream.ready().await.is_err() {
            // The answer before was ended ahead of its time; the client does not know and uses its connection again.
            *upstream = super::connect(&self.shared).await?;
        }
        upstream.send_request(request).await.map_err(io::Error::other)
    }
}
