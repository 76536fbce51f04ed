// SPDX-License-Identifier: Apache-2.0
//! Pods: what is wanted upstairs, what the provider has, and what follows from both.
//!
//! One way through: watch events and the provider's feed change digests in `pairs`; a changed pair is queued; one
//! worker at a time takes it, asks the pure `plan` what is to be done, and `execute`s that. Events only say "look again".

mod controller;
mod execute;
mod failure;
mod feed;
mod lost;
mod metrics;
mod pairs;
mod plan;
mod provider;
mod status;
mod upper;

use std::{fmt, sync::Arc};

pub use controller::{PodController, PodControllerConfig, PodsHandle};
pub use feed::PodFeed;
pub use pairs::stages::PodStart;
pub use provider::{Grace, PodError, PodObject, PodProvider, ProviderPod, Refused};

/// One incarnation of a pod upstairs. Two pods of the same name in turn differ in `uid`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodId {
    /// Namespace upstairs.
    pub namespace: Arc<str>,
    /// Name upstairs.
    pub name: Arc<str>,
    /// UID upstairs.
    pub uid: Arc<str>,
}

impl PodId {
    /// The identity made of these three.
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into(), uid: uid.into() }
    }

    /// The place this pod takes: only one pod at a time may have it.
    pub(crate) fn key(&self) -> (Arc<str>, Arc<str>) {
        (self.namespace.clone(), self.name.clone())
    }
}

impl fmt::Display for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} ({})", self.namespace, self.name, self.uid)
    }
}

impl fmt::Debug for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
