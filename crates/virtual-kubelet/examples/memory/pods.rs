// SPDX-License-Identifier: Apache-2.0
//! The pods and the node: entries in a map.
//!
//! A pod is taken at once and shown Running, finishes when it has the annotation `example/finish` (`Succeeded` or
//! `Failed`), and is let go a moment after it was told to end. A provider for a real backend replaces [`Memory::start`] and
//! the like by calls to that backend, and the map by what the backend says.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use virtual_kubelet::{
    node::NodeProvider,
    pod::{Grace, PodError, PodFeed, PodId, PodObject, PodProvider, ProviderPod},
    server::websocket::WEBSOCKET_FEATURE,
};

/// The backend.
pub(crate) struct Memory {
    pub(crate) node: String,
    /// Where its kubelet API is.
    pub(crate) address: String,
    port: u16,
    pods: Mutex<HashMap<PodId, ProviderPod>>,
    /// Who listens to changes, once somebody does.
    changes: mpsc::UnboundedSender<Change>,
    listener: Mutex<Option<mpsc::UnboundedReceiver<Change>>>,
}

enum Change {
    Is(Box<ProviderPod>),
    Gone(PodId),
}

impl Memory {
    pub(crate) fn new(node: &str, address: &str, port: u16) -> Self {
        let (changes, listener) = mpsc::unbounded_channel();
        let (node, address) = (node.to_owned(), address.to_owned());
        Self { node, address, port, pods: Mutex::default(), changes, listener: Mutex::new(Some(listener)) }
    }

    pub(crate) fn pods(&self) -> std::sync::MutexGuard<'_, HashMap<PodId, ProviderPod>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod as it starts: each container runs.
    fn start(upper: &PodObject) -> ProviderPod {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let finish = upper.json["metadata"]["annotations"]["example/finish"].as_str();
        let state = match finish {
            None => json!({"running": {"startedAt": now}}),
            Some(phase) => json!({"terminated": {"exitCode": i32::from(phase == "Failed"), "finishedAt": now}}),
        };
        let container = |spec: &Value| {
            json!({"name": spec["name"], "image": spec["image"], "imageID": "", "restartCount": 0,
                "ready": finish.is_none(), "started": finish.is_none(), "state": state})
        };
        let ready = if finish.is_none() { "True" } else { "False" };
        let condition = |name: &str| json!({"type": name, "status": ready, "lastTransitionTime": now});
        let containers = upper.json["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
        ProviderPod {
            id: upper.id.clone(),
            version: 0,
            applied: Some(upper.revision),
            ending_by: None,
            status: json!({
                "phase": finish.unwrap_or("Running"), "startTime": now, "hostIP": "192.0.2.1",
                "hostIPs": [{"ip": "192.0.2.1"}],
                "conditions": [condition("Initialized"), condition("Ready"), condition("ContainersReady")],
                "containerStatuses": containers.iter().map(container).collect::<Value>(),
            }),
            warning: None,
        }
    }

    /// Tells the listener. Nobody listens any more only when the process ends.
    fn tell(&self, change: Change) {
        drop(self.changes.send(change));
    }
}

impl PodProvider for Memory {
    async fn create_pod(&self, upper: &PodObject) -> Result<ProviderPod, PodError> {
        let pod = self.pods().entry(upper.id.clone()).or_insert_with(|| Self::start(upper)).clone();
        self.tell(Change::Is(Box::new(pod.clone())));
        Ok(pod)
    }

    async fn update_pod(&self, upper: &PodObject) -> Result<ProviderPod, PodError> {
        let pod = {
            let mut pods = self.pods();
            let pod = pods.get_mut(&upper.id).ok_or(PodError::Gone)?;
            pod.applied = Some(upper.revision);
            pod.clone()
        };
        self.tell(Change::Is(Box::new(pod.clone())));
        Ok(pod)
    }

    async fn delete_pod(&self, id: &PodId, _grace: Grace) -> Result<(), PodError> {
        self.pods().remove(id).ok_or(PodError::Gone)?;
        self.tell(Change::Gone(id.clone()));
        Ok(())
    }

    async fn get_pod(&self, id: &PodId) -> Result<Option<ProviderPod>, PodError> {
        Ok(self.pods().get(id).cloned())
    }

    async fn list_pods(&self) -> Result<Vec<ProviderPod>, PodError> {
        Ok(self.pods().values().cloned().collect())
    }

    async fn notify_pods(&self, feed: PodFeed, token: CancellationToken) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut listener) = listener else { return };
        feed.list(&self.list_pods().await.unwrap_or_default());
        while let Some(Some(change)) = token.run_until_cancelled(listener.recv()).await {
            match change {
                Change::Is(pod) => feed.changed(&pod),
                Change::Gone(id) => feed.gone(&id, 0),
            }
        }
    }
}

impl NodeProvider for Memory {
    async fn ping(&self) -> Result<(), String> {
        Ok(())
    }

    fn node(&self) -> Value {
        let resources = json!({"cpu": "64", "memory": "256Gi", "pods": "1000"});
        json!({
            "metadata": {"name": self.node, "labels": {
                "type": "virtual-kubelet", "kubernetes.io/hostname": self.node, "kubernetes.io/os": "linux",
            }},
            "spec": {"taints": [{"key": "virtual-kubelet.io/provider", "value": "memory", "effect": "NoSchedule"}]},
            "status": {"capacity": resources, "allocatable": resources,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "memory is patient"}],
                "addresses": [{"type": "InternalIP", "address": self.address}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
                "declaredFeatures": [WEBSOCKET_FEATURE],
                "nodeInfo": {"kubeletVersion": "v1.36.0-memory"}},
        })
    }

    async fn changed(&self) {
        std::future::pending::<()>().await;
    }
}
