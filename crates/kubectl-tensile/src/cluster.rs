// SPDX-License-Identifier: Apache-2.0
//! The clusters: the upper one, and through it the lower ones.

use std::io::Write as _;

use anyhow::{Context as _, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec, Secret};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tensile_core::names;
use tensile_runtime::clients::{ClientSource, connect};

use crate::args::Lower;

/// Label of the charts' Deployments, and its value on those of virtual nodes.
const CHART: &str = "app.kubernetes.io/name=virtual-node";
/// Where the chart mounts the Secret with the lower kubeconfig; a file's name follows.
const MOUNTED: &str = "--client-kubeconfig=/etc/tensile-lower/";
/// The flag with the name of the virtual node.
const NODE_NAME: &str = "--nodename=";

/// The upper cluster.
pub struct Upper {
    /// Its API server.
    pub client: Client,
}

/// A Secret with the kubeconfig of a lower cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The key in it.
    pub key: String,
    /// The context in the kubeconfig.
    pub context: Option<String>,
}

impl Upper {
    /// The cluster at `source`.
    pub async fn connect(source: &ClientSource) -> anyhow::Result<Self> {
        Ok(Self { client: connect(source).await.context("upper cluster")? })
    }

    /// The virtual nodes, or the one of this name.
    pub async fn nodes(&self, name: Option<&str>) -> anyhow::Result<Vec<Node>> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let ours = ListParams::default().labels(&format!("{}={}", names::NODE_TYPE, names::VIRTUAL_KUBELET));
        let mut all = nodes.list(&ours).await.context("cannot list the virtual nodes of the upper cluster")?.items;
        if let Some(name) = name {
            let known: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
            all.retain(|node| node.name_any() == name);
            if all.is_empty() {
                bail!("there is no virtual node {name}; there are: {}", known.join(", "));
            }
        }
        Ok(all)
    }

    /// The pods that are bound to a node, as they are.
    pub async fn pods_on(&self, node: &str) -> anyhow::Result<Vec<Value>> {
        let pods: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::erase::<Pod>(&()));
        let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let list = pods.list(&of_node).await.with_context(|| format!("cannot list the pods of {node}"))?;
        list.items.into_iter().map(|pod| Ok(serde_json::to_value(pod)?)).collect()
    }

    /// The lower cluster behind a virtual node: as its virtual node reaches it, or as `other` says.
    pub async fn lower(&self, node: &str, other: &Lower) -> anyhow::Result<Client> {
        if let Some(path) = &other.lower_kubeconfig {
            let source = ClientSource::new("kubectl-plugin", Some(path.clone()));
            return connect(&source).await.context("lower cluster");
        }
        let kept = self.kept(node).await?;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &kept.namespace);
        let secret = secrets.get(&kept.name).await;
        let secret = secret.with_context(|| format!("cannot read Secret {}/{}", kept.namespace, kept.name))?;
        let missing = || format!("Secret {}/{} has no key {}", kept.namespace, kept.name, kept.key);
        let kubeconfig = secret.data.and_then(|mut data| data.remove(&kept.key)).with_context(missing)?;
        // Read while the client is made; nobody else can read it meanwhile.
        let mut file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        file.write_all(&kubeconfig.0).context("cannot write a temporary file")?;
        let source = ClientSource::new("kubectl-plugin", Some(file.path().to_owned())).context(kept.context);
        connect(&source).await.with_context(|| format!("lower cluster, as in Secret {}/{}", kept.namespace, kept.name))
    }

    /// Where the kubeconfig of a virtual node's lower cluster is kept, by the Deployment that the chart makes.
    pub async fn kept(&self, node: &str) -> anyhow::Result<Kept> {
        let deployments: Api<Deployment> = Api::all(self.client.clone());
        let list = deployments.list(&ListParams::default().labels(CHART)).await;
        let list = list.context("cannot list the Deployments of virtual nodes")?;
        let found = list.items.iter().find_map(|deployment| {
            let namespace = deployment.namespace()?;
            kept_by(deployment.spec.as_ref()?.template.spec.as_ref()?, node, &namespace)
        });
        found.with_context(|| {
            format!(
                "no Deployment labelled {CHART} runs virtual node {node}: give the lower cluster with \
                 --lower-kubeconfig"
            )
        })
    }
}

/// Where these pods keep the kubeconfig, if they are of this virtual node.
fn kept_by(spec: &PodSpec, node: &str, namespace: &str) -> Option<Kept> {
    let args = |container: &Container| container.args.clone().unwrap_or_default();
    let of_node = |container: &&Container| {
        args(container).iter().any(|arg| arg.strip_prefix(NODE_NAME).is_some_and(|name| name == node))
    };
    let args = args(spec.containers.iter().find(of_node)?);
    let value = |flag: &str| args.iter().find_map(|arg| arg.strip_prefix(flag)).map(str::to_owned);
    let volumes = spec.volumes.iter().flatten();
    let mut secrets = volumes.filter_map(|volume| volume.secret.as_ref()?.secret_name.clone());
    Some(Kept {
        namespace: namespace.to_owned(),
        name: secrets.next()?,
        key: value(MOUNTED)?,
        context: value("--client-context="),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_secret_of_a_virtual_node_is_found_by_its_name_among_the_arguments() {
        let spec: PodSpec = serde_json::from_value(json!({
            "containers": [{
                "name": "virtual-node",
                "args": ["--nodename=east", "--client-kubeconfig=/etc/tensile-lower/admin.conf", "--client-context=c"],
            }],
            "volumes": [
                { "name": "settings", "configMap": { "name": "east" } },
                { "name": "lower", "secret": { "secretName": "lower-east" } },
            ],
        }))
        .unwrap();
        let expected = Kept {
            namespace: "tensile".to_owned(),
            name: "lower-east".to_owned(),
            key: "admin.conf".to_owned(),
            context: Some("c".to_owned()),
        };
        assert_eq!(kept_by(&spec, "east", "tensile"), Some(expected));
        assert_eq!(kept_by(&spec, "eas", "tensile"), None);
    }
}
