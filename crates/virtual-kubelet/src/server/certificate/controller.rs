// SPDX-License-Identifier: Apache-2.0
//! Asks for the certificate and shows it: performs what `plan` says.

use std::{fmt::Display, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{Api, Client, api::PostParams, runtime::events::EventType};
use prometheus::Registry;
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Addresses, ServingCertificate,
    metrics::Metrics,
    plan::{Action, Answer, State},
    request::{Outcome, Request, outcome},
};
use crate::{back_off::chance, events::Events};

/// How long an API server may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest sleep: a clock that was set, or a machine that slept, is noticed after that.
const NAP: Duration = Duration::from_secs(600);
/// What events say that was done.
const ACTION: &str = "RequestCertificate";

/// Keeps a certificate issued by the upper cluster in a [`ServingCertificate`].
pub struct CertificateController {
    requests: Api<CertificateSigningRequest>,
    events: Events,
    metrics: Metrics,
    certificate: Arc<ServingCertificate>,
    node: String,
    addresses: watch::Receiver<Addresses>,
    state: State,
    request: Option<Request>,
}

impl CertificateController {
    /// A controller that has not begun yet, for the node of this name. Its metrics go to `registry`.
    ///
    /// # Errors
    /// When the registry has metrics of a node of the same name already.
    pub fn new(
        client: Client,
        certificate: Arc<ServingCertificate>,
        node: &str,
        mut addresses: watch::Receiver<Addresses>,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let state = State::new(addresses.borrow_and_update().clone());
        Ok(Self {
            requests: Api::all(client.clone()),
            events: Events::new(client, node),
            metrics: Metrics::register(node, registry)?,
            certificate,
            node: node.to_owned(),
            addresses,
            state,
            request: None,
        })
    }

    /// Asks, waits and replaces until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        stop.run_until_cancelled(async {
            loop {
                self.step().await;
            }
        })
        .await;
    }

    async fn step(&mut self) {
        let now = Timestamp::now();
        let answer = match self.state.plan(now) {
            Action::Wait(until) => return self.wait(until, now).await,
            Action::Begin => self.begin(),
            Action::Send => self.send().await,
            Action::Look => self.look().await,
            Action::Tell => self.tell().await,
        };
        self.state.answered(answer, Timestamp::now(), chance());
        self.metrics.undecided(self.state.is_undecided());
    }

    async fn wait(&mut self, until: Option<Timestamp>, now: Timestamp) {
        let nap = until.and_then(|until| until.duration_since(now).try_into().ok()).map_or(NAP, |wait| NAP.min(wait));
        let changed = async {
            if self.addresses.changed().await.is_err() {
                // Nobody is left who could change them.
                std::future::pending::<()>().await;
            }
        };
        if timeout(nap, changed).await.is_ok() {
            self.state.reached_at(self.addresses.borrow_and_update().clone());
        }
    }

    fn begin(&mut self) -> Answer {
        match Request::new(&self.node, self.state.addresses()) {
            Ok(request) => {
                self.request = Some(request);
                Answer::Begun
            }
            Err(error) => {
                tracing::error!(node = self.node, %error, "no certificate can be asked for");
                Answer::Refused
            }
        }
    }

    async fn send(&mut self) -> Answer {
        let Some(request) = &self.request else { return Answer::Refused };
        let object = request.object();
        match in_time(self.requests.create(&PostParams::default(), &object)).await {
            // Its name is its key's: this is the one whose answer was lost.
            Ok(_) | Err(Trouble::Status(409, _)) => {}
            Err(trouble) => {
                tracing::warn!(node = self.node, error = %trouble, "cannot ask for a serving certificate, trying again");
                return Answer::Away;
            }
        }
        let name = request.name();
        tracing::info!(node = self.node, request = name, "a serving certificate was asked for and waits for approval");
        let note =
            format!("CertificateSigningRequest {name} waits for approval; until then another certificate is shown");
        self.events.on_node(&self.node, EventType::Normal, "CertificateRequested", ACTION, &note).await;
        Answer::Sent
    }

    async fn look(&mut self) -> Answer {
        let Some(request) = &self.request else { return Answer::Refused };
        let name = request.name().to_owned();
        let object = match in_time(self.requests.get(&name)).await {
            Ok(object) => object,
            Err(Trouble::Status(404, _)) => return self.refused(&name, "removed", "was removed undecided").await,
            Err(trouble) => {
                tracing::warn!(node = self.node, request = name, error = %trouble, "cannot look at the request");
                return Answer::Away;
            }
        };
        match outcome(&object) {
            Outcome::Undecided | Outcome::Unsigned => Answer::Undecided,
            Outcome::Denied(words) => self.refused(&name, "denied", format!("was denied: {words}")).await,
            Outcome::Failed(words) => self.refused(&name, "failed", format!("cannot be signed: {words}")).await,
            Outcome::Issued(pem) => match request.certified(&pem, Timestamp::now()) {
                Ok((certified, validity)) => {
                    self.certificate.replace(certified);
                    self.metrics.ended("issued");
                    self.metrics.expires(validity.until);
                    tracing::info!(node = self.node, request = name, until = %validity.until, "serving certificate replaced");
                    self.request = None;
                    Answer::Issued(validity)
                }
                Err(error) => self.refused(&name, "failed", error).await,
            },
        }
    }

    /// A request came to nothing.
    async fn refused(&mut self, name: &str, result: &str, why: impl Display) -> Answer {
        let message = format!("CertificateSigningRequest {name}: {why}");
        tracing::warn!(node = self.node, request = name, reason = %why, "no serving certificate, asking again later");
        self.metrics.ended(result);
        self.events.on_node(&self.node, EventType::Warning, "CertificateRefused", ACTION, &message).await;
        self.request = None;
        Answer::Refused
    }

    async fn tell(&mut self) -> Answer {
        let name = self.request.as_ref().map(Request::name).unwrap_or_default();
        tracing::warn!(
            node = self.node,
            request = name,
            "nobody approved or signed the serving certificate, still waiting"
        );
        let note =
            format!("CertificateSigningRequest {name} was not approved or not signed for 15 minutes; still waiting");
        self.events.on_node(&self.node, EventType::Warning, "CertificateOverdue", ACTION, &note).await;
        Answer::Told
    }
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{1}")]
    Status(u16, String),
    #[error("{0}")]
    Away(kube::Error),
    #[error("no answer in time")]
    Late,
}

async fn in_time<T>(asked: impl Future<Output = kube::Result<T>>) -> Result<T, Trouble> {
    match timeout(PATIENCE, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(Trouble::Status(status.code, status.message.clone())),
        Ok(Err(error)) => Err(Trouble::Away(error)),
        Err(_) => Err(Trouble::Late),
    }
}

#[cfg(test)]
mod tests;
