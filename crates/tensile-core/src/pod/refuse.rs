// SPDX-License-Identifier: Apache-2.0
//! Pods that cannot run below, and what their owner can do about it.

use serde_json::Value;

use super::{LinkView, upper::Upper};
use crate::{names, placement::PlacementError};

/// Annotation by which a kubelet shows a static pod of its own.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Why a pod cannot run in a lower cluster. Displayed, it is a sentence for the pod's owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The object lacks what every pod has.
    #[error("{0} is missing or malformed, so the pod cannot be read; recreate it")]
    Malformed(String),
    /// A DaemonSet wants one pod on each machine; a virtual node is not one.
    #[error(
        "DaemonSet {0} runs a pod on each machine and a virtual node is none; keep it off virtual nodes with a node \
         affinity (type NotIn virtual-kubelet), or deploy it in the lower cluster"
    )]
    DaemonSet(String),
    /// A mirror pod shows what runs on one kubelet already.
    #[error("a mirror pod shows a static pod of a real kubelet; there is nothing to run")]
    Mirror,
    /// The pod asks for a namespace of its machine.
    #[error(
        "spec.{0} would share the lower node with a pod of another cluster; remove it, or have the operator of the \
         virtual node allow host namespaces"
    )]
    HostNamespace(&'static str),
    /// The pod mounts a path of its machine.
    #[error(
        "volume {0} mounts a path of the lower node (hostPath), which this virtual node does not allow; use another \
         volume"
    )]
    HostPath(String),
    /// The pod names a claim in a namespace below that others share.
    #[error(
        "volume {0} names a claim; below, others share the namespace, and nobody sees to it that this is the pod's own. \
         Have the operator of the virtual node enable PVControllers"
    )]
    Claim(String),
    /// The pod uses dynamic resource allocation.
    #[error(
        "spec.resourceClaims names claims of this cluster, which lower nodes cannot serve; request an extended resource instead"
    )]
    ResourceClaims,
    /// A volume of a kind this build does not know.
    #[error(
        "volume {volume} has a source that is not known here ({source_names}); without it the pod would run on an \
         empty directory; upgrade the virtual node or use another volume"
    )]
    Volume {
        /// Name of the volume.
        volume: String,
        /// What was found in place of a known source.
        source_names: String,
    },
    /// The pod's constraints cannot be put together, or exclude this virtual node.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The stash was edited after the pod went down.
    #[error(
        "annotation {} was edited, but where a pod may run is fixed when it starts; change it back, or recreate the pod",
        names::CLUSTER_SELECTOR
    )]
    StashEdited,
}

impl Refusal {
    /// One CamelCase word, for conditions, events and waiting reasons.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "MalformedPod",
            Self::DaemonSet(_) => "DaemonSetNotSupported",
            Self::Mirror => "MirrorPodNotSupported",
            Self::HostNamespace(_) => "HostNamespaceNotAllowed",
            Self::HostPath(_) => "HostPathNotAllowed",
            Self::Claim(_) => "ClaimNotAllowed",
            Self::ResourceClaims => "ResourceClaimsNotSupported",
            Self::Volume { .. } => "VolumeNotSupported",
            Self::Placement(_) => "PlacementNotPossible",
            Self::StashEdited => "PlacementImmutable",
        }
    }
}

/// Whether the pod may run in a lower cluster at all. Volumes are judged where they are translated.
pub(super) fn check(upper: &Upper<'_>, link: &LinkView) -> Result<(), Refusal> {
    if let Some(name) = daemon_set(upper) {
        return Err(Refusal::DaemonSet(name));
    }
    if upper.metadata.get("annotations").is_some_and(|annotations| annotations.get(MIRROR).is_some()) {
        return Err(Refusal::Mirror);
    }
    if !link.allow_host_namespaces {
        for field in HOST_NAMESPACES {
            if upper.spec.get(*field) == Some(&Value::Bool(true)) {
                return Err(Refusal::HostNamespace(field));
            }
        }
    }
    if !upper.list("resourceClaims").is_empty() {
        return Err(Refusal::ResourceClaims);
    }
    Ok(())
}

/// The fields that put a pod into a namespace of its machine.
pub(super) const HOST_NAMESPACES: &[&str] = &["hostNetwork", "hostPID", "hostIPC"];

fn daemon_set(upper: &Upper<'_>) -> Option<String> {
    let owners = upper.metadata.get("ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true && owner["kind"] == "DaemonSet")?;
    Some(owner["name"].as_str().unwrap_or_default().to_owned())
}
