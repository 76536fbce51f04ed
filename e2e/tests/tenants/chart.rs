// SPDX-License-Identifier: Apache-2.0
//! The chart's identity for a lower cluster: no more than its settings need, and only where it is said.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use e2e::helm::{of_kind, template};
use e2e::kubeconfig::User;
use e2e::namespace;
use e2e::objects::Objects;
use e2e::pods::{Pods, uid};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use serde_json::{Value, json};
use tensile_testkit::shipped::{self, Right, rights};

use crate::{Tenant, place, world};

/// The rights of the roles among `objects` whose name ends like this.
fn of_roles(objects: &[Value], end: &str) -> BTreeSet<Right> {
    let is_it = |role: &&Value| role["metadata"]["name"].as_str().is_some_and(|name| name.ends_with(end));
    of_kind(objects, "ClusterRole").filter(is_it).flat_map(|role| rights(&role["rules"], None)).collect()
}

fn about(rights: &BTreeSet<Right>, resource: &str) -> bool {
    rights.iter().any(|right| right.resource.ends_with(resource))
}

#[test]
fn what_is_rendered_for_the_lower_cluster_is_the_manifest_less_what_is_turned_off() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let values = |more: Value| e2e::pods::with(json!({ "lower": { "existingSecret": "x" } }), more);
        let whole = template("virtual-node", "east", "tensile", &values(json!({ "cluster": "lower" }))).await?;
        let manifest = shipped::yaml("charts/virtual-node/files/lower-rbac.yaml");
        ensure!(of_roles(&whole, "") == of_roles(&manifest, ""), "{whole:?}");
        ensure!(of_kind(&whole, "ClusterRoleBinding").count() == 1, "{whole:?}");
        for objects in [&whole, &manifest] {
            ensure!(about(&of_roles(objects, ""), "persistentvolumes"), "{objects:?}");
        }
        for (controllers, volumes, services) in [
            (json!([]), false, false),
            (json!(""), false, false),
            (json!(["PVControllers"]), true, false),
            (json!("ServiceControllers"), false, true),
        ] {
            for cluster in ["lower", "upper"] {
                let values = values(json!({ "cluster": cluster, "settings": { "enable-controllers": controllers } }));
                let objects = template("virtual-node", "east", "tensile", &values).await?;
                let rights = of_roles(&objects, "");
                for resource in ["persistentvolumeclaims", "persistentvolumes", "storageclasses"] {
                    ensure!(about(&rights, resource) == volumes, "{cluster} {controllers} {resource}");
                }
                for resource in ["/services", "endpointslices"] {
                    ensure!(about(&rights, resource) == services, "{cluster} {controllers} {resource}");
                }
                ensure!(about(&rights, "/pods") && about(&rights, "/configmaps"), "{cluster} {controllers}");
            }
        }
        let tenants = json!({ "cluster": "lower", "settings": { "namespace-mapping": "prefix" }, "lower": { "identity": "acme" } });
        let tenants = template("virtual-node", "east", "tensile", &values(tenants)).await?;
        ensure!(about(&of_roles(&tenants, "-acme-tenants"), "networkpolicies"), "{tenants:?}");
        for objects in [&whole, &tenants] {
            namespace::make("tensile", &world.lower).await.ok();
            world.lower.apply(objects, &["--dry-run=server", "--namespace=tensile"]).await?;
        }
        let quota = json!({ "tenantQuota": "kind: ResourceQuota\n", "settings": { "namespace-mapping": "suffix" } });
        let upper = template("virtual-node", "east", "tensile", &values(quota)).await?;
        ensure!(upper.iter().any(|object| object["data"]["tenant-quota.yaml"] == "kind: ResourceQuota\n"), "{upper:?}");
        let args = of_kind(&upper, "Deployment").next().context("no Deployment")?.to_string();
        ensure!(args.contains("--tenant-quota=/etc/tensile/tenant-quota.yaml"), "{args}");
        Ok(())
    })
}

#[test]
fn an_identity_that_is_limited_to_namespaces_serves_these_and_reaches_nothing_else() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let upper = &world.uppers[0];
        let values = json!({
            "cluster": "lower", "lower": { "identity": "limited", "namespaces": ["lim-allowed"] },
            "settings": { "namespace-mapping": "prefix:lim" },
        });
        namespace::make("lim-identity", &world.lower).await?;
        let system = Objects::all::<Namespace>(upper).get("kube-system").await?;
        let labels = json!({ "metadata": { "labels": {
            "tensile.io/upper-cluster": uid(&system), "tensile.io/virtual-node": "limited",
            "tensile.io/upper-namespace": "allowed",
        } } });
        Objects::all::<Namespace>(&world.lower).create("lim-allowed", labels).await?;
        let objects = template("virtual-node", "limited", "lim-identity", &values).await?;
        world.lower.apply(&objects, &[]).await?;
        let secrets = Objects::within::<Secret>(&world.lower, "lim-identity");
        let secret = secrets.until("limited", "has its token", |secret| secret["data"]["token"].is_string()).await?;
        let token: ByteString = serde_json::from_value(secret["data"]["token"].clone())?;
        let token = String::from_utf8(token.0)?;
        let kubeconfig = world.lower.kubeconfig_for("limited", None, &User::Token(&token))?;

        namespace::make("allowed", upper).await?;
        namespace::make("other", upper).await?;
        let link = e2e::link::Link::builder(upper, &world.lower, "limited").lower_kubeconfig(&kubeconfig);
        let link = link.args(&["--namespace-mapping=prefix:lim"]).start().await?;
        let (allowed, other) = (Pods::of(upper, "allowed"), Pods::of(upper, "other"));
        other.create(&link.pod("web")).await?;
        let event = other.until_event("web", "LowerForbidden").await?;
        ensure!(event.contains("lim-other"), "{event}");
        // With its token, which is kept in a Secret.
        allowed.create(&link.pod("web")).await?;
        allowed.until_ready("web").await?;
        let tenant =
            Tenant { upper, lower: &world.lower, id: uid(&system).to_owned(), link, namespace: "allowed".to_owned() };
        let pod = tenant.lower_pod("web").await?;
        ensure!(place(&pod).0 == "lim-allowed" && tenant.below::<Secret>().await?.len() == 1, "{:?}", place(&pod));

        let may = async |args: &[&str]| {
            let who = "--as=system:serviceaccount:lim-identity:limited";
            world.lower.kubectl(&[&["auth", "can-i", who], args].concat()).await.is_ok()
        };
        ensure!(may(&["get", "secrets", "--namespace=lim-allowed"]).await, "it may not do what it does");
        for namespace in ["default", "lim-other", "kube-system", "lim-identity"] {
            for what in [
                ["get", "secrets"],
                ["list", "configmaps"],
                ["create", "pods"],
                ["delete", "pods"],
                ["create", "pods/exec"],
                ["get", "pods/log"],
                ["delete", "services"],
                ["delete", "persistentvolumeclaims"],
            ] {
                ensure!(!may(&[what[0], what[1], "--namespace", namespace]).await, "it may {what:?} in {namespace}");
            }
        }
        ensure!(!may(&["create", "namespaces"]).await, "it may make namespaces");
        Ok(())
    })
}
