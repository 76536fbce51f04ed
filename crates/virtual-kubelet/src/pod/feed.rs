// SPDX-License-Identifier: Apache-2.0
//! The provider's side of the pairs: where it tells what becomes of its pods.

use std::sync::Arc;

use super::{PodId, ProviderPod, pairs::Pairs};

/// Where a provider tells what becomes of its pods. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PodFeed(pub(crate) Arc<Pairs>);

impl PodFeed {
    /// A complete account begins: [`PodFeed::listed`] for each pod, then [`PodFeed::complete`].
    pub fn begin(&self) {
        self.0.lower_list_begins();
    }

    /// A pod of the account; counts whatever was said before.
    pub fn listed(&self, pod: &ProviderPod) {
        self.0.lower_present(pod, true);
    }

    /// The account is complete. Pods it did not name are asked for one by one; nothing is concluded from its shortness.
    pub fn complete(&self) {
        self.0.lower_list_ends();
    }

    /// A pod was added or changed.
    pub fn changed(&self, pod: &ProviderPod) {
        self.0.lower_present(pod, false);
    }

    /// A pod is known to be gone. `version` as in [`ProviderPod::version`].
    pub fn gone(&self, id: &PodId, version: u64) {
        self.0.lower_gone(id, version);
    }

    /// What the pod waited for has come: what failed of it is tried again at once.
    pub fn retry(&self, id: &PodId) {
        self.0.retry(id);
    }

    /// Whether the pod may still be there upstairs.
    pub fn wanted(&self, id: &PodId) -> bool {
        self.0.wanted(id)
    }

    /// A complete account at once.
    pub fn list(&self, pods: &[ProviderPod]) {
        self.begin();
        for pod in pods {
            self.listed(pod);
        }
        self.complete();
    }
}
