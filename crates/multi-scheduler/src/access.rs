// SPDX-License-Identifier: Apache-2.0
//! Who may ask. Schedulers show a certificate of the client CA, if there is one. People and other services, who ask for
//! explanations, show that too, or a token of the upper cluster whose user may get or post the path there: a `ClusterRole`
//! with `nonResourceURLs: [/explain, /fit]` gives that right.

use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::serve::IncomingStream;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use tensile_runtime::tls::TlsListener;
use tokio::net::TcpListener;

/// How long the upper API server may take for a review.
const REVIEW: Duration = Duration::from_secs(5);

/// The other end of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peer {
    /// It showed a certificate of the client CA. The handshake fails with any other.
    pub certified: bool,
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        let chain = stream.io().get_ref().1.peer_certificates();
        Self { certified: chain.is_some_and(|chain| !chain.is_empty()) }
    }
}

impl Connected<IncomingStream<'_, TcpListener>> for Peer {
    fn connect_info(_: IncomingStream<'_, TcpListener>) -> Self {
        Self::default()
    }
}

/// Why somebody is not answered.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Nobody known.
    #[error("who asks must show a certificate of the client CA, or a token of the upper cluster where one is taken")]
    Unknown,
    /// Known, and not allowed.
    #[error("{user} may not {verb} {path}")]
    Forbidden {
        /// The name.
        user: String,
        /// The verb.
        verb: &'static str,
        /// The path.
        path: &'static str,
    },
    /// The upper cluster did not say.
    #[error("the upper cluster cannot be asked who may ask: {0}")]
    Unreviewed(String),
}

impl AccessError {
    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::Forbidden { .. } => StatusCode::FORBIDDEN,
            Self::Unreviewed(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Decides who may ask.
#[derive(Clone)]
pub struct Gate {
    /// Schedulers must show certificates.
    pub certificates: bool,
    /// The upper cluster.
    pub client: Client,
}

impl Gate {
    /// A scheduler asks.
    pub fn scheduler(&self, peer: Peer) -> Result<(), AccessError> {
        if peer.certified || !self.certificates { Ok(()) } else { Err(AccessError::Unknown) }
    }

    /// Somebody asks to `verb` the `path`.
    pub async fn anybody(
        &self,
        peer: Peer,
        headers: &HeaderMap,
        verb: &'static str,
        path: &'static str,
    ) -> Result<(), AccessError> {
        if peer.certified {
            return Ok(());
        }
        let token = bearer(headers).ok_or(AccessError::Unknown)?;
        let reviewed = tokio::time::timeout(REVIEW, async {
            let user = self.identify(token).await?;
            let allowed = self.allows(&user, verb, path).await?;
            let user = user.username.unwrap_or_default();
            if allowed { Ok(()) } else { Err(AccessError::Forbidden { user, verb, path }) }
        });
        reviewed.await.unwrap_or_else(|_| Err(AccessError::Unreviewed("no answer in time".to_owned())))
    }

    async fn identify(&self, token: &str) -> Result<UserInfo, AccessError> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let status = reviews
            .create(&PostParams::default(), &review)
            .await
            .map_err(|error| unreviewed(&error))?
            .status
            .unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        user.filter(|user| user.username.as_ref().is_some_and(|name| !name.is_empty())).ok_or(AccessError::Unknown)
    }

    async fn allows(&self, user: &UserInfo, verb: &str, path: &str) -> Result<bool, AccessError> {
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: user.username.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
            non_resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await.map_err(|error| unreviewed(&error))?;
        Ok(answer.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }
}

fn unreviewed(error: &kube::Error) -> AccessError {
    AccessError::Unreviewed(error.to_string())
}

/// The token of an `Authorization: Bearer` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_follows_the_word_bearer() {
        let token = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(token("bearer  t"), Some("t".to_owned()));
        for value in ["Basic t", "Bearer", "Bearer ", "t"] {
            assert_eq!(token(value), None, "{value:?}");
        }
    }
}
