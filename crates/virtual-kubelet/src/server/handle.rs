// SPDX-License-Identifier: Apache-2.0
//! One request after the other: who asks, whether they may, what they ask for, and the answer.

use std::sync::Arc;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE},
};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use kube::Client;
use prometheus::{Registry, TextEncoder};
use rustls::pki_types::CertificateDer;
use tokio::io::copy_bidirectional_with_sizes;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    ContainerIo, IoError, StatsProvider, UpgradeRequest, UpgradeTarget,
    authentication::Authenticator,
    authorization::{Authorizer, attributes},
    body::{Body, JSON, answer, full, streamed, text},
    options::{self, LogOptions, QueryError, Streams},
    request::{ContainerPath, Endpoint, Exposition, PodPath, RouteError, route},
};
use crate::pod::{PodId, PodsHandle};

/// What a stream holds in each direction: one TLS record.
const BUFFER: usize = 16 * 1024;
/// Media type of Prometheus' text format.
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// The headers of an upgrade besides `Connection` and `Upgrade`; nothing else of a request or an answer is passed on.
const PROTOCOL_HEADERS: &[&str] = &[
    "x-stream-protocol-version",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
    "sec-websocket-accept",
];
/// A "protocol" that is a credential for the upper API server (its `pkg/authentication/request/websocket`).
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Everything that answers need.
pub(super) struct Handler<P, S> {
    pub(super) authenticator: Authenticator,
    pub(super) authorizer: Authorizer,
    pub(super) client: Client,
    pub(super) node: String,
    pub(super) pods: PodsHandle,
    pub(super) provider: Arc<P>,
    pub(super) stats: Arc<S>,
    pub(super) registry: Registry,
    pub(super) configz: Bytes,
    /// Connections that have become streams.
    pub(super) streams: TaskTracker,
    /// Ends them.
    pub(super) stop: CancellationToken,
}

