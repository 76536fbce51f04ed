// SPDX-License-Identifier: Apache-2.0
//! A fresh namespace for each test, and what is in it when the test fails.

#![allow(clippy::print_stderr, reason = "libtest shows what a failed test printed")]

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};

use crate::cluster::Cluster;
use crate::wait;

/// The controller manager makes a namespace's default service account within this time.
const SERVICE_ACCOUNT: Duration = Duration::from_secs(60);

/// Runs `test` with a new namespace in `upper`, named `NAME-` and something random. When the test fails or panics, the
/// pods and events of that namespace are printed, upstairs and in the `lowers`. The namespace is deleted afterwards.
pub async fn within<T>(
    name: &str,
    upper: &Cluster,
    lowers: &[&Cluster],
    test: impl AsyncFnOnce(&str) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let generate_name = Some(format!("{name}-"));
    let namespace = create(ObjectMeta { generate_name, ..ObjectMeta::default() }, upper).await?;
    let result = AssertUnwindSafe(test(&namespace)).catch_unwind().await;
    if !matches!(result, Ok(Ok(_))) {
        dump(&namespace, upper).await;
        for lower in lowers {
            dump(&namespace, lower).await;
        }
    }
    let namespaces: Api<Namespace> = Api::all(upper.client());
    // The API server may be down on purpose; the cluster goes away soon anyhow.
    namespaces.delete(&namespace, &DeleteParams::default()).await.ok();
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Makes a namespace of exactly this name, and waits until pods can be created in it.
pub async fn make(name: &str, cluster: &Cluster) -> anyhow::Result<()> {
    create(ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, cluster).await.map(drop)
}

async fn create(metadata: ObjectMeta, cluster: &Cluster) -> anyhow::Result<String> {
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let created = namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await;
    let namespace = created.with_context(|| format!("cannot create a namespace in {}", cluster.name()))?.name_any();
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), &namespace);
    wait::eventually(SERVICE_ACCOUNT, &format!("{namespace} has its default service account"), async || {
        Ok(accounts.get("default").await?)
    })
    .await?;
    Ok(namespace)
}

async fn dump(namespace: &str, cluster: &Cluster) {
    for what in [["get", "pods", "-o", "yaml"], ["get", "events", "-o", "wide"]] {
        let mut args = vec!["-n", namespace];
        args.extend(what);
        let text = match cluster.kubectl(&args).await {
            Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
            Err(error) => format!("{error:#}"),
        };
        eprintln!("--- {}: kubectl {}\n{text}", cluster.name(), args.join(" "));
    }
}
