// SPDX-License-Identifier: Apache-2.0
//! Performs what was planned for one Service. Everything may be performed twice.

use k8s_openapi::api::{
    core::v1::{Endpoints, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::Value;
use tensile_core::service::{Action, Change};
use virtual_kubelet::pod::PodError;

use super::{Name, Services, facts::within, lock};
use crate::lower::answer;

impl Services {
    pub(super) async fn perform(&self, name: &Name, action: Action) -> Result<(), PodError> {
        let (namespace, service) = (name.0.as_str(), name.1.as_str());
        let (below, lower_name) = (self.link.lower_namespace(namespace), self.link.lower_service(namespace, service));
        let services = within::<Service>(&self.lower, &below);
        let slices = within::<EndpointSlice>(&self.lower, &below);
        let outcome = match action {
            Action::Create(body) => {
                tracing::info!(namespace, service, "service copied below");
                lock(&self.copies).insert(name.clone());
                return self.create(&services, &body, namespace).await;
            }
            Action::Slice(Change::Create(body)) => return self.create(&slices, &body, namespace).await,
            Action::Slice(change) => follow(&slices, change).await,
            Action::Replace(body) => {
                tracing::info!(namespace, service, "service brought up to date");
                replace(&services, &body).await
            }
            Action::Delete(body) => {
                tracing::info!(namespace, service, "service removed below");
                lock(&self.copies).remove(name);
                delete(&services, &body).await
            }
            Action::Endpoints(change) => follow(&within::<Endpoints>(&self.lower, &below), change).await,
            Action::Above(change) => {
                tracing::info!(namespace, service, "endpoints above brought in step with its lower load balancer");
                let changed = follow(&within::<EndpointSlice>(&self.upper, namespace), change).await;
                return unless_changed(changed).map_err(|error| answer::upper_error(&error));
            }
            Action::NoteShown(patch) => {
                let patched = services.patch(&lower_name, &PatchParams::default(), &Patch::Merge(patch)).await;
                patched.map(drop)
            }
            Action::ShowBalancer(patch) => {
                tracing::info!(namespace, service, "addresses of its load balancer shown above");
                let upper = within::<Service>(&self.upper, &name.0);
                let patched = upper.patch_status(service, &PatchParams::default(), &Patch::Merge(patch)).await;
                return unless_changed(patched.map(drop)).map_err(|error| answer::upper_error(&error));
            }
        };
        unless_changed(outcome).map_err(|error| answer::pod_error(&error))
    }

    async fn create(&self, api: &Api<DynamicObject>, body: &Value, namespace: &str) -> Result<(), PodError> {
        self.namespaces.enter(namespace).await?;
        let mut made = post(api, body).await;
        if let Err(error) = &made
            && answer::lacks_namespace(error)
        {
            self.namespaces.create(namespace).await?;
            made = post(api, body).await;
        }
        unless_changed(made).map_err(|error| answer::pod_error(&error))
    }
}

/// What has changed or gone meanwhile is looked at again.
fn unless_changed(outcome: kube::Result<()>) -> kube::Result<()> {
    match outcome {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        outcome => outcome,
    }
}

async fn follow(api: &Api<DynamicObject>, change: Change) -> kube::Result<()> {
    match change {
        Change::Create(body) => post(api, &body).await,
        Change::Replace(body) => replace(api, &body).await,
        Change::Delete(body) => delete(api, &body).await,
    }
}

async fn post(api: &Api<DynamicObject>, body: &Value) -> kube::Result<()> {
    let object = serde_json::from_value(body.clone()).map_err(kube::Error::SerdeError)?;
    api.create(&PostParams::default(), &object).await.map(drop)
}

async fn replace(api: &Api<DynamicObject>, body: &Value) -> kube::Result<()> {
    let object = serde_json::from_value(body.clone()).map_err(kube::Error::SerdeError)?;
    api.replace(name(body), &PostParams::default(), &object).await.map(drop)
}

async fn delete(api: &Api<DynamicObject>, object: &Value) -> kube::Result<()> {
    let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
    let params =
        DeleteParams { preconditions: Some(Preconditions { uid, resource_version: None }), ..DeleteParams::default() };
    api.delete(name(object), &params).await.map(drop)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
