// SPDX-License-Identifier: Apache-2.0
//! One task for each kubeconfig: it connects, finds out which cluster that is, and follows it until the kubeconfig changes.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::Client;
use tensile_core::scheduling::{Gain, Kind};
use tensile_runtime::clients::{self, ClientSource, probe as probe_server};
use tensile_runtime::upper_id::cluster_id;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Kubeconfig, Wanted};
use crate::fleet::Fleet;
use crate::lower::{Lower, follow, probe};
use crate::reservations::ClusterId;

/// First and longest pause between two tries to reach a cluster.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What can be said of the kubeconfigs.
#[derive(Debug, Default)]
pub struct Told(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Why clusters are not followed, by name.
    troubles: BTreeMap<String, String>,
    /// Which name a cluster is followed under.
    claims: BTreeMap<ClusterId, String>,
    /// All names.
    names: BTreeSet<String>,
}

impl Told {
    /// Names of kubeconfigs whose cluster is not followed, each with the reason.
    pub fn troubles(&self) -> BTreeMap<String, String> {
        self.state().troubles.clone()
    }

    /// How many kubeconfigs there are.
    pub fn wanted(&self) -> usize {
        self.state().names.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name is that of this cluster, unless another has it already.
    fn claim(&self, id: &ClusterId, name: &str) -> Result<(), String> {
        let mut state = self.state();
        match state.claims.get(id) {
            Some(other) if other != name => Err(format!("it is the same cluster as {other}")),
            _ => {
                state.claims.retain(|_, known| known != name);
                state.claims.insert(id.clone(), name.to_owned());
                state.troubles.remove(name);
                Ok(())
            }
        }
    }

    /// Notes why a cluster is not followed. Whether that is news.
    fn trouble(&self, name: &str, reason: &str) -> bool {
        self.state().troubles.insert(name.to_owned(), reason.to_owned()).as_deref() != Some(reason)
    }

    fn gone(&self, name: &str) {
        let mut state = self.state();
        state.troubles.remove(name);
        state.claims.retain(|_, known| known != name);
        state.names.remove(name);
    }
}

/// Keeps one task running for each kubeconfig.
#[derive(Debug, Clone)]
pub struct Supervisor {
    /// Where what is seen goes.
    pub fleet: Arc<Fleet>,
    /// How API servers are asked.
    pub source: ClientSource,
    /// What can be said.
    pub told: Arc<Told>,
}

impl Supervisor {
    /// Follows the clusters of one source until `stop`.
    pub async fn run(self, mut wanted: watch::Receiver<Wanted>, stop: CancellationToken) {
        let mut running: BTreeMap<String, (Kubeconfig, CancellationToken)> = BTreeMap::new();
        loop {
            let now = wanted.borrow_and_update().clone();
            let gone: Vec<String> = running.keys().filter(|name| !now.contains_key(*name)).cloned().collect();
            for name in gone {
                if let Some((_, task)) = running.remove(&name) {
                    task.cancel();
                }
                tracing::info!(cluster = name, "the lower cluster is not followed any more");
                self.told.gone(&name);
                for lower in self.fleet.lowers().values().filter(|lower| lower.name == name) {
                    self.fleet.remove(lower);
                }
            }
            for (name, kubeconfig) in now {
                if running.get(&name).is_some_and(|(known, _)| *known == kubeconfig) {
                    continue;
                }
                let task = stop.child_token();
                self.told.state().names.insert(name.clone());
                tokio::spawn({
                    let (this, name, kubeconfig, task) = (self.clone(), name.clone(), kubeconfig.clone(), task.clone());
                    async move { task.run_until_cancelled(this.follow(&name, &kubeconfig)).await }
                });
                if let Some((_, old)) = running.insert(name, (kubeconfig, task)) {
                    // What it knows counts until the new one knows as much, or it is stale.
                    old.cancel();
                }
            }
            match stop.run_until_cancelled(wanted.changed()).await {
                Some(Ok(())) => {}
                Some(Err(_)) | None => return,
            }
        }
    }

    /// Does not end.
    async fn follow(&self, name: &str, kubeconfig: &Kubeconfig) {
        let (client, id) = self.reach(name, kubeconfig).await;
        let fleet = &self.fleet;
        let lower = Arc::new(Lower::new(name, &id, fleet.policy.profiles.of(name), Instant::now()));
        tracing::info!(cluster = name, id = &*id, "following the lower cluster");
        // While another version of it is known, that one answers until this one can.
        if !fleet.lowers().contains_key(&id) {
            fleet.add(&lower);
        }
        let mut watches = JoinSet::new();
        for kind in Kind::ALL {
            let events = follow(client.clone(), name, kind);
            let (fleet, lower) = (fleet.clone(), lower.clone());
            watches.spawn(async move {
                let mut events = pin!(events);
                while let Some(heard) = events.next().await {
                    let gain = lower.hear(kind, heard, Instant::now());
                    fleet.gained(&lower, gain);
                }
            });
        }
        let listed = async {
            lower.until_listed().await;
            fleet.add(&lower);
            fleet.gained(&lower, Gain::Room);
            tracing::info!(cluster = name, "the lower cluster is known");
        };
        tokio::join!(listed, probe(&lower, client, fleet.patience, || fleet.gained(&lower, Gain::Room)));
    }

    /// A client, and the UID of the cluster it leads to. Tries until it works.
    async fn reach(&self, name: &str, kubeconfig: &Kubeconfig) -> (Client, ClusterId) {
        let mut pause = PAUSE;
        loop {
            match self.try_reach(name, kubeconfig).await {
                Ok(reached) => return reached,
                Err(reason) => {
                    if self.told.trouble(name, &reason) {
                        tracing::warn!(cluster = name, reason, "the lower cluster cannot be followed, trying again");
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn try_reach(&self, name: &str, kubeconfig: &Kubeconfig) -> Result<(Client, ClusterId), String> {
        let client = match kubeconfig {
            Kubeconfig::File { path, .. } => {
                let mut source = self.source.clone();
                source.kubeconfig = Some(path.clone());
                clients::connect(&source).await
            }
            Kubeconfig::Secret { name, text } => clients::connect_foreign(&self.source, name, text).await,
        };
        let client = client.map_err(|error| error.to_string())?;
        probe_server(&client).await.map_err(|error| error.to_string())?;
        let id: ClusterId = cluster_id(&client).await.map_err(|error| error.to_string())?.into();
        self.told.claim(&id, name)?;
        Ok((client, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_followed_under_one_name() {
        let told = Told::default();
        let id: ClusterId = "u-1".into();
        assert_eq!(told.claim(&id, "east"), Ok(()));
        assert_eq!(told.claim(&id, "east"), Ok(()));
        assert_eq!(told.claim(&id, "again"), Err("it is the same cluster as east".to_owned()));
        told.gone("east");
        assert_eq!(told.claim(&id, "again"), Ok(()));
    }

    #[test]
    fn a_trouble_is_news_once() {
        let told = Told::default();
        assert!(told.trouble("east", "away"));
        assert!(!told.trouble("east", "away"));
        assert!(told.trouble("east", "forbidden"));
        assert_eq!(told.claim(&"u-1".into(), "east"), Ok(()));
        assert!(told.troubles().is_empty());
    }
}
