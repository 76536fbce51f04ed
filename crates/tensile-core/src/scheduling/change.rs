// SPDX-License-Identifier: Apache-2.0
//! What the watches of a lower cluster deliver.

use serde::de::DeserializeOwned;

use super::objects::{Claim, CsiNode, LimitRange, Namespace, Node, Pod, Quota, StorageClass, Volume};

/// A kind of object that is followed in a lower cluster. Pods may be followed with the field selector
/// `status.phase!=Succeeded,status.phase!=Failed`; all others whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Node
    Node,
    /// Pod
    Pod,
    /// Namespace
    Namespace,
    /// Quotas of namespaces: `ResourceQuota`.
    Quota,
    /// Default amounts of namespaces: `LimitRange`.
    LimitRange,
    /// Claims: `PersistentVolumeClaim`.
    Claim,
    /// Volumes: `PersistentVolume`.
    Volume,
    /// Storage classes: `StorageClass`.
    StorageClass,
    /// Storage drivers of nodes: `CSINode`.
    CsiNode,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Node,
        Self::Pod,
        Self::Namespace,
        Self::Quota,
        Self::LimitRange,
        Self::Claim,
        Self::Volume,
        Self::StorageClass,
        Self::CsiNode,
    ];

    /// API version and plural, as in the path of a request.
    #[must_use]
    pub const fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Node => ("v1", "nodes"),
            Self::Pod => ("v1", "pods"),
            Self::Namespace => ("v1", "namespaces"),
            Self::Quota => ("v1", "resourcequotas"),
            Self::LimitRange => ("v1", "limitranges"),
            Self::Claim => ("v1", "persistentvolumeclaims"),
            Self::Volume => ("v1", "persistentvolumes"),
            Self::StorageClass => ("storage.k8s.io/v1", "storageclasses"),
            Self::CsiNode => ("storage.k8s.io/v1", "csinodes"),
        }
    }

    /// Reads an object of this kind.
    ///
    /// # Errors
    /// When a member that counts has another shape than the API's.
    pub fn decode(self, json: &str) -> Result<Object, serde_json::Error> {
        fn of<T: DeserializeOwned>(json: &str, object: fn(T) -> Object) -> Result<Object, serde_json::Error> {
            serde_json::from_str(json).map(object)
        }
        match self {
            Self::Node => Node::decode(json).map(Object::Node),
            Self::Pod => Pod::decode(json).map(Object::Pod),
            Self::Namespace => of(json, Object::Namespace),
            Self::Quota => of(json, Object::Quota),
            Self::LimitRange => of(json, Object::LimitRange),
            Self::Claim => of(json, Object::Claim),
            Self::Volume => of(json, Object::Volume),
            Self::StorageClass => of(json, Object::StorageClass),
            Self::CsiNode => of(json, Object::CsiNode),
        }
    }
}

/// An object of a lower cluster, reduced to what decides.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A node.
    Node(Node),
    /// A pod.
    Pod(Pod),
    /// A namespace.
    Namespace(Namespace),
    /// A quota.
    Quota(Quota),
    /// Default amounts.
    LimitRange(LimitRange),
    /// A claim.
    Claim(Claim),
    /// A volume.
    Volume(Volume),
    /// A storage class.
    StorageClass(StorageClass),
    /// What storage drivers a node has.
    CsiNode(CsiNode),
}

impl Object {
    /// Of which kind it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Node(_) => Kind::Node,
            Self::Pod(_) => Kind::Pod,
            Self::Namespace(_) => Kind::Namespace,
            Self::Quota(_) => Kind::Quota,
            Self::LimitRange(_) => Kind::LimitRange,
            Self::Claim(_) => Kind::Claim,
            Self::Volume(_) => Kind::Volume,
            Self::StorageClass(_) => Kind::StorageClass,
            Self::CsiNode(_) => Kind::CsiNode,
        }
    }
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object is there, new or changed or listed again.
    Seen(Object),
    /// The object is gone; of a deletion event, the state it carries.
    Gone(Object),
}

/// Whether something that was refused may fit now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gain {
    /// Nothing that was refused fits now.
    #[default]
    None,
    /// A pod came: what was refused for lack of company may fit now ([`Question::wants_company`]).
    ///
    /// [`Question::wants_company`]: super::Question::wants_company
    Company,
    /// Anything that was refused may fit now.
    Room,
}
