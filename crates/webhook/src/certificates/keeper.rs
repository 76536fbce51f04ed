// SPDX-License-Identifier: Apache-2.0
//! The task that keeps the certificates: looks at Secret and configuration, does the next step, and waits until it is
//! time for another or one of the two changes.
//!
//! Each replica runs one, without a leader: every write names the version it was decided on, so of two replicas that
//! want to do the same step one does it and the other looks again. A watch only says "look again"; what is decided on is
//! read anew, so that a watch that lags undoes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{Config, DefaultBackoff, Event};
use kube::{Api, Client, Resource};
use rustls::pki_types::CertificateDer;
use serde::de::DeserializeOwned;
use serde_json::json;
use tensile_runtime::admin::Condition;
use tensile_runtime::clients::ProbeError;
use tensile_runtime::tls::{PairError, ServedCertificate};
use tensile_runtime::watch::follow;
use tokio_util::sync::CancellationToken;

use super::held::{Held, Useless};
use super::issue::{IssueError, Lifetimes, perform};
use super::plan::{Action, Facts, plan};
use super::registration;

/// Looked at again after this also when nothing was to be done sooner: the timers of a suspended machine stand still.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Whose certificates are kept, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub secret: String,
    /// Name of the `MutatingWebhookConfiguration`.
    pub configuration: String,
    /// DNS names and IP addresses at which API servers call.
    pub names: BTreeSet<String>,
}

/// Keeps the certificates.
#[derive(Debug)]
pub struct Keeper {
    place: Place,
    lives: Lifetimes,
    served: Arc<ServedCertificate>,
    told: Condition,
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    /// The newest CA, and since when API servers are known to be told of it.
    newest: Option<(CertificateDer<'static>, Timestamp)>,
}

/// Why the next step was not done, in one sentence. Never holds what is in the Secret.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error("Secret {0}: {1}")]
    Secret(String, ProbeError),
    #[error("Secret {0} is not touched: {1}; --certificate-secret names another")]
    NotOurs(String, Useless),
    #[error("MutatingWebhookConfiguration {0}: {1}")]
    Configuration(String, ProbeError),
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error("Secret {0}: {1}")]
    Pair(String, PairError),
}

/// When to look again.
enum Next {
    /// Something was written, by us or by another replica.
    Now,
    /// There is nothing to do before.
    At(Timestamp),
}

