// SPDX-License-Identifier: Apache-2.0
//! Copies of which no pod is left: made by a process that was killed before it could remove them.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Resource, ResourceExt,
    api::ListParams,
    core::{NamespaceResourceScope, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use tensile_core::{names, sync::Kind};

use super::{Objects, Scope, copies};
use crate::heard::within;

/// How long to wait before a lower cluster that is away is asked again.
const AGAIN: Duration = Duration::from_secs(10);
/// Objects per answer.
const PAGE: u32 = 500;

impl Objects {
    /// Opens the scopes in which there are copies of ours, so that those that no pod refers to are removed.
    ///
    /// Without the right to list Secrets in all namespaces, those are looked for where ConfigMaps were found: every pod
    /// with a service account has both.
    pub(super) async fn collect_orphans(self: &Arc<Self>) {
        let maps = self.namespaces::<ConfigMap>().await;
        self.open(Kind::ConfigMap, maps.as_ref());
        let secrets = self.namespaces::<Secret>().await;
        self.open(Kind::Secret, secrets.as_ref().or(maps.as_ref()));
    }

    fn open(self: &Arc<Self>, kind: Kind, namespaces: Option<&BTreeSet<String>>) {
        for namespace in namespaces.into_iter().flatten() {
            let scope = Scope { kind, namespace: namespace.as_str().into() };
            if let Some(stop) = self.table.open(scope.clone()) {
                self.follow(scope, stop);
            }
        }
    }

    /// The namespaces upstairs of which there are copies; `None` when it is not allowed to ask for all.
    async fn namespaces<K>(&self) -> Option<BTreeSet<String>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<PartialObjectMeta<K>> = within(&self.lower, &self.link);
        let mut params = ListParams::default().labels(&copies(&self.link)).limit(PAGE);
        let mut found = BTreeSet::new();
        loop {
            match api.list(&params).await {
                Ok(page) => {
                    found.extend(page.items.iter().filter_map(|copy| {
                        let (namespace, _) = copy.annotations().get(names::UPPER_NAME)?.split_once('/')?;
                        Some(namespace.to_owned())
                    }));
                    match page.metadata.continue_.filter(|token| !token.is_empty()) {
                        Some(token) => params = params.continue_token(&token),
                        None => return Some(found),
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 403 => return None,
                Err(kube::Error::Api(status)) if status.code == 410 => params.continue_token = None,
                Err(error) => {
                    tracing::warn!(kind = %K::kind(&()), %error, "copies in the lower cluster cannot be listed");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}
