// SPDX-License-Identifier: Apache-2.0
//! Keeps one Node alive: registers it, writes its status, renews its lease, makes it anew when somebody deletes it.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    NodeProvider,
    api::{ApiError, RawApi},
    health::{Backend, Health},
    lease::{self, LeaseTerms},
    pace::Pace,
    patch,
};
use crate::{
    back_off::chance,
    watched::{Seen, Selection, View, Watched, follow},
};

#[cfg(test)]
mod tests;

/// Settings of a [`NodeController`]. The defaults are a real kubelet's, or those of the Go library.
#[derive(Clone, Debug)]
pub struct NodeControllerConfig {
    /// Name of the virtual node.
    pub node: String,
    /// Time between pings of the backend.
    pub ping_interval: Duration,
    /// Time a ping may take.
    pub ping_timeout: Duration,
    /// Time between status writes when nothing changes.
    pub status_interval: Duration,
    /// Least time between two status writes; changes meanwhile are written together.
    pub status_gap: Duration,
    /// How long a provider that has just started may call itself not ready before that is written.
    pub settle_timeout: Duration,
    /// How long after a renewal of its lease the node counts as alive.
    pub lease_duration: Duration,
    /// Time between renewals of the lease.
    pub lease_interval: Duration,
    /// Time a request to the API server may take, retries inside the client included.
    pub request_timeout: Duration,
}

impl NodeControllerConfig {
    /// The defaults, for the node of this name.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            ping_interval: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(5),
            status_interval: Duration::from_secs(60),
            status_gap: Duration::from_millis(500),
            settle_timeout: Duration::from_secs(5),
            lease_duration: Duration::from_secs(40),
            lease_interval: Duration::from_secs(10),
            request_timeout: Duration::from_secs(10),
        }
    }
}

/// Why a node cannot be kept at all. Whatever may pass is tried again instead, for ever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The provider does not describe a node.
    #[error("the provider's description of node {0} is not a JSON object")]
    NotANode(String),
}

/// How the node fares, for probes, metrics and for who must act on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// UID of the Node while it is registered.
    pub uid: Option<String>,
    /// Whether the backend is there.
    pub backend: Backend,
    /// What the last write failed with, until one succeeds.
    pub failure: Option<String>,
    /// How often the Node went from anything else (absent, False, Unknown) to Ready=True. The control plane marks the
    /// node's pods not ready while it is not, and nobody but the kubelet marks them ready again: whoever writes pod
    /// status does so each time this number grows.
    pub recoveries: u64,
}

impl NodeState {
    /// Whether the Node is registered and its last write went well: what a readiness probe asks. A backend that is away
    /// does not matter here, the Node itself says that.
    pub fn is_kept(&self) -> bool {
        self.uid.is_some() && self.failure.is_none()
    }
}

/// Keeps one Node alive.
pub struct NodeController<P> {
    provider: Arc<P>,
    config: NodeControllerConfig,
    client: Client,
    node: RawApi,
    lease: RawApi,
    state: watch::Sender<NodeState>,
    /// UID of the registered Node, apart from the rest because the lease follows it.
    uid: watch::Sender<Option<String>>,
    changed: Notify,
}

impl<P: NodeProvider> NodeController<P> {
    /// A controller that has not begun yet.
    pub fn new(client: Client, provider: Arc<P>, config: NodeControllerConfig) -> Self {
        let api = |path: &str| RawApi::new(client.clone(), path, &config.node, config.request_timeout);
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", lease::NAMESPACE);
        let (node, lease) = (api("/api/v1/nodes"), api(&leases));
        let (state, uid) = (watch::Sender::default(), watch::Sender::default());
        Self { provider, config, client, node, lease, state, uid, changed: Notify::new() }
    }

    /// How the node fares, now and from now on.
    pub fn state(&self) -> watch::Receiver<NodeState> {
        self.state.subscribe()
    }

    /// Works until `token` is cancelled. Then it just stops: Node and Lease stay, so that a restart goes unnoticed.
    ///
    /// # Errors
    /// When the provider does not describe a node.
    pub async fn run(&self, token: CancellationToken) -> Result<(), NodeError> {
        if !self.provider.node().is_object() {
            return Err(NodeError::NotANode(self.config.node.clone()));
        }
        let terms = LeaseTerms {
            node: self.config.node.as_str().into(),
            duration: self.config.lease_duration,
            interval: self.config.lease_interval,
        };
        let work = async {
            tokio::join!(
                self.ping(),
                self.listen(),
                self.watch(),
                self.write(),
                lease::keep(&self.lease, &terms, self.uid.subscribe()),
            )
        };
        token.run_until_cancelled(work).await;
        Ok(())
    }

    /// Pings the backend, one ping at a time.
    async fn ping(&self) {
        let mut health = Health::default();
        loop {
            let ping = tokio::time::timeout(self.config.ping_timeout, self.provider.ping()).await;
            let took_too_long = || Err(format!("no answer within {:?}", self.config.ping_timeout));
            health.observe(ping.unwrap_or_else(|_| took_too_long()));
            let before = self.state.borrow().backend.clone();
            if before != *health.backend() {
                self.state.send_modify(|state| state.backend.clone_from(health.backend()));
                if let Backend::Away(message) = health.backend() {
                    tracing::warn!(node = self.config.node, message, "backend is away");
                } else {
                    tracing::info!(node = self.config.node, "backend is there");
                }
            }
            // The first answer is what the first write waits for anyway.
            if before != *health.backend() && before != Backend::Unknown {
                self.changed.notify_one();
            }
            tokio::time::sleep(health.next_ping(self.config.ping_interval)).await;
        }
    }

