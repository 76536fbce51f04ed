// SPDX-License-Identifier: Apache-2.0
//! The lower cluster as a Node: what it offers upstairs, and whether it answers.

use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;
use serde_json::Value;
use tensile_core::names;
use tensile_core::node::{NodeSettings, Readiness, build};
use tensile_runtime::clients::{ProbeError, probe};
use tensile_runtime::upper_id::cluster_id;
use tokio::sync::{OnceCell, watch};
use virtual_kubelet::node::NodeProvider;

use crate::lower::LowerCluster;

/// The virtual node of one link.
pub struct VirtualNode {
    client: Client,
    lower: Arc<LowerCluster>,
    /// Its `version` is that of the lower API server as of the last ping; its labels name the lower cluster from the first
    /// ping on.
    settings: Mutex<NodeSettings>,
    /// Which cluster the lower one is, once it was asked; `None` if it does not say.
    identity: OnceCell<Option<String>>,
    capacity: tokio::sync::Mutex<watch::Receiver<u64>>,
}

impl VirtualNode {
    /// The node that stands for `lower`, reached by `client`.
    pub fn new(client: Client, lower: Arc<LowerCluster>, settings: NodeSettings) -> Self {
        let capacity = tokio::sync::Mutex::new(lower.capacity().changes());
        Self { client, lower, settings: Mutex::new(settings), identity: OnceCell::new(), capacity }
    }

    fn settings(&self) -> std::sync::MutexGuard<'_, NodeSettings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The UID by which the lower cluster is known, or `None` if we may not know it.
async fn identity(client: &Client) -> Result<Option<String>, ProbeError> {
    match cluster_id(client).await {
        Ok(id) => Ok(Some(id)),
        Err(error) if error.is_away() => Err(error),
        Err(error) => {
            tracing::warn!(%error, "the node does not say which lower cluster it stands for: a multi-scheduler needs that");
            Ok(None)
        }
    }
}

impl NodeProvider for VirtualNode {
    async fn ping(&self) -> Result<(), String> {
        let version = probe(&self.client).await.map_err(|error| format!("lower cluster: {error}"))?;
        self.settings().version = version.git_version;
        let identity = self.identity.get_or_try_init(|| identity(&self.client)).await;
        if let Some(id) = identity.map_err(|error| format!("lower cluster: {error}"))? {
            self.settings().labels.insert(names::LOWER_CLUSTER.to_owned(), id.clone());
        }
        Ok(())
    }

    fn node(&self) -> Value {
        let totals = self.lower.capacity().totals();
        let readiness = match &totals {
            Some(_) => Readiness::Ready,
            None => Readiness::NotReady {
                reason: "LowerClusterUnknown".to_owned(),
                message: "the nodes and pods of the lower cluster have not been listed yet".to_owned(),
            },
        };
        build(&self.settings(), &totals.unwrap_or_default(), &readiness)
    }

    async fn changed(&self) {
        if self.capacity.lock().await.changed().await.is_err() {
            // The sender lives as long as the lower cluster, so this is never reached; waiting is the harmless answer.
            std::future::pending::<()>().await;
        }
    }
}
