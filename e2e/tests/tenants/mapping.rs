// SPDX-License-Identifier: Apache-2.0
//! A mapping is decided once: names below stay where they are.

use std::time::Duration;

use anyhow::ensure;
use e2e::link::Link;
use e2e::namespace;
use e2e::objects::Objects;
use e2e::pods::Pods;
use e2e::service::{CANNOT_START, fails};
use k8s_openapi::api::core::v1::{Namespace, Node};

use crate::{Tenant, place, world};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_mapping_is_remembered_and_changes_only_without_pods() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let upper = &world.uppers[0];
        let with = |mapping: &str| {
            Link::builder(upper, &world.lower, "remembers").args(&[&format!("--namespace-mapping={mapping}")])
        };
        let tenant =
            Tenant::start(upper, &world.lower, "remembers", "remembers", &["--namespace-mapping=prefix:first"]).await?;
        tenant.pods().create(&tenant.pod("web")).await?;
        tenant.pods().until_ready("web").await?;
        ensure!(place(&tenant.lower_pod("web").await?).0 == "first-remembers");
        let node = Objects::all::<Node>(upper).get("remembers").await?;
        ensure!(
            node["metadata"]["annotations"]["tensile.io/namespace-mapping"] == "prefix:first",
            "{}",
            node["metadata"]
        );
        tenant.link.terminate(MINUTE).await?;

        for other in ["same", "prefix:second", "single:all"] {
            let words =
                ["--namespace-mapping is", other, "Pod first-remembers/web", "cannot change while there are pods"];
            fails(with(other).launch()?, CANNOT_START, &words).await?;
        }
        // Also where nobody remembers but the pods themselves.
        Objects::all::<Node>(upper)
            .merge(
                "remembers",
                serde_json::json!({ "metadata": { "annotations": {
            "tensile.io/namespace-mapping": null } } }),
            )
            .await?;
        fails(with("prefix:second").launch()?, CANNOT_START, &["cannot change while there are pods"]).await?;

        let again = with("prefix:first").start().await?;
        tenant.pods().delete("web", Some(0)).await?;
        tenant.pods().until_gone("web").await?;
        Pods::of(&world.lower, "first-remembers").until_gone("web").await?;
        again.terminate(MINUTE).await?;
        let changed = with("suffix:second").start().await?;
        tenant.pods().create(&tenant.pod("web")).await?;
        tenant.pods().until_ready("web").await?;
        ensure!(place(&tenant.lower_pod("web").await?).0 == "remembers-second");
        changed.terminate(MINUTE).await
    })
}

#[test]
fn a_long_name_gets_a_hash_and_is_told_by_its_label() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let upper = &world.uppers[0];
        let tenant = Tenant::start(upper, &world.lower, "long", "long", &["--namespace-mapping=prefix"]).await?;
        let names = ["a", "b"].map(|end| format!("{}{end}", "n".repeat(62)));
        let mut below = Vec::new();
        for name in &names {
            namespace::make(name, upper).await?;
            let pods = Pods::of(upper, name);
            pods.create(&tenant.pod("web")).await?;
            pods.until_ready("web").await?;
        }
        for namespace in Objects::all::<Namespace>(&world.lower).list("", "tensile.io/virtual-node=long").await? {
            let label = namespace["metadata"]["labels"]["tensile.io/upper-namespace"].as_str().unwrap_or_default();
            below.push((label.to_owned(), place(&namespace).1.len()));
        }
        below.sort();
        ensure!(below == names.map(|name| (name, 63)), "{below:?}");
        Ok(())
    })
}