impl<P: ContainerIo, S: StatsProvider> Handler<P, S> {
    /// The answer to `request`, which came over a connection on which `chain` was shown.
    pub(super) async fn handle<B>(&self, chain: &[CertificateDer<'_>], request: Request<B>) -> Response<Body> {
        let Some(who) = self.authenticator.identify(chain, request.headers()).await else {
            return text(StatusCode::UNAUTHORIZED, "Unauthorized");
        };
        let needed = attributes(request.method(), request.uri().path());
        let about = || {
            let (user, verb, parts) = (&who.username, needed.verb, needed.subresources.join(" "));
            format!("(user={user}, verb={verb}, resource=nodes, subresource(s)=[{parts}])")
        };
        match self.authorizer.allows(&who, needed).await {
            Ok(true) => {}
            Ok(false) => return text(StatusCode::FORBIDDEN, format!("Forbidden {}", about())),
            Err(error) => {
                tracing::warn!(%error, user = who.username, "a request could not be authorized");
                return text(StatusCode::INTERNAL_SERVER_ERROR, format!("Authorization error {}", about()));
            }
        }
        match route(request.method(), request.uri().path()) {
            Ok(endpoint) => self.answer(endpoint, request).await.unwrap_or_else(Failure::response),
            Err(RouteError::NotFound) => text(StatusCode::NOT_FOUND, "404 page not found"),
            Err(RouteError::NotAllowed(methods)) => {
                let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
                refusal.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
                refusal
            }
        }
    }

    async fn answer<B>(&self, endpoint: Endpoint, request: Request<B>) -> Result<Response<Body>, Failure> {
        match endpoint {
            Endpoint::Healthz => Ok(text(StatusCode::OK, "ok")),
            Endpoint::Configz => Ok(answer(StatusCode::OK, JSON, full(self.configz.clone()))),
            Endpoint::Pods => self.list("").await,
            Endpoint::RunningPods => self.list(",status.phase=Running").await,
            Endpoint::Metrics(Exposition::Process) => self.metrics(),
            Endpoint::Metrics(Exposition::Resource) => Ok(exposition(self.stats.resource().await?)),
            Endpoint::Metrics(Exposition::Cadvisor) => Ok(exposition(self.stats.cadvisor().await?)),
            Endpoint::Metrics(Exposition::Probes) => Ok(exposition(self.stats.probes().await?)),
            Endpoint::StatsSummary => {
                let brief = options::only_cpu_and_memory(request.uri().query().unwrap_or_default());
                Ok(answer(StatusCode::OK, JSON, full(self.stats.summary(brief).await?)))
            }
            Endpoint::Run(at) => self.run(&at, request.uri().query().unwrap_or_default()).await,
            Endpoint::Checkpoint(_) => Err(IoError::Unsupported("checkpoints").into()),
            Endpoint::Logs(at) => self.logs(&at, request.uri().query().unwrap_or_default()).await,
            Endpoint::Exec(ContainerPath { pod, container }) => {
                let query = request.uri().query().unwrap_or_default();
                let target =
                    UpgradeTarget::Exec { container, command: options::command(query), streams: Streams::read(query)? };
                self.upgrade(&pod, target, request).await
            }
            Endpoint::Attach(ContainerPath { pod, container }) => {
                let streams = Streams::read(request.uri().query().unwrap_or_default())?;
                self.upgrade(&pod, UpgradeTarget::Attach { container, streams }, request).await
            }
            Endpoint::PortForward(pod) => {
                let ports = options::ports(request.uri().query().unwrap_or_default())?;
                self.upgrade(&pod, UpgradeTarget::PortForward { ports }, request).await
            }
        }
    }

    /// The pods of this node as the upper API server has them, from its cache: a copy of them all is not kept here.
    async fn list(&self, more: &str) -> Result<Response<Body>, Failure> {
        let path = format!("/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName={}{more}", self.node);
        let request = Request::get(path).body(kube::client::Body::empty());
        let request = request.map_err(|error| Failure::Internal(error.to_string()))?;
        let list = self.client.send(request).await.map_err(|error| Failure::Internal(error.to_string()))?;
        if !list.status().is_success() {
            return Err(Failure::Internal(format!("the upper API server answers {} to a list", list.status())));
        }
        Ok(answer(StatusCode::OK, JSON, list.into_body().map_err(Into::into).boxed_unsync()))
    }

    fn metrics(&self) -> Result<Response<Body>, Failure> {
        let metrics = TextEncoder::new().encode_to_string(&self.registry.gather());
        let metrics = metrics.map_err(|error| Failure::Internal(error.to_string()))?;
        Ok(exposition(metrics))
    }

    async fn logs(&self, at: &ContainerPath, query: &str) -> Result<Response<Body>, Failure> {
        let options = LogOptions::read(query)?;
        let pod = self.find(&at.pod)?;
        let bytes = self.provider.logs(&pod, &at.container, &options).await?;
        Ok(answer(StatusCode::OK, super::body::TEXT, streamed(bytes)))
    }

    /// What the command wrote, whatever that is; a kubelet calls it JSON too.
    async fn run(&self, at: &ContainerPath, query: &str) -> Result<Response<Body>, Failure> {
        let command = options::run(query)?;
        let pod = self.find(&at.pod)?;
        Ok(answer(StatusCode::OK, JSON, full(self.provider.run(&pod, &at.container, &command).await?)))
    }

    async fn upgrade<B>(
        &self,
        at: &PodPath,
        target: UpgradeTarget,
        mut request: Request<B>,
    ) -> Result<Response<Body>, Failure> {
        let pod = self.find(at)?;
        let headers = upgrade_headers(request.headers()).ok_or(Failure::NoUpgrade)?;
        let method = if request.method() == Method::GET { Method::GET } else { Method::POST };
        let name = target.name();
        let mut backend = self.provider.relay(UpgradeRequest { pod: pod.clone(), target, method, headers }).await?;

        let client = hyper::upgrade::on(&mut request);
        let carry = async move {
            let client = match client.await {
                Ok(client) => client,
                Err(error) => return tracing::debug!(%pod, name, %error, "the client did not become a stream"),
            };
            let mut client = TokioIo::new(client);
            match copy_bidirectional_with_sizes(&mut client, &mut backend.stream, BUFFER, BUFFER).await {
                Ok((down, up)) => tracing::debug!(%pod, name, down, up, "a stream ended"),
                Err(error) => tracing::debug!(%pod, name, %error, "a stream broke"),
            }
        };
        self.streams.spawn(self.stop.clone().run_until_cancelled_owned(carry));

        let mut switching = Response::new(full(Bytes::new()));
        *switching.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *switching.headers_mut() = upgrade_headers(&backend.headers).unwrap_or_default();
        Ok(switching)
    }

    /// The pod of this node that a path means.
    fn find(&self, at: &PodPath) -> Result<PodId, Failure> {
        let found = self.pods.find(&at.namespace, &at.name);
        let meant = |id: &PodId| at.uid.as_ref().is_none_or(|uid| **uid == *id.uid);
        found.filter(meant).ok_or_else(|| IoError::NotFound(format!("pod {:?} does not exist", at.name)).into())
    }
}

/// Prometheus text.
fn exposition(text: impl Into<Bytes>) -> Response<Body> {
    answer(StatusCode::OK, METRICS, full(text))
}

/// The headers of an upgrade, or `None` if it is none.
fn upgrade_headers(all: &HeaderMap) -> Option<HeaderMap> {
    let asked = all.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let asked = asked.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case("upgrade"));
    let protocol = all.get(UPGRADE).filter(|_| asked)?;
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, protocol.clone());
    for (name, value) in all.iter().filter(|(name, _)| PROTOCOL_HEADERS.contains(&name.as_str())) {
        if *name == SEC_WEBSOCKET_PROTOCOL {
            headers.extend(without_tokens(value).map(|value| (name.clone(), value)));
        } else {
            headers.append(name, value.clone());
        }
    }
    Some(headers)
}

