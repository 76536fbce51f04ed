// SPDX-License-Identifier: Apache-2.0
//! Requests for objects of one kind in one namespace.
//!
//! Bodies are text and stay text: a client that cannot parse an answer may log it, and there are Secrets among these.

use std::borrow::Cow;

use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions},
    core::{PartialObjectMeta, Request},
};
use serde::Deserialize;
use tensile_core::{
    names,
    pod::LinkView,
    sync::{Copy, Kind, Version},
};

/// What is read of the metadata of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) name: String,
    pub(crate) version: Version,
    /// Labels of whose it is: upper cluster and virtual node.
    owner: Option<(String, String)>,
    /// Annotations of what it is a copy of: `namespace/name`, and the version.
    of: Option<(String, Version)>,
    /// UID of the object that it goes with.
    pub(crate) goes_with: Option<String>,
    /// Annotation of the tokens that it holds.
    pub(crate) tokens: Option<String>,
}

impl Meta {
    /// Reads the text of an object.
    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Object {
            metadata: ObjectMeta,
        }
        serde_json::from_str(text).map(|Object { metadata }| Self::from(metadata))
    }

    /// Whether `link` made it.
    pub(crate) fn is_of(&self, link: &LinkView) -> bool {
        self.owner.as_ref().is_some_and(|(upper_cluster, virtual_node)| {
            *upper_cluster == names::label_value(&link.upper_cluster)
                && *virtual_node == names::label_value(&link.virtual_node)
        })
    }

    /// UID of the upper object that it was made for.
    pub(crate) fn upper_uid(&self) -> Option<&str> {
        self.of.as_ref().map(|(_, version)| version.uid.as_str())
    }

    /// The name of what it is a copy of, and the copy, if `link` made it of something in the upper namespace `namespace`.
    pub(super) fn copy(&self, namespace: &str, link: &LinkView) -> Option<(String, Copy)> {
        let (of, version) = self.of.clone().filter(|_| self.is_of(link))?;
        let (_, name) = of.split_once('/').filter(|(found, _)| *found == namespace)?;
        Some((name.to_owned(), Copy { name: self.name.clone(), version: self.version.clone(), of: version }))
    }
}

impl From<ObjectMeta> for Meta {
    fn from(meta: ObjectMeta) -> Self {
        let mut labels = meta.labels.unwrap_or_default();
        let mut annotations = meta.annotations.unwrap_or_default();
        let of = Version {
            uid: annotations.remove(names::UPPER_UID).unwrap_or_default(),
            revision: annotations.remove(names::APPLIED_REVISION).unwrap_or_default(),
        };
        Self {
            name: meta.name.unwrap_or_default(),
            version: Version { uid: meta.uid.unwrap_or_default(), revision: meta.resource_version.unwrap_or_default() },
            goes_with: meta.owner_references.and_then(|owners| Some(owners.into_iter().next()?.uid)),
            tokens: annotations.remove(names::TOKENS),
            owner: labels.remove(names::UPPER_CLUSTER).zip(labels.remove(names::VIRTUAL_NODE)),
            of: annotations.remove(names::UPPER_NAME).map(|name| (name, of)),
        }
    }
}

/// Requests to one API server.
pub(crate) struct Requests<'a> {
    client: &'a Client,
    kind: Kind,
    namespace: Cow<'a, str>,
}

impl<'a> Requests<'a> {
    /// For objects of `kind` in `namespace`.
    pub(crate) fn within(client: &'a Client, kind: Kind, namespace: impl Into<Cow<'a, str>>) -> Self {
        Self { client, kind, namespace: namespace.into() }
    }

    fn path(&self) -> Request {
        Request::new(format!("/api/v1/namespaces/{}/{}", self.namespace, self.kind.plural()))
    }

    /// The text of an object; `None` when there is none of this name.
    pub(super) async fn text(&self, name: &str) -> kube::Result<Option<String>> {
        let request = self.path().get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
        match self.client.request_text(request).await {
            Ok(text) => Ok(Some(text)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The metadata of an object; `None` when there is none of this name.
    pub(crate) async fn meta(&self, name: &str) -> kube::Result<Option<Meta>> {
        let metadata = match self.kind {
            Kind::ConfigMap => {
                let api: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(self.client.clone(), &self.namespace);
                api.get_opt(name).await?.map(|object| object.metadata)
            }
            Kind::Secret => {
                let api: Api<PartialObjectMeta<Secret>> = Api::namespaced(self.client.clone(), &self.namespace);
                api.get_opt(name).await?.map(|object| object.metadata)
            }
        };
        Ok(metadata.map(Meta::from))
    }

    /// Creates an object.
    pub(crate) async fn create(&self, body: String) -> kube::Result<Meta> {
        let request = self.path().create(&PostParams::default(), body.into_bytes());
        self.answered(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Replaces an object.
    pub(super) async fn replace(&self, name: &str, body: String) -> kube::Result<Meta> {
        let request = self.path().replace(name, &PostParams::default(), body.into_bytes());
        self.answered(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Changes an object by a merge patch.
    pub(crate) async fn merge(&self, name: &str, patch: &serde_json::Value) -> kube::Result<Meta> {
        let request = self.path().patch(name, &PatchParams::default(), &Patch::Merge(patch));
        self.answered(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Deletes exactly the object with this UID.
    pub(crate) async fn delete(&self, name: &str, uid: &str) -> kube::Result<()> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        let request = self.path().delete(name, &params).map_err(kube::Error::BuildRequest)?;
        self.client.request_text(request).await.map(drop)
    }

    async fn answered(&self, request: http::Request<Vec<u8>>) -> kube::Result<Meta> {
        let text = self.client.request_text(request).await?;
        Meta::parse(&text).map_err(kube::Error::SerdeError)
    }
}

fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
