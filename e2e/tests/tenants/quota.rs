// SPDX-License-Identifier: Apache-2.0
//! What the operator gives for each namespace of a tenant, and what comes of having more.

use anyhow::ensure;
use e2e::objects::Objects;
use e2e::pods::{PATIENCE, with};
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::{LimitRange, Namespace, ResourceQuota};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

use crate::{Tenant, place, world};

const QUOTA: &str = "
apiVersion: v1
kind: ResourceQuota
metadata: {name: tenant}
spec: {hard: {pods: 1}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: tenant}
spec: {limits: [{type: Container, defaultRequest: {cpu: 10m}}]}
";

#[test]
fn a_quota_of_a_tenant_is_told_on_the_pod_that_is_too_much_and_on_no_other() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let file = world.lower.folder().join("quota.yaml");
        std::fs::write(&file, QUOTA)?;
        let quota = format!("--tenant-quota={}", file.display());
        let args = ["--namespace-mapping=prefix:paid", quota.as_str(), "--tenant-isolation"];
        let [upper, other] = &world.uppers;
        let tenant = Tenant::start(upper, &world.lower, "paid", "up", &args).await?;
        let free = Tenant::start(other, &world.lower, "free", "up", &["--namespace-mapping=prefix:free"]).await?;
        tenant.pods().create(&tenant.pod("first")).await?;
        tenant.pods().until_ready("first").await?;
        let below = tenant.lower_pod("first").await?;
        let requests = &below["spec"]["containers"][0]["resources"]["requests"];
        ensure!(requests["cpu"] == "10m", "the limits did not apply: {requests}");
        tenant.pods().create(&tenant.pod("second")).await?;
        let event = tenant.pods().until_event("second", "LowerQuotaExceeded").await?;
        ensure!(event.contains("exceeded quota: tenant"), "{event}");
        for name in ["first", "second"] {
            free.pods().create(&free.pod(name)).await?;
            free.pods().until_ready(name).await?;
        }
        let namespace = place(&below).0;
        let policy = Objects::within::<NetworkPolicy>(&world.lower, &namespace).get("tensile-tenant").await?;
        let selects = &policy["spec"]["podSelector"]["matchLabels"];
        ensure!(
            selects["tensile.io/upper-cluster"] == below["metadata"]["labels"]["tensile.io/upper-cluster"],
            "{policy}"
        );
        let from = &policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"];
        ensure!(from == selects, "{policy}");
        let theirs = Objects::all::<Namespace>(&world.lower).get("free-up").await?;
        ensure!(Objects::within::<ResourceQuota>(&world.lower, "free-up").list("", "").await?.is_empty(), "{theirs}");

        tenant.pods().delete("first", Some(0)).await?;
        tenant.pods().until_ready("second").await?;
        // What is given no more is taken away when the next pod comes.
        std::fs::write(&file, "")?;
        tenant.link.restart()?;
        tenant.link.until_ready().await?;
        tenant.pods().create(&tenant.pod("third")).await?;
        tenant.pods().until_ready("third").await?;
        let left = async || {
            let mut left = Objects::within::<ResourceQuota>(&world.lower, &namespace).list("", "").await?;
            left.extend(Objects::within::<LimitRange>(&world.lower, &namespace).list("", "").await?);
            anyhow::Ok(left)
        };
        ensure!(left().await?.is_empty(), "{:?}", left().await?);
        Ok(())
    })
}

#[test]
fn a_quota_of_the_lower_cluster_is_told_for_objects_as_well() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let args = ["--namespace-mapping=prefix:theirs"];
        let tenant = Tenant::start(&world.uppers[0], &world.lower, "theirs", "counted", &args).await?;
        tenant.pods().create(&tenant.pod("first")).await?;
        tenant.pods().until_ready("first").await?;
        let quota = json!({ "spec": { "hard": { "count/configmaps": "1" } } });
        let quotas = Objects::within::<ResourceQuota>(&world.lower, "theirs-counted");
        quotas.create("theirs", quota).await?;
        // The CA of the cluster is one already.
        quotas.until("theirs", "counts", |quota| quota["status"]["used"]["count/configmaps"] == "1").await?;
        tenant.above::<k8s_openapi::api::core::v1::ConfigMap>().create("app", json!({ "data": { "a": "b" } })).await?;
        let volumes = json!([{ "name": "v", "configMap": { "name": "app" } }]);
        tenant.pods().create(&with(tenant.pod("second"), json!({ "spec": { "volumes": volumes } }))).await?;
        let event = tenant.pods().until_event("second", "LowerQuotaExceeded").await?;
        ensure!(event.contains("exceeded quota: theirs"), "{event}");
        tenant.pods().create(&tenant.pod("third")).await?;
        tenant.pods().until_ready("third").await?;
        quotas.delete("theirs").await?;
        tenant.pods().until_ready("second").await.map(drop)
    })
}

#[test]
fn a_quota_that_cannot_be_given_keeps_pods_out() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let file = world.lower.folder().join("taken.yaml");
        std::fs::write(&file, QUOTA)?;
        let quota = format!("--tenant-quota={}", file.display());
        let args = ["--namespace-mapping=prefix:taken", quota.as_str()];
        let tenant = Tenant::start(&world.uppers[0], &world.lower, "taken", "takes", &args).await?;
        let labels = json!({ "metadata": { "labels": {
            "tensile.io/upper-cluster": tenant.id, "tensile.io/virtual-node": "taken", "tensile.io/upper-namespace": "takes",
        } } });
        Objects::all::<Namespace>(&world.lower).create("taken-takes", labels).await?;
        let quotas = Objects::within::<ResourceQuota>(&world.lower, "taken-takes");
        let theirs: Value = quotas.create("tenant", json!({ "spec": { "hard": { "pods": "7" } } })).await?;
        tenant.pods().create(&tenant.pod("web")).await?;
        let event = tenant.pods().until_event("web", "LowerNameConflict").await?;
        ensure!(event.contains("ResourceQuota taken-takes/tenant"), "{event}");
        ensure!(quotas.get("tenant").await?["spec"] == theirs["spec"], "the foreign quota was touched");
        quotas.delete("tenant").await?;
        tenant.pods().until_ready("web").await?;
        eventually(PATIENCE, "the quota is there", async || {
            ensure!(quotas.get("tenant").await?["spec"]["hard"]["pods"] == "1");
            Ok(())
        })
        .await
    })
}
