// SPDX-License-Identifier: Apache-2.0
//! Where kubeconfigs of lower clusters come from, and the clusters that are followed because of them. Both may change at any
//! time.

mod folder;
mod secrets;
mod supervise;

use std::collections::BTreeMap;
use std::fmt;

pub use folder::look as look_at_folder;
pub use secrets::follow as follow_secrets;
pub use supervise::{Supervisor, Told};

/// The kubeconfigs of one source, by the name of the cluster.
pub type Wanted = BTreeMap<String, Kubeconfig>;

/// A kubeconfig.
#[derive(Clone, PartialEq, Eq)]
pub enum Kubeconfig {
    /// In a file, which had this content.
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What is in it, to tell a change.
        content: Vec<u8>,
    },
    /// From a Secret.
    Secret {
        /// `NAMESPACE/NAME`.
        name: String,
        /// What is in it.
        text: String,
    },
}

impl fmt::Debug for Kubeconfig {
    /// The content is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => f.debug_struct("File").field("path", path).finish_non_exhaustive(),
            Self::Secret { name, .. } => f.debug_struct("Secret").field("name", name).finish_non_exhaustive(),
        }
    }
}
