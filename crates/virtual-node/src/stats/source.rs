// SPDX-License-Identifier: Apache-2.0
//! Which source is asked: looked at now and then, and at once when the one of the day refuses.

use std::time::Duration;

use kube::Client;
use tensile_core::stats::{Choice, Found, Source, Wanted, choose};
use tensile_runtime::clients::{Permission, ProbeError, require};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

use super::{
    Failure,
    kubelets::{get, whole},
    metrics_api,
};
use crate::permissions::{LOWER_KUBELETS, LOWER_METRICS};

/// How often it is looked which sources there are: rights and metrics servers come and go without telling.
const EVERY: Duration = Duration::from_secs(60);
/// The least time between two looks, however often a source refuses.
const PAUSE: Duration = Duration::from_secs(5);
/// How long the metrics API may take to say that it is there, and whoever asks first waits for a choice.
const PATIENCE: Duration = Duration::from_secs(8);

/// The choice, kept up to date.
pub(super) struct Sources {
    client: Client,
    wanted: Wanted,
    store: bool,
    /// None while it is not known what there is.
    chosen: watch::Sender<Option<Choice>>,
    again: Notify,
}

impl Sources {
    /// No choice yet.
    pub(super) fn new(client: Client, wanted: Wanted, store: bool) -> Self {
        Self { client, wanted, store, chosen: watch::Sender::new(None), again: Notify::new() }
    }

    /// The choice of the day. The first one is waited for.
    pub(super) async fn chosen(&self) -> Result<Choice, Failure> {
        let mut choices = self.chosen.subscribe();
        let known = timeout(PATIENCE, choices.wait_for(Option::is_some)).await;
        let choice = known.ok().and_then(Result::ok).and_then(|choice| choice.clone());
        choice.ok_or_else(|| Failure::away("the lower cluster does not tell what may be asked there"))
    }

    /// Looks what there is and chooses; the choice before stays while the lower cluster is away.
    pub(super) async fn decide(&self, node: &str) -> Option<Source> {
        let found = match self.wanted {
            Wanted::Auto => self.look().await,
            Wanted::Only(_) => Some(Found { kubelet: Ok(()), metrics_api: Ok(()), prometheus: self.store }),
        };
        if let Some(found) = found {
            let choice = choose(self.wanted, &found);
            self.chosen.send_if_modified(|known| {
                let changed = known.as_ref() != Some(&choice);
                if changed {
                    let (source, reason) = (choice.source.name(), &choice.reason);
                    tracing::info!(node, source, reason, "where metrics of containers come from");
                    *known = Some(choice);
                }
                changed
            });
        }
        self.chosen.borrow().as_ref().map(|choice| choice.source)
    }

    /// The source refused: it is looked again soon.
    pub(super) fn decide_again(&self) {
        self.again.notify_one();
    }

    /// Waits until it is time to look again.
    pub(super) async fn rest(&self) {
        sleep(PAUSE).await;
        // Either is a reason to look.
        drop(timeout(EVERY, self.again.notified()).await);
    }

    async fn look(&self) -> Option<Found> {
        Some(Found {
            kubelet: self.allowed(LOWER_KUBELETS).await?,
            metrics_api: match self.metrics_api().await? {
                Ok(()) => self.allowed(LOWER_METRICS).await?,
                missing => missing,
            },
            prometheus: self.store,
        })
    }

    /// Whether we may; `None` when nobody can say.
    async fn allowed(&self, permissions: &[Permission<'static>]) -> Option<Result<(), String>> {
        match require(&self.client, permissions).await {
            Ok(()) => Some(Ok(())),
            Err(error) if error.is_away() => None,
            Err(ProbeError::Forbidden { verb, resource, .. }) => Some(Err(format!("may not {verb} {resource}"))),
            Err(error) => Some(Err(error.to_string())),
        }
    }

    async fn metrics_api(&self) -> Option<Result<(), String>> {
        let asked = async { whole(get(&self.client, metrics_api::ROOT).await?).await };
        Some(match timeout(PATIENCE, asked).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(failure)) if failure.status == http::StatusCode::BAD_GATEWAY => return None,
            Ok(Err(failure)) => Err(failure.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        })
    }
}
