// SPDX-License-Identifier: Apache-2.0
//! What is decided about tenants when a virtual node starts: that its namespaces stay where they are while it has something
//! in them, and what is in each.

use std::{fmt::Debug, path::Path};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::ListParams,
    core::{NamespaceResourceScope, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tensile_core::{
    names,
    pod::LinkView,
    tenant::{Mapping, Policy},
};

use crate::{config::TenantSettings, objects::marked};

/// Objects per answer.
const PAGE: u32 = 500;

/// What is in each namespace that the link owns; `None` when that is nobody's business here.
pub(crate) fn policy(settings: &TenantSettings) -> anyhow::Result<Option<Policy>> {
    let given = settings.quota.as_deref().map(read).transpose()?;
    let decided = given.is_some() || settings.isolation;
    Ok(decided.then(|| given.unwrap_or_default().isolating(settings.isolation)))
}

fn read(path: &Path) -> anyhow::Result<Policy> {
    let about = || format!("--tenant-quota {}", path.display());
    let text = std::fs::read_to_string(path).with_context(about)?;
    let manifests: Vec<Value> = serde_saphyr::from_multiple(&text).with_context(about)?;
    Policy::read(&manifests).with_context(about)
}

/// Refuses a namespace mapping that is not the one by which there are pods or claims below.
///
/// The Node says by which mapping it ran last; where it says another one, or there is no Node, what is below decides.
pub(crate) async fn ensure_unchanged(upper: &Client, lower: &Client, link: &LinkView) -> anyhow::Result<()> {
    let node = &link.virtual_node;
    let found = Api::<Node>::all(upper.clone()).get_metadata_opt(node).await.context("upper cluster")?;
    let noted = found.map(|node| Mapping::noted(node.annotations().get(names::NAMESPACE_MAPPING).map(String::as_str)));
    if noted.as_ref() == Some(&link.namespaces) {
        return Ok(());
    }
    let misplaced = async {
        let pods = misplaced::<Pod>(lower, link).await?;
        anyhow::Ok(if pods.is_some() { pods } else { misplaced::<PersistentVolumeClaim>(lower, link).await? })
    };
    match (misplaced.await, noted) {
        (Ok(None), _) => Ok(()),
        (Ok(Some(object)), _) => bail!(
            "--namespace-mapping is {}, but {object} of virtual node {node} is in the lower cluster where another \
             mapping put it: the mapping cannot change while there are pods or claims. Set it back; or drain the node, \
             delete its claims, and start it then",
            link.namespaces
        ),
        (Err(error), Some(noted)) => Err(error.context(format!(
            "--namespace-mapping was {noted} and is to be {}; whether pods or claims of virtual node {node} forbid that, \
             the lower cluster cannot be asked",
            link.namespaces
        ))),
        (Err(error), None) => {
            tracing::warn!(%error, "the lower cluster cannot be asked whether there is something by another namespace mapping");
            Ok(())
        }
    }
}

/// Kind and place of an object of the link that is not where its mapping puts it.
async fn misplaced<K>(lower: &Client, link: &LinkView) -> anyhow::Result<Option<String>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(lower.clone());
    let mut params = ListParams::default().labels(&marked(link)).limit(PAGE);
    loop {
        let page = match api.list(&params).await {
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(None),
            page => page.context("lower cluster")?,
        };
        for object in page.items {
            let of = object.annotations().get(names::UPPER_NAME).and_then(|of| of.split_once('/'));
            let place = (object.namespace().unwrap_or_default(), object.name_any());
            let is_there = of.is_none_or(|(namespace, _)| *link.lower_namespace(namespace) == *place.0);
            if !is_there {
                return Ok(Some(format!("{} {}/{}", K::kind(&()), place.0, place.1)));
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(None),
        }
    }
}
