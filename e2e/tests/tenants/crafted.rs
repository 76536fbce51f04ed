// SPDX-License-Identifier: Apache-2.0
//! Names, labels and annotations that somebody made up to get at what another one has.

use anyhow::ensure;
use e2e::namespace;
use e2e::objects::Objects;
use e2e::pods::{Pods, uid, with};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use serde_json::{Value, json};

use crate::{Tenant, place, world};

#[test]
fn marks_that_a_user_writes_lead_to_nothing_of_another_tenant() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let tenants = Tenant::pair(world, "crafted", &["--namespace-mapping=prefix"]).await?;
        let [victim, attacker] = &tenants;
        victim.above::<Secret>().create("key", json!({ "stringData": { "a": "b" } })).await?;
        let volumes = json!([{ "name": "v", "secret": { "secretName": "key" } }]);
        let victims = victim.pods().create(&with(victim.pod("web"), json!({ "spec": { "volumes": volumes } }))).await?;
        victim.pods().until_ready("web").await?;
        let below = victim.lower_pod("web").await?;

        // The same names as below, upstairs of the other one; and marks of the victim's pod.
        let (lower_namespace, lower_name) = place(&below);
        namespace::make(&lower_namespace, attacker.upper).await?;
        let marks = json!({ "metadata": {
            "labels": {
                "tensile.io/upper-cluster": victim.id, "tensile.io/virtual-node": victim.link.name(),
                "tensile.io/upper-namespace": victim.namespace,
            },
            "annotations": {
                "tensile.io/upper-uid": uid(&victims), "tensile.io/upper-name": format!("{}/web", victim.namespace),
                "tensile.io/applied-revision": "1", "tensile.io/references": r#"{"secrets":{"key":"key"}}"#,
            },
        } });
        let crafted = with(attacker.pod(&lower_name), marks);
        let pods = Pods::of(attacker.upper, &lower_namespace);
        pods.create(&crafted).await?;
        pods.until_ready(&lower_name).await?;
        let made = attacker.below::<Pod>().await?;
        ensure!(made.len() == 1 && place(&made[0]) != place(&below), "{made:?}");
        ensure!(made[0]["metadata"]["annotations"]["tensile.io/upper-uid"] != uid(&victims), "{made:?}");

        // A Secret that only the victim has: by its name below, the pod waits for one of its own.
        let volumes = json!([{ "name": "v", "secret": { "secretName": "key" } }]);
        let reader = with(attacker.pod("reader"), json!({ "spec": { "volumes": volumes } }));
        pods.create(&reader).await?;
        let event = pods.until_event("reader", "CreateContainerConfigError").await?;
        ensure!(event.contains("secret \"key\" not found"), "{event}");
        // One that it can do without is an empty one, not the victim's.
        let volumes = json!([{ "name": "v", "secret": { "secretName": "key", "optional": true } }]);
        pods.create(&with(attacker.pod("optional"), json!({ "spec": { "volumes": volumes } }))).await?;
        pods.until_ready("optional").await?;
        ensure!(attacker.below::<Secret>().await?.is_empty(), "a Secret came from somewhere");

        for name in [lower_name.as_str(), "reader", "optional"] {
            pods.delete(name, Some(0)).await?;
            pods.until_gone(name).await?;
        }
        let still = victim.lower_pod("web").await?;
        ensure!(uid(&still) == uid(&below), "the victim's pod is another one");
        ensure!(victim.pods().get("web").await?["status"]["phase"] == "Running", "it shows another state");
        Ok(())
    })
}

