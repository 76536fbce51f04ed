// SPDX-License-Identifier: Apache-2.0
//! The lower cluster, as the backend of a virtual node.
//!
//! One watch follows all lower pods: ours, whose status goes up, and the others, which take room from the node. One
//! watch follows the lower nodes. Everything else is a request for one pod.

pub(crate) mod answer;
mod capacity;
mod events;
pub(crate) mod namespaces;
mod pods;
mod roster;
mod view;
mod watch;

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kube::Client;
use tensile_core::{names, pod::LinkView};
use tensile_runtime::clients::ClientSource;
use tokio::sync::watch as channel;
use virtual_kubelet::pod::PodId;

pub use capacity::CapacityView;
use capacity::Usage;
use namespaces::Namespaces;
use roster::Placed;
use view::LowerPodView;

use crate::{
    identity::{Identity, MissingToken},
    kubelet::Followers,
    objects::{Objects, marked},
    services::Services,
    volumes::Volumes,
};

/// One lower cluster, behind one virtual node.
pub struct LowerCluster {
    client: Client,
    link: LinkView,
    host_ip: String,
    show_pod_ips: bool,
    /// Our pods there, by the UID of their upper pod.
    ours: Mutex<HashMap<Arc<str>, Ours>>,
    /// The same pods, by the UID below.
    by_lower_uid: Mutex<HashMap<u128, PodId>>,
    /// All of them have been seen once.
    listed: channel::Sender<bool>,
    usage: Usage,
    namespaces: Arc<Namespaces>,
    objects: Arc<Objects>,
    identity: Arc<Identity>,
    /// Unless others see to claims.
    volumes: Option<Arc<Volumes>>,
    /// Unless others see to Services.
    services: Option<Arc<Services>>,
    missing_token: MissingToken,
    /// Unless each has a connection of its own.
    followers: Option<Followers>,
}

/// Namespace and name of a lower pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) namespace: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
}

/// What is remembered of a lower pod of ours.
#[derive(Clone, Debug)]
struct Ours {
    /// UID of the lower object: deletions name it.
    uid: Box<str>,
    /// Hash of what was last reported of it: an event that changes nothing of it costs nothing more.
    reported: u64,
    /// Where it runs.
    placed: Option<Placed>,
}

impl LowerCluster {
    /// The lower cluster of `link`. `host_ip` is what pods show as their host, `namespaces` sees to where they are, `objects`
    /// to what they bring along, `identity` to who they are.
    pub fn new(
        client: Client,
        link: LinkView,
        host_ip: String,
        show_pod_ips: bool,
        namespaces: Arc<Namespaces>,
        objects: Arc<Objects>,
        identity: Arc<Identity>,
    ) -> Self {
        Self {
            client,
            link,
            host_ip,
            show_pod_ips,
            ours: Mutex::default(),
            by_lower_uid: Mutex::default(),
            listed: channel::Sender::new(false),
            usage: Usage::default(),
            namespaces,
            objects,
            identity,
            volumes: None,
            services: None,
            missing_token: MissingToken::default(),
            followers: None,
        }
    }

    /// Has `volumes` see to the claims of pods, and `services` to the Services of their namespaces.
    #[must_use]
    pub fn with(self, volumes: Option<Arc<Volumes>>, services: Option<Arc<Services>>) -> Self {
        Self { volumes, services, ..self }
    }

    /// Treats pods whose tokens cannot be kept as `missing_token` says.
    #[must_use]
    pub fn missing_token(self, missing_token: MissingToken) -> Self {
        Self { missing_token, ..self }
    }

    /// Has followed logs share connections to where `source` leads, which is the same cluster.
    #[must_use]
    pub fn followed_over(self, source: ClientSource) -> Self {
        Self { followers: Some(Followers::new(source)), ..self }
    }

    /// What the cluster can still take.
    pub fn capacity(&self) -> CapacityView<'_> {
        CapacityView::new(&self.usage)
    }

    /// The lower API server.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Connections for logs that are followed.
    pub(crate) fn followers(&self) -> Option<&Followers> {
        self.followers.as_ref()
    }

    /// Where the lower pod of `id` is.
    pub(crate) fn place<'a>(&'a self, id: &'a PodId) -> Place<'a> {
        let namespace = self.link.lower_namespace(&id.namespace);
        Place { namespace, name: self.link.lower_pod(&id.namespace, &id.name) }
    }

    /// What all lower pods of this link have: a label selector.
    pub(crate) fn selector(&self) -> String {
        marked(&self.link)
    }

    fn ours(&self) -> MutexGuard<'_, HashMap<Arc<str>, Ours>> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn by_lower_uid(&self) -> MutexGuard<'_, HashMap<u128, PodId>> {
        self.by_lower_uid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a lower pod of ours.
    fn remember(&self, id: &PodId, pod: Ours) {
        if let Some(uid) = events::number(&pod.uid) {
            self.by_lower_uid().entry(uid).or_insert_with(|| id.clone());
        }
        let known = self.ours().insert(id.uid.clone(), pod);
        if let (None, Some(services)) = (known, &self.services) {
            services.pod_comes(&id.namespace);
        }
    }

    /// Forgets the lower pod of `id`.
    fn forget(&self, id: &PodId) {
        let Some(known) = self.ours().remove(&id.uid) else { return };
        if let Some(uid) = events::number(&known.uid) {
            self.by_lower_uid().remove(&uid);
        }
        if let Some(services) = &self.services {
            services.pod_goes(&id.namespace);
        }
    }

    /// Whether this link made the pod. Objects without our labels are never touched.
    fn owns(&self, pod: &LowerPodView) -> bool {
        pod.owner.as_ref().is_some_and(|owner| {
            *owner.upper_cluster == *self.link.upper_cluster
                && *owner.virtual_node == *names::label_value(&self.link.virtual_node)
        })
    }
}
