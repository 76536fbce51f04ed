// SPDX-License-Identifier: Apache-2.0
//! Namespaces below: whose they are, made when the first pod needs them, with what the operator puts into each.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::{
    core::v1::{LimitRange, Namespace, ResourceQuota, ServiceAccount},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams, Preconditions},
};
use serde_json::Value;
use tensile_core::{
    pod::LinkView,
    tenant::{Action, Policy, Rule, plan},
};
use virtual_kubelet::pod::{PodError, Refused};

use super::answer;
use crate::objects::marked;

/// How long a new namespace may take to get its service account.
const PATIENCE: Duration = Duration::from_secs(5);

/// The namespaces below of one link.
pub struct Namespaces {
    client: Client,
    link: LinkView,
    /// What is in each that the link owns; `None`: what anybody put there.
    policy: Option<Policy>,
    /// Namespaces upstairs of which the one below is as it should be.
    known: Mutex<HashSet<Box<str>>>,
    /// One is settled at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Namespaces {
    /// Those of `link`. Nothing is asked before the first is entered.
    pub fn new(client: Client, link: LinkView, policy: Option<Policy>) -> Arc<Self> {
        Arc::new(Self { client, link, policy, known: Mutex::default(), turn: tokio::sync::Mutex::default() })
    }

    fn known(&self) -> MutexGuard<'_, HashSet<Box<str>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called before something is made below for the namespace `upper`: makes sure that its namespace there is for it. Where
    /// nothing has to be known of it, nothing is asked.
    pub(crate) async fn enter(&self, upper: &str) -> Result<(), PodError> {
        if !self.link.namespaces.is_own() && self.policy.is_none() || self.known().contains(upper) {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        if self.known().contains(upper) {
            return Ok(());
        }
        self.settle(upper).await?;
        self.known().insert(upper.into());
        Ok(())
    }

    /// Called when something could not be made for want of a namespace: makes it, and waits until pods can be created in
    /// it. One that is there already is left as it is, whoever made it.
    pub(crate) async fn create(&self, upper: &str) -> Result<(), PodError> {
        self.known().remove(upper);
        self.make(upper).await.map_err(|error| answer::pod_error(&error))?;
        self.enter(upper).await
    }

    async fn settle(&self, upper: &str) -> Result<(), PodError> {
        let refused = |error: kube::Error| answer::pod_error(&error);
        let name = self.link.lower_namespace(upper);
        let labels = if let Some(labels) = self.labels(&name).await.map_err(refused)? {
            labels
        } else {
            self.make(upper).await.map_err(refused)?;
            let gone = || PodError::Unavailable(format!("the lower namespace {name} has just gone"));
            self.labels(&name).await.map_err(refused)?.ok_or_else(gone)?
        };
        if !self.link.may_enter(upper, &labels) {
            return Err(self.foreign(upper, &name));
        }
        match &self.policy {
            Some(policy) if self.link.owns_namespace(&labels) => self.apply(policy, &name).await,
            _ => Ok(()),
        }
    }

    fn foreign(&self, upper: &str, name: &str) -> PodError {
        let labels = self.link.namespace_labels(upper);
        let labels: Vec<String> = labels.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        PodError::Refused(Refused {
            reason: "LowerNamespaceConflict",
            message: format!(
                "the namespace {name} of the lower cluster is not for namespace {upper} of this virtual node; it is left \
                 alone. Choose another --namespace-mapping, or give it away there: kubectl label namespace {name} {}",
                labels.join(" ")
            ),
        })
    }

    async fn labels(&self, name: &str) -> kube::Result<Option<BTreeMap<String, String>>> {
        let found = Api::<Namespace>::all(self.client.clone()).get_metadata_opt(name).await?;
        Ok(found.map(|namespace| namespace.metadata.labels.unwrap_or_default()))
    }

    async fn make(&self, upper: &str) -> kube::Result<()> {
        let mut namespace = Namespace::default();
        let name = self.link.lower_namespace(upper).into_owned();
        namespace.metadata.name = Some(name.clone());
        namespace.metadata.labels = Some(self.link.namespace_labels(upper));
        match Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await {
            Ok(_) => tracing::info!(namespace = name, "namespace created below"),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(error),
        }
        service_account(&self.client, &name).await;
        Ok(())
    }

    /// Makes what the operator gives be in the namespace. A pod is never made where that could not be done.
    async fn apply(&self, policy: &Policy, namespace: &str) -> Result<(), PodError> {
        let refused = |error: kube::Error| answer::pod_error(&error);
        let mut present = Vec::new();
        for rule in Rule::ALL {
            let ours = ListParams::default().labels(&marked(&self.link));
            for object in self.api(rule, namespace).list(&ours).await.map_err(refused)?.items {
                let object = serde_json::to_value(object).map_err(kube::Error::SerdeError);
                present.push((rule, object.map_err(refused)?));
            }
        }
        for action in plan(policy.objects(namespace, &self.link), &present) {
            self.perform(action, namespace).await?;
        }
        Ok(())
    }

    async fn perform(&self, action: Action, namespace: &str) -> Result<(), PodError> {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let read = |object: &Value| serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError);
        let outcome = match &action {
            Action::Create(rule, object) => match read(object) {
                Ok(object) => self.api(*rule, namespace).create(&PostParams::default(), &object).await.map(drop),
                Err(error) => Err(error),
            },
            Action::Replace(rule, object) => match read(object) {
                Ok(body) => {
                    let api = self.api(*rule, namespace);
                    api.replace(&name(object), &PostParams::default(), &body).await.map(drop)
                }
                Err(error) => Err(error),
            },
            Action::Delete(rule, name, uid) => {
                let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
                let params = DeleteParams { preconditions, ..DeleteParams::default() };
                match self.api(*rule, namespace).delete(name, &params).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                    outcome => outcome.map(drop),
                }
            }
        };
        match (outcome, action) {
            (Err(kube::Error::Api(status)), Action::Create(rule, object)) if status.is_already_exists() => {
                let (kind, name, node) = (rule.name(), name(&object), &self.link.virtual_node);
                Err(PodError::Refused(Refused {
                    reason: "LowerNameConflict",
                    message: format!(
                        "the lower cluster has a {kind} {namespace}/{name} that node {node} did not make; it is left \
                         alone. Rename the one of --tenant-quota"
                    ),
                }))
            }
            (outcome, _) => outcome.map_err(|error| answer::pod_error(&error)),
        }
    }

    fn api(&self, rule: Rule, namespace: &str) -> Api<DynamicObject> {
        let kind = match rule {
            Rule::Quota => ApiResource::erase::<ResourceQuota>(&()),
            Rule::Limits => ApiResource::erase::<LimitRange>(&()),
            Rule::Network => ApiResource::erase::<NetworkPolicy>(&()),
        };
        Api::namespaced_with(self.client.clone(), namespace, &kind)
    }
}

/// Waits for the namespace's default service account, without which pods are refused. Whether it came shows when the
/// pod is created.
async fn service_account(client: &Client, namespace: &str) {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let there = async {
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        loop {
            tick.tick().await;
            if !matches!(accounts.get_opt("default").await, Ok(None)) {
                return;
            }
        }
    };
    if tokio::time::timeout(PATIENCE, there).await.is_err() {
        tracing::warn!(namespace, "the namespace below has no service account yet");
    }
}
