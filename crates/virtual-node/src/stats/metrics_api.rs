// SPDX-License-Identifier: Apache-2.0
//! The metrics API below: one list of all our pods.

use form_urlencoded::byte_serialize;
use kube::Client;
use tensile_core::stats::{PodMetrics, pod_metrics};

use super::{
    Failure,
    kubelets::{get, whole},
};

/// Where the API is.
pub(super) const ROOT: &str = "/apis/metrics.k8s.io/v1beta1";

/// What the API says of the pods with these labels.
pub(super) async fn pods(client: &Client, selector: &str) -> Result<Vec<PodMetrics>, Failure> {
    let selector: String = byte_serialize(selector.as_bytes()).collect();
    let json = whole(get(client, &format!("{ROOT}/pods?labelSelector={selector}")).await?).await?;
    pod_metrics(&json).map_err(|error| Failure::away(format!("the metrics API below: {error}")))
}