    /// Passes on that the provider has something new. A loop of its own, so that its future is never dropped half way.
    async fn listen(&self) {
        loop {
            self.provider.changed().await;
            self.changed.notify_one();
        }
    }

    /// Watches the Node: deleted, replaced or declared Unknown, it is written at once.
    async fn watch(&self) {
        let nodes: Api<Watched<NodeView>> = Api::all(self.client.clone());
        let selection = Selection { fields: Some(format!("metadata.name={}", self.config.node)), labels: None };
        let mut events = std::pin::pin!(follow(nodes, selection));
        let mut listed = false;
        while let Some(event) = events.next().await {
            match event {
                Seen::Begin => listed = false,
                Seen::Listed(node) => {
                    listed = true;
                    self.saw(&node);
                }
                Seen::Changed(node) => self.saw(&node),
                Seen::Complete if listed => {}
                Seen::Complete | Seen::Deleted(_) => self.gone(),
            }
        }
    }

    fn saw(&self, node: &Watched<NodeView>) {
        let Ok(view) = &node.view else { return };
        let replaced = self.uid.borrow().as_ref().is_some_and(|uid| *uid != view.uid);
        // Only the control plane writes Unknown, when it has not heard of us for a while.
        if replaced || view.unknown {
            tracing::info!(node = self.config.node, replaced, "the Node was changed by others, writing it again");
            self.changed.notify_one();
        }
    }

    fn gone(&self) {
        // Before the first registration there is nothing to lose.
        if self.uid.send_replace(None).is_some() {
            tracing::info!(node = self.config.node, "the Node was deleted, registering it again");
            self.state.send_modify(|state| state.uid = None);
            self.changed.notify_one();
        }
    }

    /// Writes the node whenever that is due.
    async fn write(&self) {
        self.settled().await;
        let mut pace = Pace::new(self.config.status_interval, self.config.status_gap);
        loop {
            let due = async {
                if let Some(next) = pace.next() {
                    tokio::time::sleep_until(next).await;
                }
            };
            tokio::select! {
                () = due => {}
                () = self.changed.notified() => {
                    pace.changed();
                    continue;
                }
            }
            match self.write_once().await {
                Ok(()) => pace.written(Instant::now()),
                Err(error) => {
                    tracing::warn!(node = self.config.node, %error, "node was not written, trying again");
                    self.state.send_modify(|state| state.failure = Some(error.to_string()));
                    pace.failed(Instant::now(), chance());
                }
            }
        }
    }

    /// Waits until it is known what to write. A provider has to get to know its backend first, and a Node that is not
    /// ready for that moment has its pods marked not ready: so that a restart goes unnoticed, it gets some time.
    async fn settled(&self) {
        let mut state = self.state.subscribe();
        let known = state.wait_for(|state| state.backend != Backend::Unknown).await;
        drop(known);
        let settled = async {
            while patch::ready(&self.provider.node()) == Some("False")
                && self.state.borrow().backend == Backend::Present
            {
                self.changed.notified().await;
            }
        };
        if tokio::time::timeout(self.config.settle_timeout, settled).await.is_err() {
            tracing::info!(node = self.config.node, "the provider still says that the node is not ready");
        }
    }

    async fn write_once(&self) -> Result<(), ApiError> {
        let wanted = patch::wanted(self.provider.node(), &self.config.node, &self.state.borrow().backend);
        let (before, node) = match self.node.get().await {
            Ok(server) => {
                let patch = patch::status_patch(&server, &wanted, Timestamp::now());
                let node = self.node.patch_status(patch).await?;
                (server, node)
            }
            Err(ApiError::NotFound) => {
                let node = self.node.create(&patch::registration(&wanted, Timestamp::now())).await?;
                tracing::info!(node = self.config.node, "node registered");
                (Value::Null, node)
            }
            Err(error) => return Err(error),
        };
        let uid = node["metadata"]["uid"].as_str().map(ToOwned::to_owned);
        let recovered = patch::ready(&before) != Some("True") && patch::ready(&node) == Some("True");
        self.uid.send_if_modified(|known| {
            let replaced = *known != uid;
            known.clone_from(&uid);
            replaced
        });
        self.state.send_if_modified(|state| {
            let next = NodeState {
                uid,
                failure: None,
                recoveries: state.recoveries + u64::from(recovered),
                backend: state.backend.clone(),
            };
            let changed = *state != next;
            *state = next;
            changed
        });
        Ok(())
    }
}

/// What of the Node's own watch matters here.
#[derive(Clone, Debug)]
struct NodeView {
    uid: String,
    /// Condition Ready is Unknown.
    unknown: bool,
}

impl View for NodeView {
    type Kind = Node;

    fn parse(raw: &str) -> Result<Self, serde_json::Error> {
        let node: Value = serde_json::from_str(raw)?;
        let uid = node["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        Ok(Self { uid, unknown: patch::ready(&node) == Some("Unknown") })
    }
}