/// Two links whose namespaces come to the same name below: the second one is told, and the first one has nothing of it.
#[test]
fn a_namespace_that_another_one_has_is_refused_and_told_on_the_pod() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let [one, two] = &world.uppers;
        let first = Tenant::start(one, &world.lower, "collides", "x-y", &["--namespace-mapping=prefix:c"]).await?;
        let second = Tenant::start(two, &world.lower, "collides", "y", &["--namespace-mapping=prefix:c-x"]).await?;
        first.pods().create(&first.pod("web")).await?;
        first.pods().until_ready("web").await?;
        let below = first.lower_pod("web").await?;
        ensure!(place(&below) == ("c-x-y".to_owned(), "web".to_owned()), "{:?}", place(&below));
        second.above::<ConfigMap>().create("app", json!({ "data": { "a": "b" } })).await?;
        let volumes = json!([{ "name": "v", "configMap": { "name": "app" } }]);
        second.pods().create(&with(second.pod("web"), json!({ "spec": { "volumes": volumes } }))).await?;
        let event = second.pods().until_event("web", "LowerNamespaceConflict").await?;
        ensure!(event.contains("c-x-y of the lower cluster is not for namespace y"), "{event}");
        ensure!(second.below::<Pod>().await?.is_empty() && second.below::<ConfigMap>().await?.is_empty(), "{event}");
        // Another namespace of the same tenant is not affected.
        namespace::make("fine", two).await?;
        let fine = Pods::of(two, "fine");
        fine.create(&second.pod("web")).await?;
        fine.until_ready("web").await?;
        ensure!(uid(&first.lower_pod("web").await?) == uid(&below), "the first one's pod was touched");
        Ok(())
    })
}

#[test]
fn in_namespaces_of_the_same_name_a_pods_name_is_had_by_one_and_objects_by_each() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let tenants = Tenant::pair(world, "the-same", &[]).await?;
        for tenant in &tenants {
            tenant.above::<ConfigMap>().create("app", json!({ "data": { "whose": tenant.id } })).await?;
        }
        let mounting = |tenant: &Tenant<'_>, name: &str| {
            with(tenant.pod(name), json!({ "spec": { "volumes": [{ "name": "v", "configMap": { "name": "app" } }] } }))
        };
        let [first, second] = &tenants;
        first.pods().create(&mounting(first, "web")).await?;
        first.pods().until_ready("web").await?;
        second.pods().create(&mounting(second, "web")).await?;
        let event = second.pods().until_event("web", "LowerNameConflict").await?;
        ensure!(event.contains("did not make"), "{event}");
        second.pods().create(&mounting(second, "other")).await?;
        second.pods().until_ready("other").await?;
        for (tenant, pod) in [(first, "web"), (second, "other")] {
            let pod = tenant.lower_pod(pod).await?;
            let name = pod["spec"]["volumes"][0]["configMap"]["name"].as_str().unwrap_or_default();
            let map = Objects::within::<ConfigMap>(&world.lower, &place(&pod).0).get(name).await?;
            ensure!(map["data"]["whose"] == tenant.id.as_str(), "{map}");
        }
        // Whatever the second one does with its pod, the first one's stays.
        second.pods().delete("web", Some(0)).await?;
        second.pods().until_gone("web").await?;
        let pod = first.lower_pod("web").await?;
        ensure!(pod["metadata"].get("deletionTimestamp").is_none(), "{}", pod["metadata"]);
        Ok(())
    })
}

#[test]
fn a_namespace_that_was_there_before_is_used_once_it_is_given_away() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let args = ["--namespace-mapping=suffix:given"];
        let tenant = Tenant::start(&world.uppers[0], &world.lower, "given", "handed", &args).await?;
        namespace::make("handed-given", &world.lower).await?;
        tenant.pods().create(&tenant.pod("web")).await?;
        let event = tenant.pods().until_event("web", "LowerNamespaceConflict").await?;
        let (_, command) = event.split_once("kubectl ").unwrap_or_default();
        world.lower.kubectl(&command.split(' ').collect::<Vec<_>>()).await?;
        tenant.pods().until_ready("web").await?;
        let namespace = Objects::all::<Namespace>(&world.lower).get("handed-given").await?;
        let label: &Value = &namespace["metadata"]["labels"]["tensile.io/upper-namespace"];
        ensure!(label == "handed" && place(&tenant.lower_pod("web").await?).0 == "handed-given", "{namespace}");
        Ok(())
    })
}
