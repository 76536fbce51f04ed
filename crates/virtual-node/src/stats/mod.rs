// SPDX-License-Identifier: Apache-2.0
//! What containers below use, for whoever asks the virtual node: one answer for all who ask at about the same time.
//!
//! Pure rules are the core's ([`tensile_core::stats`]). Here is who is asked: the kubelets below through their API server
//! (`kubelets`), the metrics API there (`metrics_api`), or a metric store (`store`); which of them, `source` decides.

mod document;
mod failure;
mod gauges;
mod kubelets;
mod metrics_api;
mod shared;
mod source;
mod store;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use jiff::Timestamp;
use kube::Client;
use prometheus::Registry;
use tensile_core::stats::{Meter, Roster, Source};
use tokio_util::sync::CancellationToken;
use virtual_kubelet::server::{IoError, StatsProvider};

use crate::config::StatsSettings;
use document::Document;
use failure::Failure;
use gauges::Gauges;
use shared::Shared;
use source::Sources;
use store::Store;

/// What is known of a lower cluster before anything is asked.
pub struct Below {
    /// Its API server.
    pub client: Client,
    /// A label selector for the pods that this link has there.
    pub selector: String,
    /// These pods as of now, and where they run.
    pub roster: Box<dyn Fn() -> Roster + Send + Sync>,
}

/// What the pods of one virtual node use.
pub struct LowerStats {
    below: Below,
    node: String,
    sources: Sources,
    store: Option<Store>,
    documents: [Shared; Document::ALL.len()],
    counting: Mutex<Counting>,
    /// Lower nodes that did not answer the last time, by document: one may be too slow for one of them only.
    silent: [Mutex<BTreeSet<Arc<str>>>; Document::ALL.len()],
    gauges: Gauges,
}

/// The counters, and the source that they are fed from.
struct Counting {
    meter: Meter,
    source: Option<Source>,
}

impl LowerStats {
    /// The statistics of the pods `below`, as virtual node `node`.
    ///
    /// # Errors
    /// When the metric store cannot be a client's target, or a metric is registered already.
    pub fn new(below: Below, node: &str, settings: &StatsSettings, registry: &Registry) -> Result<Self, StatsError> {
        let store = settings.store.as_ref().map(Store::new).transpose().map_err(StatsError::Store)?;
        let sources = Sources::new(below.client.clone(), settings.source, store.is_some());
        let meter = Meter::since(Timestamp::now().as_millisecond());
        Ok(Self {
            below,
            node: node.to_owned(),
            sources,
            store,
            documents: std::array::from_fn(|_| Shared::default()),
            counting: Mutex::new(Counting { meter, source: None }),
            silent: Default::default(),
            gauges: Gauges::register(registry, node).map_err(StatsError::Metrics)?,
        })
    }

    /// Keeps the choice of the source up to date, and lets go of answers that nobody asked for lately, until `stop` is
    /// cancelled.
    pub async fn run(&self, stop: CancellationToken) {
        let work = async {
            loop {
                if let Some(source) = self.sources.decide(&self.node).await {
                    self.gauges.source(source);
                }
                for document in &self.documents {
                    document.forget();
                }
                self.sources.rest().await;
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// The answer for `document`: the last one if it is fresh, else a new one, made once for all who wait.
    async fn read(&self, document: Document) -> Result<Bytes, IoError> {
        let make = async {
            let made = document.make(self).await;
            self.gauges.scraped(document, &made);
            made.map(|made| made.bytes)
        };
        self.documents[document.index()].get(make).await.map_err(IoError::from)
    }

    /// The counters, as fed from `source`: another one's begin elsewhere.
    fn meter(&self, source: Source) -> CountingGuard<'_> {
        let mut counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        if counting.source.replace(source).is_some_and(|before| before != source) {
            counting.meter.elsewhere(Timestamp::now().as_millisecond());
        }
        counting
    }

    /// Says which lower nodes were silent, when that changes.
    fn note_silent(&self, document: Document, failed: &[(Arc<str>, Failure)]) {
        let now: BTreeSet<Arc<str>> = failed.iter().map(|(node, _)| node.clone()).collect();
        self.gauges.silent(document, now.len());
        let mut known = self.silent[document.index()].lock().unwrap_or_else(PoisonError::into_inner);
        if *known == now {
            return;
        }
        let document = document.name();
        if let Some((node, failure)) = failed.first() {
            let (count, first, error) = (now.len(), &**node, failure.to_string());
            tracing::warn!(document, count, first, error, "kubelets below do not tell what their pods use");
        } else {
            tracing::info!(document, "all kubelets below tell what their pods use again");
        }
        *known = now;
    }
}

type CountingGuard<'a> = MutexGuard<'a, Counting>;

impl StatsProvider for LowerStats {
    async fn summary(&self, brief: bool) -> Result<Bytes, IoError> {
        self.read(if brief { Document::BriefSummary } else { Document::Summary }).await
    }

    async fn resource(&self) -> Result<Bytes, IoError> {
        self.read(Document::Resource).await
    }

    async fn cadvisor(&self) -> Result<Bytes, IoError> {
        self.read(Document::Cadvisor).await
    }

    async fn probes(&self) -> Result<Bytes, IoError> {
        self.read(Document::Probes).await
    }
}

/// Why there are no statistics at all.
#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    /// No client can be made for the store.
    #[error("--prometheus-url: {0}")]
    Store(String),
    /// The metrics of this service itself.
    #[error("metrics cannot be registered: {0}")]
    Metrics(prometheus::Error),
}

#[cfg(test)]
mod tests;
