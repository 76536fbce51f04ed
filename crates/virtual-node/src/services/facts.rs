// SPDX-License-Identifier: Apache-2.0
//! What there is of one Service in both clusters.

use k8s_openapi::api::{
    core::v1::{Endpoints, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, ListParams},
};
use serde_json::Value;
use tensile_core::{
    names,
    service::{Facts, is_global},
};
use virtual_kubelet::pod::PodError;

use super::{Name, Services};
use crate::{lower::answer, objects::marked};

/// Objects of a kind in a namespace.
pub(super) fn within<K: Resource<DynamicType = ()>>(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<K>(&()))
}

async fn found(api: &Api<DynamicObject>, name: &str) -> kube::Result<Option<Value>> {
    api.get_opt(name).await?.map(object).transpose()
}

async fn listed(api: &Api<DynamicObject>, labels: &str) -> kube::Result<Vec<Value>> {
    let slices = api.list(&ListParams::default().labels(labels)).await?;
    slices.items.into_iter().map(object).collect()
}

fn object(object: DynamicObject) -> kube::Result<Value> {
    serde_json::to_value(object).map_err(kube::Error::SerdeError)
}

impl Services {
    pub(super) async fn facts(&self, (namespace, name): &Name) -> Result<Facts, PodError> {
        let above = |error: kube::Error| answer::upper_error(&error);
        let below = |error: kube::Error| answer::pod_error(&error);
        let (lower_namespace, lower_name) =
            (self.link.lower_namespace(namespace), self.link.lower_service(namespace, name));
        let of_service = |name: &str| format!("{}={name}", names::SERVICE_NAME);
        let upper = found(&within::<Service>(&self.upper, namespace), name).await.map_err(above)?;
        let global = upper.as_ref().is_some_and(|upper| {
            is_global(|key| Some(upper.pointer("/metadata/annotations")?.get(key)?.as_str()?.to_owned()))
        });
        let wanted = upper.is_some() && (global || self.has_pods(namespace));
        let upper_slices = if upper.is_some() {
            listed(&within::<EndpointSlice>(&self.upper, namespace), &of_service(name)).await.map_err(above)?
        } else {
            Vec::new()
        };
        let lower = found(&within::<Service>(&self.lower, &lower_namespace), &lower_name).await.map_err(below)?;
        let slices = format!("{},{}", of_service(&lower_name), marked(&self.link));
        let lower_slices = listed(&within::<EndpointSlice>(&self.lower, &lower_namespace), &slices).await;
        let lower_slices = lower_slices.map_err(below)?;
        let lower_endpoints = if self.networking.legacy_endpoints {
            found(&within::<Endpoints>(&self.lower, &lower_namespace), &lower_name).await.map_err(below)?
        } else {
            None
        };
        let of = format!("{namespace}/{name}");
        Ok(Facts { of, upper, upper_slices, lower, lower_slices, lower_endpoints, wanted })
    }
}