impl Keeper {
    /// A keeper that replaces what is `served`, and says in `told` whether API servers trust it.
    pub fn new(
        client: Client,
        place: Place,
        lives: Lifetimes,
        served: Arc<ServedCertificate>,
        told: Condition,
    ) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &place.namespace),
            configurations: Api::all(client),
            place,
            lives,
            served,
            told,
            newest: None,
        }
    }

    /// Keeps them until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut changes = pin!(self.changes());
        let mut back_off = DefaultBackoff::default();
        loop {
            let wait = match stop.run_until_cancelled(self.step()).await {
                None => return,
                Some(Ok(Next::Now)) => continue,
                Some(Ok(Next::At(when))) => {
                    back_off.reset();
                    Duration::try_from(when.duration_since(Timestamp::now())).unwrap_or_default().min(LONGEST_WAIT)
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "cannot keep the certificates, trying again");
                    self.told.not_ready(error.to_string());
                    back_off.next().unwrap_or(LONGEST_WAIT)
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                Some(()) = changes.next() => {}
            }
        }
    }

    /// An item whenever Secret or configuration changed.
    fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        let client = self.secrets.clone().into_client();
        stream::select(
            changes_of::<Secret>(Api::namespaced(client.clone(), &self.place.namespace), &self.place.secret),
            changes_of::<MutatingWebhookConfiguration>(Api::all(client), &self.place.configuration),
        )
    }

    /// Looks, tells API servers what is held, serves it, and does the next step.
    async fn step(&mut self) -> Result<Next, StepError> {
        let name = format!("{}/{}", self.place.namespace, self.place.secret);
        let secret = self.secrets.get_opt(&self.place.secret).await;
        let secret = secret.map_err(|error| StepError::Secret(name.clone(), error.into()))?;
        let data = secret.as_ref().and_then(|secret| secret.data.clone()).unwrap_or_default();
        let held = match Held::read(&data) {
            Ok(held) => Some(held),
            Err(Useless::Empty) => None,
            Err(useless @ Useless::NotOurs) => return Err(StepError::NotOurs(name, useless)),
            Err(useless @ Useless::Damaged(_)) => {
                tracing::warn!(secret = name, reason = %useless, "the Secret is damaged and written anew");
                None
            }
        };
        if let Some(held) = &held {
            match self.tell(held).await? {
                Told::Yes => self.told.ready(),
                Told::Again => return Ok(Next::Now),
                Told::Nobody(reason) => self.told.not_ready(reason),
            }
            self.serve(held).map_err(|error| StepError::Pair(name.clone(), error))?;
        }
        let now = Timestamp::now();
        let facts = held.as_ref().map_or_else(Facts::default, |held| held.facts(&self.place.names));
        let told = self.newest.as_ref().map(|(_, since)| *since);
        let settle = SignedDuration::try_from(self.lives.settle()).unwrap_or(SignedDuration::MAX);
        let action = plan(&facts, told, settle, now);
        if let Action::Wait(until) = action {
            return Ok(Next::At(until));
        }
        let data = perform(action, held, &self.place.names, self.lives, now)?;
        let written = if let Some(secret) = secret {
            self.change(secret.metadata, data).await
        } else if let Some(owner) = self.owner().await? {
            self.create(owner, data).await
        } else {
            self.told.not_ready(format!("there is no MutatingWebhookConfiguration {}", self.place.configuration));
            return Ok(Next::At(Timestamp::MAX));
        };
        match written {
            Ok(()) => tracing::info!(secret = name, step = ?action, "certificates renewed"),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                tracing::debug!(secret = name, "another replica was first");
            }
            Err(error) => return Err(StepError::Secret(name, error.into())),
        }
        Ok(Next::Now)
    }

    /// Sees to it that API servers are told of all CAs, and remembers since when.
    async fn tell(&mut self, held: &Held) -> Result<Told, StepError> {
        let name = &self.place.configuration;
        let failed = |error: kube::Error| StepError::Configuration(name.clone(), error.into());
        let newest = held.cas.first().map(|ca| &ca.der);
        let Some(configuration) = self.configurations.get_opt(name).await.map_err(failed)? else {
            self.newest = None;
            return Ok(Told::Nobody(format!("there is no MutatingWebhookConfiguration {name}")));
        };
        let ours = registration::ours(&configuration, &self.place.names);
        if ours.is_empty() {
            self.newest = None;
            let reason = format!("no webhook of MutatingWebhookConfiguration {name} is called at --serving-names");
            return Ok(Told::Nobody(reason));
        }
        let version = configuration.metadata.resource_version.as_deref();
        if let Some(patch) = registration::patch(&ours, &held.bundle(), version) {
            let told = self.configurations.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await;
            match told {
                Ok(_) => tracing::info!(configuration = name, webhooks = ours.len(), "caBundle set"),
                Err(kube::Error::Api(status)) if status.code == 409 => return Ok(Told::Again),
                Err(error) => return Err(failed(error)),
            }
            // Counted from now on: what was there before may not have held the newest.
            self.newest = None;
        }
        if self.newest.as_ref().map(|(der, _)| der) != newest {
            self.newest = newest.map(|der| (der.clone(), Timestamp::now()));
        }
        Ok(Told::Yes)
    }

    fn serve(&self, held: &Held) -> Result<(), PairError> {
        let Some(leaf) = &held.leaf else { return Ok(()) };
        if self.served.replace(leaf.cert.clone().into_bytes(), leaf.key.0.clone().into_bytes())? {
            tracing::info!(until = %leaf.validity.until, "serving certificate replaced");
        }
        Ok(())
    }

    /// The configuration, which the Secret goes with: an uninstalled webhook leaves none, and makes none while it ends.
    async fn owner(&self) -> Result<Option<OwnerReference>, StepError> {
        let name = &self.place.configuration;
        let configuration = self.configurations.get_opt(name).await;
        let configuration = configuration.map_err(|error| StepError::Configuration(name.clone(), error.into()))?;
        Ok(configuration.and_then(|configuration| configuration.owner_ref(&())))
    }

    async fn create(&self, owner: OwnerReference, data: BTreeMap<String, ByteString>) -> kube::Result<()> {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.place.secret.clone()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(data),
            ..Secret::default()
        };
        self.secrets.create(&PostParams::default(), &secret).await.map(drop)
    }

    /// Changes the Secret of this version.
    async fn change(&self, existing: ObjectMeta, data: BTreeMap<String, ByteString>) -> kube::Result<()> {
        let patch = json!({ "metadata": { "resourceVersion": existing.resource_version }, "data": data });
        self.secrets.patch(&self.place.secret, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
    }
}

/// Whether API servers are told.
enum Told {
    Yes,
    /// Somebody else changed the configuration.
    Again,
    /// There is nobody to be told, because of this.
    Nobody(String),
}

/// An item whenever the object of this name changed, by its metadata alone.
fn changes_of<K>(api: Api<PartialObjectMeta<K>>, name: &str) -> impl Stream<Item = ()> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
    PartialObjectMeta<K>: DeserializeOwned,
{
    let config = Config::default().fields(&format!("metadata.name={name}"));
    follow(api, config).filter_map(|event| {
        std::future::ready(match event {
            Event::Init | Event::InitApply(_) => None,
            Event::InitDone | Event::Apply(_) | Event::Delete(_) => Some(()),
        })
    })
}
