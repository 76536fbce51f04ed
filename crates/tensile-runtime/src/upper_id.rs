// SPDX-License-Identifier: Apache-2.0
//! Which cluster this is: a name that survives renamed contexts, moved addresses and restored backups.

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;

use crate::clients::ProbeError;

/// The namespace every cluster has from its first start to its end.
const NAMESPACE: &str = "kube-system";

/// The UID of the cluster's `kube-system` namespace.
///
/// Needs `get` on that namespace.
pub async fn cluster_id(client: &Client) -> Result<String, ProbeError> {
    let namespace = Api::<Namespace>::all(client.clone()).get_metadata(NAMESPACE).await?;
    namespace.metadata.uid.ok_or_else(|| ProbeError::Unexpected { detail: format!("namespace {NAMESPACE} has no UID") })
}
