// SPDX-License-Identifier: Apache-2.0
//! A provider whose pods are entries in a map: the starting point for authors of other providers.
//!
//! ```text
//! KUBECONFIG=upper.kubeconfig NODE_IP=192.0.2.10 cargo run -p virtual-kubelet --example memory -- my-node
//! ```
//!
//! `pods` is the backend, `streams` its `kubectl logs` and `exec`, `app` puts them to work.

mod app;
mod pods;
mod streams;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    Box::pin(app::run()).await
}
