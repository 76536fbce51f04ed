// SPDX-License-Identifier: Apache-2.0
//! What is heard of Services and their slices.

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{Api, Resource, ResourceExt, core::PartialObjectMeta, runtime::watcher::Config};
use tensile_core::{names, service::is_global};

use super::{Name, Services, lock};
use crate::{
    heard::{Heard, within},
    objects::marked,
};

/// The API server's own: every cluster has it.
const API_SERVER: (&str, &str) = ("default", "kubernetes");

impl Services {
    /// Follows Services and slices of both clusters. Does not end.
    pub(super) async fn watch(&self) {
        let slices = Config::default().labels(&marked(&self.link));
        // Of other virtual nodes as well: what one of them lets go, this one may still need.
        let upper_cluster = names::label_value(&self.link.upper_cluster);
        let services = Config::default().labels(&format!("{}={upper_cluster}", names::UPPER_CLUSTER));
        let heard = Heard { queue: &self.queue, copies: &self.copies };
        tokio::join!(
            heard.follow::<Service>("upper", Api::all(self.upper.clone()), Config::default(), |service, there| {
                let name = (service.namespace()?, service.name_any());
                if (name.0.as_str(), name.1.as_str()) == API_SERVER {
                    return None;
                }
                if there {
                    lock(&self.known).insert(name.clone());
                } else {
                    lock(&self.known).remove(&name);
                }
                let global = is_global(|key| service.annotations().get(key).cloned());
                (global || self.concerns_us(&name)).then_some(name)
            }),
            heard.follow::<EndpointSlice>("upper", Api::all(self.upper.clone()), Config::default(), |slice, _| {
                let name = (slice.namespace()?, slice.labels().get(names::SERVICE_NAME)?.clone());
                self.concerns_us(&name).then_some(name)
            }),
            heard
                .follow::<Service>("lower", within(&self.lower, &self.link), services, |service, _| self.copy(service)),
            heard
                .follow::<EndpointSlice>("lower", within(&self.lower, &self.link), slices, |slice, _| self.copy(slice)),
        );
    }

    fn concerns_us(&self, name: &Name) -> bool {
        let is_own = (name.0.as_str(), name.1.as_str()) == API_SERVER;
        !is_own && (self.has_pods(&name.0) || lock(&self.copies).contains(name))
    }

    /// The Service upstairs of which an object below is a copy, or is of one.
    fn copy<K: Resource<DynamicType = ()>>(&self, object: &PartialObjectMeta<K>) -> Option<Name> {
        let (namespace, name) = object.annotations().get(names::UPPER_NAME)?.split_once('/')?;
        let name = (namespace.to_owned(), name.to_owned());
        lock(&self.copies).insert(name.clone());
        Some(name)
    }
}
