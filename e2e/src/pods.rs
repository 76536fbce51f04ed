// SPDX-License-Identifier: Apache-2.0
//! The pods of one namespace as JSON: what an API server shows, not what a typed client knows of it.

use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::wait;

/// What is waited for comes within this time, also when the machine has other things to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The pods of one namespace of one cluster.
#[derive(Clone)]
pub struct Pods {
    client: Client,
    api: Api<DynamicObject>,
    cluster: String,
    namespace: String,
}

impl Pods {
    /// Those of `namespace` in `cluster`.
    pub fn of(cluster: &Cluster, namespace: &str) -> Self {
        let client = cluster.client();
        Self {
            api: Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<Pod>(&())),
            client,
            cluster: cluster.name().to_owned(),
            namespace: namespace.to_owned(),
        }
    }

    /// Their namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Creates a pod.
    pub async fn create(&self, pod: &Value) -> anyhow::Result<Value> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let created = self.api.create(&PostParams::default(), &serde_json::from_value(pod.clone())?).await;
        json_of(created.with_context(|| self.about("cannot create", name))?)
    }

    /// The pod as the API server would store it; nothing is created.
    pub async fn create_dry(&self, pod: &Value) -> anyhow::Result<Value> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let created = self.api.create(&params, &serde_json::from_value(pod.clone())?).await;
        json_of(created.with_context(|| self.about("cannot create", name))?)
    }

    /// The pod, if there is one of this name.
    pub async fn find(&self, name: &str) -> anyhow::Result<Option<Value>> {
        self.api.get_opt(name).await?.map(json_of).transpose()
    }

    /// The pod.
    pub async fn get(&self, name: &str) -> anyhow::Result<Value> {
        self.find(name).await?.with_context(|| self.about("there is no", name))
    }

    /// All of them.
    pub async fn list(&self) -> anyhow::Result<Vec<Value>> {
        self.api.list(&ListParams::default()).await?.items.into_iter().map(json_of).collect()
    }

    /// Changes the pod by a strategic merge patch, in which containers are merged by their name.
    pub async fn merge(&self, name: &str, change: Value) -> anyhow::Result<Value> {
        let merged = self.api.patch(name, &PatchParams::default(), &Patch::Strategic(change)).await;
        json_of(merged.with_context(|| self.about("cannot change", name))?)
    }

    /// Sets an annotation, or takes it away.
    pub async fn annotate(&self, name: &str, key: &str, value: Option<&str>) -> anyhow::Result<Value> {
        self.merge(name, json!({ "metadata": { "annotations": { key: value } } })).await
    }

    /// Changes the status by a strategic merge patch, in which conditions are merged by their type.
    pub async fn merge_status(&self, name: &str, status: Value) -> anyhow::Result<Value> {
        self.merge_subresource(name, "status", json!({ "status": status })).await
    }

    /// Changes a subresource by a strategic merge patch.
    pub async fn merge_subresource(&self, name: &str, subresource: &str, change: Value) -> anyhow::Result<Value> {
        let (params, patch) = (PatchParams::default(), Patch::Strategic(change));
        let merged = self.api.patch_subresource(subresource, name, &params, &patch).await;
        json_of(merged.with_context(|| self.about(&format!("cannot change the {subresource} of"), name))?)
    }

    /// Deletes the pod, with its own grace period or another.
    pub async fn delete(&self, name: &str, grace: Option<u32>) -> anyhow::Result<()> {
        let params = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
        self.api.delete(name, &params).await.with_context(|| self.about("cannot delete", name))?;
        Ok(())
    }

    /// Deletes exactly this pod, at once, as `kubectl delete --force` does.
    pub async fn force_delete(&self, pod: &Value) -> anyhow::Result<()> {
        let text = |member: &str| pod["metadata"][member].as_str().map(str::to_owned);
        let name = text("name").context("it has no name")?;
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: text("uid"), resource_version: None }),
            ..DeleteParams::default()
        };
        self.api.delete(&name, &params).await.with_context(|| self.about("cannot delete", &name))?;
        Ok(())
    }

    /// Evicts the pod, as `kubectl drain` does.
    pub async fn evict(&self, name: &str) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        pods.evict(name, &EvictParams::default()).await.with_context(|| self.about("cannot evict", name))?;
        Ok(())
    }

    /// Waits until the pod exists and `holds` is true of it.
    pub async fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        wait::eventually(PATIENCE, &format!("{} {what}", self.about("pod", name)), async || {
            let pod = self.get(name).await?;
            if !holds(&pod) {
                bail!("its metadata and status are {} {}", pod["metadata"], pod["status"]);
            }
            Ok(pod)
        })
        .await
    }

    /// Waits until the pod is in this phase.
    pub async fn until_phase(&self, name: &str, phase: &str) -> anyhow::Result<Value> {
        self.until(name, &format!("is {phase}"), |pod| pod["status"]["phase"] == phase).await
    }

    /// Waits until the pod is running and ready.
    pub async fn until_ready(&self, name: &str) -> anyhow::Result<Value> {
        self.until(name, "is ready", |pod| {
            pod["status"]["phase"] == "Running" && condition(pod, "Ready")["status"] == "True"
        })
        .await
    }

    /// Waits until there is no pod of this name.
    pub async fn until_gone(&self, name: &str) -> anyhow::Result<()> {
        wait::eventually(PATIENCE, &self.about("no more", name), async || match self.find(name).await? {
            Some(pod) => bail!("its metadata and status are {} {}", pod["metadata"], pod["status"]),
            None => Ok(()),
        })
        .await
    }

    /// Waits until exactly `count` pods are there, and `holds` is true of each.
    pub async fn until_all(
        &self,
        count: usize,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Vec<Value>> {
        let about = format!("{count} pods of {} in {} {what}", self.namespace, self.cluster);
        wait::eventually(PATIENCE, &about, async || {
            let pods = self.list().await?;
            let good = pods.iter().filter(|pod| holds(pod)).count();
            anyhow::ensure!((pods.len(), good) == (count, count), "{good} of {}", pods.len());
            Ok(pods)
        })
        .await
    }

    /// Waits for an event of this reason about the pod, and returns its message.
    pub async fn until_event(&self, name: &str, reason: &str) -> anyhow::Result<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
        wait::eventually(PATIENCE, &self.about(&format!("event {reason} about"), name), async || {
            let all = events.list(&about).await?.items;
            let seen: Vec<_> = all.iter().filter_map(|event| event.reason.as_deref()).collect();
            let found = all.iter().find(|event| event.reason.as_deref() == Some(reason));
            let found = found.with_context(|| format!("there are only {seen:?}"))?;
            Ok(found.message.clone().unwrap_or_default())
        })
        .await
    }

    fn about(&self, what: &str, name: &str) -> String {
        format!("{what} {}/{name} in {}", self.namespace, self.cluster)
    }
}

fn json_of(object: DynamicObject) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(object)?)
}

/// A condition of an object; `null` when it does not have it.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind)).unwrap_or(&Value::Null)
}

/// The UID of an object.
pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// `object` with `more` merged into it (RFC 7386, but for its removals).
#[must_use]
pub fn with(mut object: Value, more: Value) -> Value {
    match (&mut object, more) {
        (Value::Object(members), Value::Object(more)) => {
            for (name, value) in more {
                let merged = with(members.remove(&name).unwrap_or_default(), value);
                members.insert(name, merged);
            }
            object
        }
        (_, more) => more,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_merged_and_lists_are_replaced() {
        let merged = with(json!({"a": {"b": 1, "c": [1]}}), json!({"a": {"c": [2], "d": 3}}));
        assert_eq!(merged, json!({"a": {"b": 1, "c": [2], "d": 3}}));
    }

    #[test]
    fn a_condition_is_found_by_its_type() {
        let pod = json!({"status": {"conditions": [{"type": "A"}, {"type": "B", "status": "True"}]}});
        assert_eq!(condition(&pod, "B")["status"], "True");
        assert!(condition(&pod, "C").is_null());
    }
}
