// SPDX-License-Identifier: Apache-2.0
//! Evictions: exactly this pod in exactly this version, with its own grace.

use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tensile_core::deschedule::Pod;

/// How an eviction ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The pod is ending.
    Evicted,
    /// It is gone, or another pod has its name.
    Gone,
    /// It has changed since it was seen: what was decided may be wrong.
    Changed,
    /// A disruption budget does not allow it now; in the API server's words.
    Blocked(String),
    /// It may have been evicted or not; in the words of who failed.
    Failed(String),
}

impl Outcome {
    /// As a label of metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Evicted => "success",
            Self::Gone => "gone",
            Self::Changed => "changed",
            Self::Blocked(_) => "blocked",
            Self::Failed(_) => "error",
        }
    }
}

/// Asks to evict the pod as it was seen. The body is written here: kube's own names the options `delete_options`, which
/// the API server does not know, so that it would evict whatever has the name.
pub async fn evict(client: &Client, pod: &Pod) -> Outcome {
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "name": &*pod.name, "namespace": &*pod.namespace },
        "deleteOptions": { "preconditions": { "uid": &*pod.uid, "resourceVersion": pod.resource_version.to_string() } },
    });
    let path = format!("/api/v1/namespaces/{}/pods/{}/eviction", pod.namespace, pod.name);
    let request = Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
    let request = match request.body(body.to_string().into_bytes()) {
        Ok(request) => request,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    match client.request::<Value>(request).await {
        Ok(_) => Outcome::Evicted,
        Err(kube::Error::Api(status)) => match status.code {
            404 => Outcome::Gone,
            409 => Outcome::Changed,
            429 => Outcome::Blocked(status.message),
            _ => Outcome::Failed(status.message),
        },
        Err(error) => Outcome::Failed(error.to_string()),
    }
}
