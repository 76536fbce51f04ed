// SPDX-License-Identifier: Apache-2.0
//! The copy below: its name and its text.
//!
//! What is inside an object is never parsed: it goes from one API server to the other as text.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{Copy, Kind, Version};
use crate::{names, pod::LinkView};

/// Every namespace has a ConfigMap of this name with the CA of its own cluster (Kubernetes
/// `pkg/controller/certificates/rootcacertpublisher`).
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";
/// A Secret of this type belongs to a service account: a lower control plane would refuse it, or remove it.
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";

/// The text of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// To be sent to the lower API server.
    pub text: String,
    /// What it is a copy of.
    pub of: Version,
    /// Members of the object that do not go down.
    pub dropped: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    uid: String,
    resource_version: String,
}

/// The copy of `upper` (an object as JSON) that is to be called `name` below; to replace `present`, if it is given.
///
/// Labels and annotations stay upstairs: a pod never reads them, and operators of the lower cluster may act on them.
///
/// # Errors
/// When the text is not an object with the metadata that every object has. The error does not quote it.
pub fn body(
    kind: Kind,
    upper: &str,
    name: &str,
    present: Option<&Copy>,
    link: &LinkView,
) -> Result<Body, serde_json::Error> {
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(upper)?;
    let text = |member: &str| members.get(member).map_or("null", |raw| raw.get());
    let Metadata { name: upper_name, namespace, uid, resource_version } = serde_json::from_str(text("metadata"))?;

    let mut metadata = json!({
        "name": name,
        "namespace": link.lower_namespace(&namespace),
        "labels": link.marks(&namespace),
        "annotations": {
            names::GLOBAL: names::TRUE,
            names::UPPER_NAME: format!("{namespace}/{upper_name}"),
            names::UPPER_UID: uid,
            names::APPLIED_REVISION: resource_version,
        },
    });
    if let Some(present) = present {
        metadata["uid"] = json!(present.version.uid);
        metadata["resourceVersion"] = json!(present.version.revision);
    }
    let mut head = vec![("apiVersion", json!("v1")), ("kind", json!(kind.name())), ("metadata", metadata)];
    if let Some(given) = secret_type(kind, text("type")) {
        head.push(("type", given));
    }
    let head = head.into_iter().map(|(member, value)| Ok((member, to_raw_value(&value)?)));
    let head: Vec<(&str, Box<RawValue>)> = head.collect::<Result<_, serde_json::Error>>()?;

    let mut body: BTreeMap<&str, &RawValue> = head.iter().map(|(member, raw)| (*member, &**raw)).collect();
    let mut dropped = Vec::new();
    for (member, raw) in &members {
        if kind.content().contains(&&**member) {
            body.insert(member, raw);
        } else if !["apiVersion", "kind", "metadata", "type"].contains(&&**member) {
            dropped.push(member.clone().into_owned());
        }
    }
    let text = serde_json::to_string(&body)?;
    Ok(Body { text, of: Version { uid, revision: resource_version }, dropped })
}

/// Types go down, since some readers look at them; a token of a service account is plain data below.
fn secret_type(kind: Kind, text: &str) -> Option<Value> {
    let given = serde_json::from_str::<String>(text).ok().filter(|_| kind == Kind::Secret)?;
    Some(json!(if given == TOKEN_TYPE { "Opaque" } else { &given }))
}

/// A name for the copy of `namespace`/`name` that no other link and no other object comes to: its head, and a hash of
/// whose it is. Always the same for the same object, at most 253 characters.
#[must_use]
pub fn lower_name(namespace: &str, name: &str, link: &LinkView) -> String {
    names::hashed(name, &whose(namespace, name, link))
}

/// Whose `namespace`/`name` is, for hashes.
pub(crate) fn whose(namespace: &str, name: &str, link: &LinkView) -> String {
    format!("{}/{}/{namespace}/{name}", link.upper_cluster, link.virtual_node)
}

/// Whether the object has another name below from the start: every namespace there has an object of this name already, or
/// others share the namespace.
#[must_use]
pub fn starts_renamed(kind: Kind, name: &str, link: &LinkView) -> bool {
    link.namespaces.is_shared() || kind == Kind::ConfigMap && name == ROOT_CA
}
