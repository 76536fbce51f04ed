// SPDX-License-Identifier: Apache-2.0
//! What one request to an API server costs this process in CPU time: `cargo run --release -p tensile-runtime --example
//! request_cost`.
//!
//! The server is a process of its own and speaks TLS, like an API server; it answers each request with an object of 6
//! KB. Our client is compared with kube's own stack on the same configuration.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example shows, it does not recover")]

use axum::body::Bytes;
use futures::{StreamExt, stream};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tensile_runtime::clients::{ClientSource, connect};
use tensile_testkit::api_server::{ApiServer, cpu_seconds};

const REQUESTS: usize = 20_000;
const AT_ONCE: usize = 16;

#[tokio::main]
async fn main() {
    let body = Bytes::from("y".repeat(6000));
    let server = ApiServer::start(|| move |_: &str| body.clone()).await;
    let path = server.kubeconfig();

    let source = ClientSource::new("virtual-node", Some(path.clone()));
    let (kubeconfig, options) = (Kubeconfig::read_from(&path).unwrap(), KubeConfigOptions::default());
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let clients = [
        ("ours", connect(&source).await.unwrap()),
        ("ours, limited", connect(&source.limit(1e6, 1000)).await.unwrap()),
        ("kube's", Client::try_from(config).unwrap()),
    ];
    for round in 1..=3 {
        for (name, client) in &clients {
            println!("round {round}, {name}: {:.1} us of CPU a request", cost(client).await);
        }
    }
}

/// Microseconds of CPU time of this process for each of many requests.
async fn cost(client: &Client) -> f64 {
    let before = cpu_seconds();
    stream::iter(0..REQUESTS)
        .map(|_| async {
            let request = http::Request::patch("/api/v1/namespaces/default/pods/a/status").body(vec![b'x'; 1000]);
            client.request_text(request.unwrap()).await.unwrap()
        })
        .buffer_unordered(AT_ONCE)
        .for_each(|_| async {})
        .await;
    #[allow(clippy::cast_precision_loss, reason = "a small number")]
    let requests = REQUESTS as f64;
    (cpu_seconds() - before) / requests * 1e6
}
