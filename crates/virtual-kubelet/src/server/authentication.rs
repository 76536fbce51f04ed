// SPDX-License-Identifier: Apache-2.0
//! Who asks: a client certificate, else a bearer token; nobody is let in without a name.
//!
//! Kubernetes `staging/src/k8s.io/apiserver/pkg/authentication/authenticatorfactory/delegating.go`, as the kubelet sets it
//! up with anonymous access off.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{HeaderMap, header::AUTHORIZATION};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::{Api, Client, api::PostParams};
use rustls::{
    RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::sync::watch;

use super::expiring::Expiring;

/// How long a token review counts, whatever it says (`authentication.webhook.cacheTTL`).
const REVIEWED: Duration = Duration::from_secs(120);
/// Reviews that are remembered.
const REMEMBERED: usize = 4096;
/// How long an API server may take for a review.
pub(super) const REVIEW: Duration = Duration::from_secs(10);
/// The group of everybody who has a name.
const AUTHENTICATED: &str = "system:authenticated";

/// A user, as an API server knows users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Name.
    pub username: String,
    /// UID, where the authenticator has one.
    pub uid: Option<String>,
    /// Groups, `system:authenticated` among them.
    pub groups: Vec<String>,
    /// What else the authenticator says.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The authorities whose client certificates name users; or none, then only tokens do.
#[derive(Clone, Debug, Default)]
pub struct ClientCa(Option<Arc<dyn ClientCertVerifier>>);

/// Why a text is no client CA.
#[derive(Debug, thiserror::Error)]
pub enum ClientCaError {
    /// There is no certificate in it.
    #[error("it holds no PEM certificate")]
    Empty,
    /// There is one that cannot be an authority.
    #[error("it holds a certificate that cannot be an authority: {0}")]
    Unusable(String),
}

impl ClientCa {
    /// The authorities in `pem`.
    ///
    /// # Errors
    /// When there is none, or one that is not readable.
    pub fn from_pem(pem: &[u8]) -> Result<Self, ClientCaError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| ClientCaError::Unusable(error.to_string()))?;
            roots.add(certificate).map_err(|error| ClientCaError::Unusable(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(ClientCaError::Empty);
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self(Some(verifier.map_err(|error| ClientCaError::Unusable(error.to_string()))?)))
    }

    /// The user that a certificate chain names at `now`: its common name, in the groups of its organizations.
    fn identify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Option<Identity> {
        let (leaf, intermediates) = chain.split_first()?;
        if let Err(error) = self.0.as_ref()?.verify_client_cert(leaf, intermediates, now) {
            tracing::debug!(%error, "a client certificate does not count");
            return None;
        }
        subject(leaf)
    }
}

/// The user in a certificate's subject. Of several common names the last counts, as in Go.
fn subject(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let name = certificate.subject();
    let username = name.iter_common_name().last()?.as_str().ok().filter(|name| !name.is_empty())?.to_owned();
    let groups = name.iter_organization().map(|group| group.as_str().map(str::to_owned)).collect::<Result<_, _>>();
    Some(Identity { username, groups: groups.ok()?, ..Identity::default() }.authenticated())
}

impl Identity {
    fn authenticated(mut self) -> Self {
        if !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

/// Finds out who asks.
#[derive(Debug)]
pub(super) struct Authenticator {
    reviews: Api<TokenReview>,
    client_ca: watch::Receiver<ClientCa>,
    tokens: Expiring<Option<Identity>>,
}

impl Authenticator {
    pub(super) fn new(client: Client, client_ca: watch::Receiver<ClientCa>) -> Self {
        Self { reviews: Api::all(client), client_ca, tokens: Expiring::new(REMEMBERED) }
    }

    /// Who sends a request with `headers` over a connection on which `chain` was shown; `None` for nobody known.
    ///
    /// A certificate that does not count is no reason to refuse a token that does.
    pub(super) async fn identify(&self, chain: &[CertificateDer<'_>], headers: &HeaderMap) -> Option<Identity> {
        let client_ca = self.client_ca.borrow().clone();
        if let Some(identity) = client_ca.identify(chain, UnixTime::now()) {
            return Some(identity);
        }
        let token = bearer(headers)?;
        if let Some(known) = self.tokens.get(&token) {
            return known;
        }
        match self.review(token).await {
            Ok(answer) => {
                self.tokens.put(&token, answer.clone(), REVIEWED);
                answer
            }
            Err(error) => {
                // Not remembered: the next request asks again.
                tracing::warn!(%error, "a token could not be reviewed");
                None
            }
        }
    }

    async fn review(&self, token: &str) -> Result<Option<Identity>, String> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = tokio::time::timeout(REVIEW, self.reviews.create(&PostParams::default(), &review)).await;
        let answer = answer.map_err(|_| "no answer in time".to_owned())?.map_err(|error| error.to_string())?;
        let status = answer.status.unwrap_or_default();
        if status.authenticated != Some(true) {
            return Ok(None);
        }
        Ok(status.user.and_then(|user| {
            let identity = Identity {
                username: user.username.filter(|name| !name.is_empty())?,
                uid: user.uid.filter(|uid| !uid.is_empty()),
                groups: user.groups.unwrap_or_default(),
                extra: user.extra.unwrap_or_default(),
            };
            Some(identity.authenticated())
        }))
    }
}

/// The token of an `Authorization: Bearer` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
