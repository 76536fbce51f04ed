// SPDX-License-Identifier: Apache-2.0
//! ConfigMaps and Secrets of one namespace as JSON.

use e2e::cluster::Cluster;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};

/// Those of one kind in one namespace of one cluster.
pub(crate) struct Objects(e2e::objects::Objects);

impl Objects {
    pub(crate) fn config_maps(cluster: &Cluster, namespace: &str) -> Self {
        Self(e2e::objects::Objects::within::<ConfigMap>(cluster, namespace))
    }

    pub(crate) fn secrets(cluster: &Cluster, namespace: &str) -> Self {
        Self(e2e::objects::Objects::within::<Secret>(cluster, namespace))
    }
}

impl std::ops::Deref for Objects {
    type Target = e2e::objects::Objects;

    fn deref(&self) -> &Self::Target {
        &self.0
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
