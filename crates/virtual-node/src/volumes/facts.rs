// SPDX-License-Identifier: Apache-2.0
//! What there is of one claim in both clusters.

use std::fmt::Debug;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
};
use serde_json::Value;
use tensile_core::{
    names,
    volume::{Claim, Facts, carried_name, is_copy_of, is_ours, lower_name, shown_name},
};
use virtual_kubelet::pod::PodError;

use super::Volumes;
use crate::lower::answer;

/// Objects of a kind without namespaces.
pub(super) fn all<K: Resource<DynamicType = ()>>(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}

/// An object, unknown fields included; `None` when there is none of this name.
async fn found(api: &Api<DynamicObject>, name: &str) -> kube::Result<Option<Value>> {
    let Some(object) = api.get_opt(name).await? else { return Ok(None) };
    serde_json::to_value(object).map(Some).map_err(kube::Error::SerdeError)
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

impl Volumes {
    /// Claims below of the namespace of `claim`.
    pub(super) fn below_claims(&self, claim: &Claim) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<PersistentVolumeClaim>(&());
        Api::namespaced_with(self.lower.clone(), &self.link.lower_namespace(&claim.namespace), &kind)
    }

    /// Everything about `claim`.
    pub(super) async fn facts(&self, claim: &Claim, wanted: bool) -> Result<Facts, PodError> {
        let above = |error: kube::Error| answer::upper_error(&error);
        let below = |error: kube::Error| answer::pod_error(&error);
        let upper = found(&self.above_claims(&claim.namespace), &claim.name).await.map_err(above)?;
        let upper = upper.filter(|upper| text(upper, "/metadata/uid") == Some(claim.uid.as_str()));
        let upper_class = match upper.as_ref().and_then(|upper| text(upper, "/spec/storageClassName")) {
            Some(class) => found(&all::<StorageClass>(&self.upper), class).await.map_err(above)?,
            None => None,
        };
        let shown = shown_name(claim);
        let volume = upper.as_ref().and_then(|upper| text(upper, "/spec/volumeName")).unwrap_or(&shown);
        let upper_volume = found(&all::<PersistentVolume>(&self.upper), volume).await.map_err(above)?;
        let lower = self.copy(claim, upper_volume.as_ref()).await.map_err(below)?;
        let lower_class = match lower.as_ref().and_then(|lower| text(lower, "/spec/storageClassName")) {
            Some(class) => found(&all::<StorageClass>(&self.lower), class).await.map_err(below)?,
            None => None,
        };
        let volume = match &lower {
            Some(lower) => text(lower, "/spec/volumeName").map(str::to_owned),
            None => upper.as_ref().and(upper_volume.as_ref()).map(|volume| carried_name(volume, &self.link)),
        };
        let lower_volume = match volume {
            Some(volume) => found(&all::<PersistentVolume>(&self.lower), &volume).await.map_err(below)?,
            None => None,
        };
        Ok(Facts { upper, upper_class, upper_volume, lower, lower_class, lower_volume, wanted })
    }

    /// The copy of `claim` below: the one that `volume` shows, or the one that was made for the claim.
    async fn copy(&self, claim: &Claim, volume: Option<&Value>) -> kube::Result<Option<Value>> {
        let claims = self.below_claims(claim);
        let shown = volume.filter(|volume| text(volume, "/spec/csi/driver") == Some(names::PROVISIONER));
        let attributes = shown.and_then(|volume| volume.pointer("/spec/csi/volumeAttributes"));
        if let Some(attributes) = attributes
            && text(attributes, "/namespace") == Some(&*self.link.lower_namespace(&claim.namespace))
            && let Some(name) = text(attributes, "/claim")
            && let Some(lower) = found(&claims, name).await?
            && shown.and_then(|volume| text(volume, "/spec/csi/volumeHandle")) == text(&lower, "/metadata/uid")
            && is_ours(&lower, &self.link)
        {
            return Ok(Some(lower));
        }
        for name in [claim.name.clone(), lower_name(claim, &self.link)] {
            let lower = found(&claims, &name).await?;
            if let Some(lower) = lower.filter(|lower| is_copy_of(lower, claim, &self.link)) {
                return Ok(Some(lower));
            }
        }
        Ok(None)
    }
}

/// An object for whoever reads JSON.
pub(super) fn object<T: Debug + serde::Serialize>(value: T) -> kube::Result<Value> {
    serde_json::to_value(value).map_err(kube::Error::SerdeError)
}
