// SPDX-License-Identifier: Apache-2.0
//! Objects of one kind as JSON: what an API server shows, not what a typed client knows of it.

use anyhow::{Context as _, bail, ensure};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::pods::{PATIENCE, with};
use crate::wait::eventually;

/// Those of one kind, in one namespace or without, of one cluster.
pub struct Objects {
    api: Api<DynamicObject>,
    about: String,
}

impl Objects {
    /// Those of a kind with namespaces, in this one.
    pub fn within<K: Resource<DynamicType = ()>>(cluster: &Cluster, namespace: &str) -> Self {
        let kind = ApiResource::erase::<K>(&());
        let about = format!("{} of {namespace} in {}", kind.plural, cluster.name());
        Self { api: Api::namespaced_with(cluster.client(), namespace, &kind), about }
    }

    /// Those of a kind in all namespaces, or without.
    pub fn all<K: Resource<DynamicType = ()>>(cluster: &Cluster) -> Self {
        let kind = ApiResource::erase::<K>(&());
        let about = format!("{} in {}", kind.plural, cluster.name());
        Self { api: Api::all_with(cluster.client(), &kind), about }
    }

    /// Makes one with this name and the members of `content`.
    pub async fn create(&self, name: &str, content: Value) -> anyhow::Result<Value> {
        let object = with(content, json!({ "metadata": { "name": name } }));
        let created = self.api.create(&PostParams::default(), &serde_json::from_value(object)?).await;
        Ok(serde_json::to_value(created.with_context(|| format!("{name} of {}", self.about))?)?)
    }

    /// Changes one by a merge patch.
    pub async fn merge(&self, name: &str, change: Value) -> anyhow::Result<()> {
        self.api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(())
    }

    /// Changes the status of one by a merge patch.
    pub async fn merge_status(&self, name: &str, status: Value) -> anyhow::Result<()> {
        let change = json!({ "status": status });
        self.api.patch_status(name, &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(())
    }

    /// Deletes one.
    pub async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// The one of this name, if there is one.
    pub async fn find(&self, name: &str) -> anyhow::Result<Option<Value>> {
        Ok(self.api.get_opt(name).await?.map(serde_json::to_value).transpose()?)
    }

    /// The one of this name.
    pub async fn get(&self, name: &str) -> anyhow::Result<Value> {
        self.find(name).await?.with_context(|| format!("there is no {name} among the {}", self.about))
    }

    /// Those that a field selector and a label selector choose; empty ones choose all.
    pub async fn list(&self, fields: &str, labels: &str) -> anyhow::Result<Vec<Value>> {
        let chosen = self.api.list(&ListParams::default().fields(fields).labels(labels)).await?;
        chosen.items.into_iter().map(|object| Ok(serde_json::to_value(object)?)).collect()
    }

    /// Waits until there is one of this name of which `holds` is true.
    pub async fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        eventually(PATIENCE, &format!("{name} of {} {what}", self.about), async || {
            let object = self.get(name).await?;
            if !holds(&object) {
                bail!("its metadata and status are {} {}", object["metadata"], object["status"]);
            }
            Ok(object)
        })
        .await
    }

    /// Waits until there is one, among those that the field selector chooses, of which `holds` is true.
    pub async fn until_one(&self, fields: &str, what: &str, holds: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        eventually(PATIENCE, &format!("one of {} {what}", self.about), async || {
            let mut all = self.list(fields, "").await?;
            let place = all.iter().position(&holds);
            let place = place.with_context(|| format!("there are only {}", Value::Array(all.clone())))?;
            Ok(all.swap_remove(place))
        })
        .await
    }

    /// Waits until there is none of this name.
    pub async fn until_gone(&self, name: &str) -> anyhow::Result<()> {
        eventually(PATIENCE, &format!("{name} of {} is gone", self.about), async || {
            ensure!(self.find(name).await?.is_none(), "it is there");
            Ok(())
        })
        .await
    }
}
