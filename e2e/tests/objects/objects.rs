//! ConfigMaps and Secrets of one namespace as JSON.

use anyhow::{Context as _, bail, ensure};
use e2e::cluster::Cluster;
use e2e::pods::PATIENCE;
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// Those of one kind in one namespace of one cluster.
pub(crate) struct Objects {
    api: Api<DynamicObject>,
    about: String,
}

impl Objects {
    pub(crate) fn config_maps(cluster: &Cluster, namespace: &str) -> Self {
        Self::of(cluster, namespace, &ApiResource::erase::<ConfigMap>(&()))
    }

    pub(crate) fn secrets(cluster: &Cluster, namespace: &str) -> Self {
        Self::of(cluster, namespace, &ApiResource::erase::<Secret>(&()))
    }

    fn of(cluster: &Cluster, namespace: &str, kind: &ApiResource) -> Self {
        let about = format!("{} of {namespace} in {}", kind.plural, cluster.name());
        Self { api: Api::namespaced_with(cluster.client(), namespace, kind), about }
    }

    /// Makes one with this name and the members of `content`.
    pub(crate) async fn create(&self, name: &str, content: Value) -> anyhow::Result<Value> {
        let object = e2e::pods::with(content, json!({ "metadata": { "name": name } }));
        let created = self.api.create(&PostParams::default(), &serde_json::from_value(object)?).await;
        Ok(serde_json::to_value(created.with_context(|| format!("{name} of {}", self.about))?)?)
    }

    /// Changes one by a merge patch.
    pub(crate) async fn merge(&self, name: &str, change: Value) -> anyhow::Result<()> {
        self.api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(())
    }

    pub(crate) async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub(crate) async fn find(&self, name: &str) -> anyhow::Result<Option<Value>> {
        Ok(self.api.get_opt(name).await?.map(serde_json::to_value).transpose()?)
    }

    pub(crate) async fn get(&self, name: &str) -> anyhow::Result<Value> {
        self.find(name).await?.with_context(|| format!("there is no {name} among the {}", self.about))
    }

    /// Waits until there is one of this name of which `holds` is true.
    pub(crate) async fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        eventually(PATIENCE, &format!("{name} of {} {what}", self.about), async || {
            let object = self.get(name).await?;
            if !holds(&object) {
                bail!("its metadata is {}", object["metadata"]);
            }
            Ok(object)
        })
        .await
    }

    /// Waits until there is none of this name.
    pub(crate) async fn until_gone(&self, name: &str) -> anyhow::Result<()> {
        eventually(PATIENCE, &format!("{name} of {} is gone", self.about), async || {
            ensure!(self.find(name).await?.is_none(), "it is there");
            Ok(())
        })
        .await
    }
}

/// The content of a Secret with one key.
pub(crate) fn secret_of(value: &str) -> Value {
    json!({ "stringData": { "key": value } })
}

/// The value of that key.
pub(crate) fn value_of(secret: &Value) -> String {
    let data = secret["data"]["key"].clone();
    let bytes: k8s_openapi::ByteString = serde_json::from_value(data).unwrap_or_default();
    String::from_utf8_lossy(&bytes.0).into_owned()
}

/// A pod of `link` that mounts these.
pub(crate) fn mounting(mut pod: Value, sources: &[Value]) -> Value {
    let volumes = sources
        .iter()
        .enumerate()
        .map(|(index, source)| e2e::pods::with(source.clone(), json!({ "name": format!("v{index}") })));
    pod["spec"]["volumes"] = volumes.collect();
    pod
}

/// A volume with this ConfigMap.
pub(crate) fn config_map(name: &str) -> Value {
    json!({ "configMap": { "name": name } })
}

/// A volume with this Secret.
pub(crate) fn secret(name: &str) -> Value {
    json!({ "secret": { "secretName": name } })
}
