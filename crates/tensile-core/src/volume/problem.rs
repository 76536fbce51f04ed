// SPDX-License-Identifier: Apache-2.0
//! Claims that cannot be served below, and what their owner can do about it.

use crate::names;

/// Why a claim cannot be served. Displayed, it is a sentence for the claim's owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It has no volume, and its class is not for lower clusters.
    #[error(
        "claim {claim} has no volume yet and its StorageClass {class:?} makes none in lower clusters; use a class with \
         provisioner {}, or have the operator of the virtual node name this one (--storage-classes)",
        names::PROVISIONER
    )]
    NotBound {
        /// Name of the claim.
        claim: String,
        /// Name of its class; empty when it has none.
        class: String,
    },
    /// The volume that it names does not exist.
    #[error("claim {claim} names volume {volume}, which does not exist")]
    NoVolume {
        /// Name of the claim.
        claim: String,
        /// Name of the volume.
        volume: String,
    },
    /// The volume is not the claim's yet.
    #[error("claim {claim} and volume {volume} are not bound to one another yet")]
    Binding {
        /// Name of the claim.
        claim: String,
        /// Name of the volume.
        volume: String,
    },
    /// The volume is in another lower cluster.
    #[error("the volume of claim {claim} is in the cluster behind virtual node {node}; the pod has to run there")]
    Elsewhere {
        /// Name of the claim.
        claim: String,
        /// The virtual node, as a label value.
        node: String,
    },
    /// The volume is excluded from this virtual node by its node affinity.
    #[error("volume {volume}: {reason}")]
    Excluded {
        /// Name of the volume.
        volume: String,
        /// Why.
        reason: String,
    },
    /// What it was below is gone.
    #[error(
        "the volume of claim {0} in the lower cluster is gone; an empty one does not take its place. Restore it there, or \
         delete the claim and make it again"
    )]
    Lost(String),
    /// The volume is a path of a machine.
    #[error(
        "volume {0} is a path of a lower node (hostPath or local), which this virtual node does not allow; use another \
         volume"
    )]
    HostPath(String),
    /// It is to be filled from something of the upper cluster.
    #[error(
        "claim {0} has a data source, which is in the upper cluster only; without it the volume would be empty. Make the \
         volume in the lower cluster, or fill it by a job"
    )]
    DataSource(String),
    /// It is being deleted.
    #[error("claim {0} is being deleted")]
    Ending(String),
    /// Another volume upstairs has the name.
    #[error("volume {0} of the upper cluster is not what shows a volume of this claim; it is left alone. Rename it")]
    NameTaken(String),
}

impl Problem {
    /// One CamelCase word, for conditions, events and waiting reasons.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotBound { .. } | Self::Binding { .. } => "ClaimNotBound",
            Self::NoVolume { .. } => "VolumeNotFound",
            Self::Elsewhere { .. } | Self::Excluded { .. } => "VolumeElsewhere",
            Self::Lost(_) => "VolumeLost",
            Self::HostPath(_) => "HostPathNotAllowed",
            Self::DataSource(_) => "DataSourceNotSupported",
            Self::Ending(_) => "ClaimEnding",
            Self::NameTaken(_) => "VolumeNameConflict",
        }
    }
}
