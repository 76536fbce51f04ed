// SPDX-License-Identifier: Apache-2.0
//! Requests for tokens.
//!
//! The right to `create serviceaccounts/token` in all namespaces would make the virtual node the master of the upper
//! cluster. So it asks as the node that it is, if it may impersonate that: then the API server's own rules for nodes hold
//! (the node authorizer and `NodeRestriction`), which give tokens for pods of this node only, bound to them, and for the
//! audiences they name.

use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use kube::{api::PostParams, core::Request};
use serde::Deserialize;
use tensile_core::identity::{Issued, Life, Tokens, request};
use tensile_runtime::clients::{ProbeError, require};
use virtual_kubelet::pod::{PodError, PodId, Refused};

use super::Identity;
use crate::permissions;

/// Waits before a node is told no: its rules hear of a new pod a moment after we do.
const AGAIN: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(150), Duration::from_millis(400), Duration::from_secs(1)];

/// In whose name tokens are requested.
#[derive(Clone, Debug)]
pub(super) enum Asker {
    /// The node's: the value of a header.
    Node(HeaderValue),
    /// Our own.
    Own,
}

/// What is read of the answer.
#[derive(Deserialize)]
struct TokenRequest {
    spec: Spec,
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    expiration_seconds: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: String,
    expiration_timestamp: Timestamp,
}

impl Identity {
    /// Requests the token in this place, for exactly this pod.
    pub(super) async fn request(&self, id: &PodId, tokens: &Tokens, place: usize) -> Result<Issued, PodError> {
        let outcome = self.ask(id, tokens, place).await;
        self.metrics.requested(&outcome);
        outcome
    }

    async fn ask(&self, id: &PodId, tokens: &Tokens, place: usize) -> Result<Issued, PodError> {
        let asker = self.asker().await.map_err(|error| away(&error))?;
        let mut waits = AGAIN.iter();
        let text = loop {
            let error = match self.send(&asker, id, tokens, place).await {
                Ok(text) => break text,
                Err(error) => error,
            };
            let wait = waits.next().filter(|_| matches!(asker, Asker::Node(_)) && may_pass(&error));
            let Some(wait) = wait else {
                if matches!(&error, kube::Error::Api(status) if status.code == 403) {
                    // Rights may have changed.
                    *self.asker.lock().await = None;
                }
                return Err(refusal(tokens, id, &error));
            };
            tokio::time::sleep(*wait).await;
        };
        // The parser's error may quote the token.
        let answer: TokenRequest = serde_json::from_str(&text)
            .map_err(|_| PodError::Unavailable("the upper API server sent a token that cannot be read".to_owned()))?;
        let life = Life { expires: answer.status.expiration_timestamp, seconds: answer.spec.expiration_seconds };
        Ok(Issued { place, token: answer.status.token, life })
    }

    async fn send(&self, asker: &Asker, id: &PodId, tokens: &Tokens, place: usize) -> kube::Result<String> {
        let Some(token) = tokens.tokens.get(place) else { return Ok(String::new()) };
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{}/token", id.namespace, tokens.account);
        let body = serde_json::to_vec(&request(token, &id.name, &id.uid)).map_err(kube::Error::SerdeError)?;
        let request = Request::new(path).create(&PostParams::default(), body);
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        if let Asker::Node(node) = asker {
            request.headers_mut().insert("impersonate-user", node.clone());
            request.headers_mut().insert("impersonate-group", HeaderValue::from_static(permissions::NODES));
        }
        self.upper.request_text(request).await
    }

    /// Finds out in whose name tokens are requested, before the first is.
    pub(super) async fn introduce(&self) {
        if self.link.identity.is_some()
            && let Err(error) = self.asker().await
        {
            tracing::warn!(%error, "it is not known yet in whose name tokens are requested");
        }
    }

    async fn asker(&self) -> Result<Asker, ProbeError> {
        let mut known = self.asker.lock().await;
        match &*known {
            Some(asker) => Ok(asker.clone()),
            None => Ok(known.insert(self.may_be_node().await?).clone()),
        }
    }

    async fn may_be_node(&self) -> Result<Asker, ProbeError> {
        let name = permissions::node_user(&self.link.virtual_node);
        match require(&self.upper, &permissions::upper_node(&name)).await {
            Ok(()) => {
                tracing::info!(user = name, "tokens are requested in the name of the node");
                Ok(HeaderValue::from_str(&name).map_or(Asker::Own, Asker::Node))
            }
            Err(error @ ProbeError::Forbidden { .. }) => {
                tracing::warn!(%error, "tokens are requested in our own name, which needs the right to those of all \
                    accounts: let it impersonate its node instead");
                Ok(Asker::Own)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether it may be that the API server does not know of the pod yet. It knows of the account, or never will.
fn may_pass(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403 || status.code == 404 && !lacks_account(status))
}

fn lacks_account(status: &kube::core::Status) -> bool {
    status.code == 404 && status.message.starts_with("serviceaccounts ")
}

fn away(error: &ProbeError) -> PodError {
    PodError::Unavailable(format!("upper cluster: {error}"))
}

/// What an answer means for the pod.
fn refusal(tokens: &Tokens, id: &PodId, error: &kube::Error) -> PodError {
    let about = format!("token of service account {}/{}", id.namespace, tokens.account);
    match error {
        kube::Error::Api(status) if (400..500).contains(&status.code) && !matches!(status.code, 401 | 408 | 429) => {
            PodError::Refused(Refused {
                reason: if lacks_account(status) { "ServiceAccountNotFound" } else { "TokenRefused" },
                message: format!("{about}: {}", status.message),
            })
        }
        kube::Error::Api(status) => PodError::Unavailable(format!("{about}: upper API server: {}", status.message)),
        other => PodError::Unavailable(format!("{about}: upper API server: {other}")),
    }
}
