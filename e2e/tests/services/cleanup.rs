// SPDX-License-Identifier: Apache-2.0
//! A virtual node that leaves for good takes along all that it made below, and nothing else.

use anyhow::{Context as _, ensure};
use e2e::link::Link;
use e2e::namespace;
use e2e::objects::Objects;
use e2e::pods::{Pods, with};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;

use crate::{labelled, pair, services, web};

/// What `virtual-node cleanup` prints.
async fn cleanup(
    upper: &e2e::cluster::Cluster,
    lower: &e2e::cluster::Cluster,
    more: &[&str],
) -> anyhow::Result<String> {
    let program = e2e::service::program("virtual-node")?;
    let mut command = tokio::process::Command::new(program);
    command.arg("cleanup").args(["--nodename", "leaves", "--log-level", "warn"]).args(more);
    command.arg("--kubeconfig").arg(upper.kubeconfig()).arg("--client-kubeconfig").arg(lower.kubeconfig());
    let output = command.kill_on_drop(true).output().await.context("cannot run it")?;
    let (told, said) = (String::from_utf8(output.stderr)?, String::from_utf8(output.stdout)?);
    ensure!(output.status.success(), "{}: {told}", output.status);
    Ok(said)
}

#[test]
fn a_virtual_node_that_leaves_takes_its_objects_along_and_leaves_data_and_what_others_made() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let (upper, lower) = (&pair.upper, &pair.lower);
        let link = Link::start(upper, lower, "leaves").await?;
        pair.within("leaving", async |above, below| {
            let own = above.namespace();
            let shared = format!("{own}-shared");
            for (place, foreign) in [(own, false), (shared.as_str(), true)] {
                if foreign {
                    namespace::make(place, upper).await?;
                }
                Objects::within::<ConfigMap>(upper, place).create("app", json!({ "data": { "a": "b" } })).await?;
                services(upper, place).create("web", web()).await?;
                let volumes = json!([{ "name": "v", "configMap": { "name": "app" } }]);
                let pod = with(labelled(link.pod("user")), json!({ "spec": { "volumes": volumes } }));
                let pods = Pods::of(upper, place);
                pods.create(&pod).await?;
                pods.until_ready("user").await?;
                services(lower, place).until("web", "is there", |_| true).await?;
            }
            Objects::within::<ConfigMap>(lower, &shared).create("theirs", json!({})).await?;
            // Data of a claim, in the shared namespace.
            let classes = Objects::all::<StorageClass>(upper);
            let class = json!({ "provisioner": "volumes.tensile.io", "volumeBindingMode": "WaitForFirstConsumer" });
            classes.create(&shared, class).await?;
            let volume = json!({ "spec": {
                "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": shared,
                "hostPath": { "path": "/data" },
            } });
            Objects::all::<PersistentVolume>(lower).create(&shared, volume).await?;
            let claim = json!({ "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": shared,
                "resources": { "requests": { "storage": "1Gi" } } } });
            Objects::within::<PersistentVolumeClaim>(upper, &shared).create("data", claim).await?;
            let volumes = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }]);
            let pods = Pods::of(upper, &shared);
            pods.create(&with(link.pod("writer"), json!({ "spec": { "volumes": volumes } }))).await?;
            pods.until_ready("writer").await?;

            let refused = cleanup(upper, lower, &[]).await.err().context("it cleans up behind one that runs")?;
            ensure!(format!("{refused:#}").contains("stop it first"), "{refused:#}");
            link.kill();
            let dry = cleanup(upper, lower, &["--dry-run"]).await?;
            for line in [
                format!("remove pods {own}/user"),
                format!("remove services {shared}/web"),
                format!("remove configmaps {own}/app"),
                format!("remove namespaces {own}"),
                format!("keep namespaces {shared}: "),
                format!("keep persistentvolumeclaims {shared}/data: its volume {shared} has data"),
            ] {
                ensure!(dry.lines().any(|told| told.starts_with(&line)), "{line:?} is not in:\n{dry}");
            }
            let removed: Vec<&str> = dry.lines().filter(|line| line.starts_with("remove")).collect();
            ensure!(!removed.iter().any(|line| line.contains("theirs")), "{dry}");
            ensure!(below.find("user").await?.is_some(), "a dry run removed something");

            // As after a minute: its process is gone.
            let leases = Objects::within::<Lease>(upper, "kube-node-lease");
            leases.merge("leaves", json!({ "spec": { "renewTime": "2026-01-01T00:00:00.000000Z" } })).await?;
            let said = cleanup(upper, lower, &[]).await?;
            ensure!(said == dry, "it did something else than it had said:\n{said}");
            let namespaces = Objects::all::<Namespace>(lower);
            below.until_gone("user").await?;
            services(lower, &shared).until_gone("web").await?;
            let deleting = |namespace: &serde_json::Value| namespace["metadata"]["deletionTimestamp"].is_string();
            if let Some(namespace) = namespaces.find(own).await? {
                ensure!(deleting(&namespace), "{namespace}");
            }
            let kept = namespaces.get(&shared).await?;
            ensure!(!deleting(&kept), "{kept}");
            Objects::within::<ConfigMap>(lower, &shared).get("theirs").await?;
            let claim = Objects::within::<PersistentVolumeClaim>(lower, &shared).get("data").await?;
            ensure!(claim["status"]["phase"] == "Bound", "{claim}");
            Ok(())
        })
        .await
    })
}