/// The protocols of a list that are protocols.
fn without_tokens(list: &HeaderValue) -> Option<HeaderValue> {
    let protocols = list.to_str().ok()?.split(',').map(str::trim).filter(|name| !name.starts_with(TOKEN_PROTOCOL));
    let protocols: Vec<&str> = protocols.collect();
    HeaderValue::from_str(&protocols.join(", ")).ok().filter(|list| !list.is_empty())
}

/// Why there is no better answer.
#[derive(Debug)]
enum Failure {
    Query(QueryError),
    NoUpgrade,
    Io(IoError),
    Internal(String),
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Self::Query(error)
    }
}

impl From<IoError> for Failure {
    fn from(error: IoError) -> Self {
        Self::Io(error)
    }
}

impl Failure {
    fn response(self) -> Response<Body> {
        match self {
            Self::Query(error) => {
                let status = match error {
                    QueryError::Undecodable(_) => StatusCode::BAD_REQUEST,
                    QueryError::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
                };
                text(status, error.to_string())
            }
            Self::NoUpgrade => text(StatusCode::BAD_REQUEST, "unable to upgrade: missing upgrade headers in request"),
            Self::Io(error) => text(error.status(), error.to_string()),
            Self::Internal(detail) => {
                tracing::warn!(detail, "a request failed");
                text(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (http::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn what_does_not_ask_for_an_upgrade_is_none() {
        assert_eq!(upgrade_headers(&headers(&[])), None);
        assert_eq!(upgrade_headers(&headers(&[("upgrade", "SPDY/3.1")])), None);
        assert_eq!(upgrade_headers(&headers(&[("connection", "keep-alive"), ("upgrade", "SPDY/3.1")])), None);
        assert_eq!(upgrade_headers(&headers(&[("connection", "upgrade")])), None);
    }

    #[test]
    fn only_the_protocol_is_passed_on() {
        let mut given = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("authorization", "Bearer secret"),
            ("cookie", "secret"),
            ("x-remote-user", "root"),
            ("x-stream-protocol-version", "v5.channel.k8s.io"),
        ]);
        given.append("x-stream-protocol-version", HeaderValue::from_static("v4.channel.k8s.io"));
        let mut expected = headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v5.channel.k8s.io"),
        ]);
        expected.append("x-stream-protocol-version", HeaderValue::from_static("v4.channel.k8s.io"));
        assert_eq!(upgrade_headers(&given), Some(expected));
    }

    #[test]
    fn a_token_among_websocket_protocols_stays_here() {
        let list = "base64url.bearer.authorization.k8s.io.c2VjcmV0, v4.channel.k8s.io,v5.channel.k8s.io";
        let passed = upgrade_headers(&headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-protocol", list),
        ]));
        assert_eq!(passed.unwrap()["sec-websocket-protocol"], "v4.channel.k8s.io, v5.channel.k8s.io");
    }
}
