//! The lower cluster as a Node: what it offers upstairs, and whether it answers.

use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;
use serde_json::Value;
use tensile_core::node::{NodeSettings, Readiness, build};
use tensile_runtime::clients::probe;
use tokio::sync::watch;
use virtual_kubelet::node::NodeProvider;

use crate::lower::LowerCluster;

/// The virtual node of one link.
pub struct VirtualNode {
    client: Client,
    lower: Arc<LowerCluster>,
    /// Its `version` is that of the lower API server as of the last ping.
    settings: Mutex<NodeSettings>,
    capacity: tokio::sync::Mutex<watch::Receiver<u64>>,
}

impl VirtualNode {
    /// The node that stands for `lower`, reached by `client`.
    pub fn new(client: Client, lower: Arc<LowerCluster>, settings: NodeSettings) -> Self {
        let capacity = tokio::sync::Mutex::new(lower.capacity().changes());
        Self { client, lower, settings: Mutex::new(settings), capacity }
    }

    fn settings(&self) -> std::sync::MutexGuard<'_, NodeSettings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeProvider for VirtualNode {
    async fn ping(&self) -> Result<(), String> {
        let version = probe(&self.client).await.map_err(|error| format!("lower cluster: {error}"))?;
        self.settings().version = version.git_version;
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
