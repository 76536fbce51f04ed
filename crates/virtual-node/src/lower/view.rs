// SPDX-License-Identifier: Apache-2.0
//! What is read of a lower pod when a watch delivers it.

use std::{
    borrow::Cow,
    hash::{BuildHasher, Hash},
};

use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Deserialize;
use serde_json::value::RawValue;
use tensile_core::node::LowerNode;
use virtual_kubelet::{pod::PodId, watched::View};

/// A lower pod: whose it is, and what tells its versions apart.
#[derive(Clone, Debug)]
pub(super) struct LowerPodView {
    /// UID of the lower object.
    pub(super) uid: Box<str>,
    /// `resourceVersion`, which orders versions.
    pub(super) version: u64,
    /// Set when a link of ours made it.
    pub(super) owner: Option<Owner>,
    /// By when it should have ended, when it is being deleted: seconds since the epoch.
    pub(super) ending_by: Option<i64>,
    /// Changes when anything changes that is reported of it.
    pub(super) reported: u64,
}

/// Who made a lower pod, and for which upper pod.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) upper_cluster: Box<str>,
    pub(super) virtual_node: Box<str>,
    /// The upper pod, unless somebody removed the annotations that name it.
    pub(super) id: Option<PodId>,
    /// Revision of the upper pod that was last applied.
    pub(super) applied: Option<u64>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    #[serde(borrow)]
    deletion_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    labels: Labels<'a>,
    #[serde(borrow, default)]
    annotations: Annotations<'a>,
}

#[derive(Deserialize, Default)]
struct Labels<'a> {
    #[serde(borrow, rename = "tensile.io/upper-cluster")]
    upper_cluster: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "tensile.io/virtual-node")]
    virtual_node: Option<Cow<'a, str>>,
}

#[derive(Deserialize, Default)]
struct Annotations<'a> {
    #[serde(borrow, rename = "tensile.io/upper-uid")]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "tensile.io/upper-name")]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "tensile.io/applied-revision")]
    applied: Option<Cow<'a, str>>,
}

impl View for LowerPodView {
    type Kind = Pod;

    fn parse(raw: &str) -> Result<Self, serde_json::Error> {
        let Object { metadata, status } = serde_json::from_str(raw)?;
        let Meta { uid, resource_version, deletion_timestamp, labels, annotations } = metadata;
        let applied = annotations.applied.as_deref().and_then(|text| text.parse().ok());
        let ending_by = deletion_timestamp.map(|time| {
            // A time that cannot be read still says that it is ending: at once.
            time.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second)
        });
        let status = status.map_or("", RawValue::get);
        let mut hasher = foldhash::fast::FixedState::default().build_hasher();
        (status, ending_by, applied).hash(&mut hasher);
        let owner = labels.upper_cluster.zip(labels.virtual_node).map(|(upper_cluster, virtual_node)| Owner {
            upper_cluster: upper_cluster.into(),
            virtual_node: virtual_node.into(),
            id: annotations.uid.as_deref().zip(annotations.name.as_deref()).and_then(|(uid, name)| {
                let (namespace, name) = name.split_once('/')?;
                Some(PodId::new(namespace, name, uid))
            }),
            applied,
        });
        Ok(Self {
            uid: uid.into(),
            version: resource_version.parse().unwrap_or_default(),
            owner,
            ending_by,
            reported: std::hash::Hasher::finish(&hasher),
        })
    }
}

/// A lower node.
#[derive(Clone, Debug)]
pub(super) struct LowerNodeView(pub(super) LowerNode);

impl View for LowerNodeView {
    type Kind = Node;

    fn parse(raw: &str) -> Result<Self, serde_json::Error> {
        LowerNode::from_json(raw).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use tensile_core::names;

    use super::*;

    fn pod(metadata: &str) -> LowerPodView {
        LowerPodView::parse(&format!(r#"{{"metadata":{{"uid":"l","resourceVersion":"5"{metadata}}},"status":{{}}}}"#))
            .unwrap()
    }

    #[test]
    fn the_names_read_here_are_those_of_the_names_file() {
        let metadata = format!(
            r#","labels":{{"{}":"c","{}":"v"}},"annotations":{{"{}":"u","{}":"n/a","{}":"7"}}"#,
            names::UPPER_CLUSTER,
            names::VIRTUAL_NODE,
            names::UPPER_UID,
            names::UPPER_NAME,
            names::APPLIED_REVISION
        );
        let owner = pod(&metadata).owner.unwrap();
        assert_eq!((&*owner.upper_cluster, &*owner.virtual_node, owner.applied), ("c", "v", Some(7)));
        assert_eq!(owner.id, Some(PodId::new("n", "a", "u")));
    }

    #[test]
    fn a_pod_with_one_of_our_labels_only_is_not_ours() {
        assert!(pod(&format!(r#","labels":{{"{}":"c"}}"#, names::UPPER_CLUSTER)).owner.is_none());
    }

    #[test]
    fn a_deletion_is_an_end_at_its_time_also_when_the_time_cannot_be_read() {
        assert_eq!(pod(r#","deletionTimestamp":"1970-01-01T00:01:00Z""#).ending_by, Some(60));
        assert_eq!(pod(r#","deletionTimestamp":"soon""#).ending_by, Some(0));
        assert_eq!(pod("").ending_by, None);
    }
}
