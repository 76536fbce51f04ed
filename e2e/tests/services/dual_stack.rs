// SPDX-License-Identifier: Apache-2.0
//! Services with addresses of both families, upstairs and below.

use anyhow::ensure;
use e2e::cluster::{Builder, Cluster};
use e2e::fixture::Pair;
use e2e::link::Link;
use e2e::pods::{Pods, with};
use serde_json::{Value, json};

use crate::{labelled, pair, services, slices, until_leads_to, web};

/// A cluster whose Services can have addresses of both families.
fn dual(name: &str) -> Builder {
    Cluster::builder(name).apiserver_args(&["--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112"])
}

/// A Service that asks for both families.
fn both() -> Value {
    with(web(), json!({ "spec": { "ipFamilyPolicy": "RequireDualStack" } }))
}

fn families(service: &Value) -> Vec<&str> {
    service["spec"]["ipFamilies"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn a_dual_stack_service_has_both_families_below_and_leads_to_both_addresses_of_a_pod() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = Pair::start(dual("dual-upper"), dual("dual-lower")).await?;
        pair.within("both", async |above, below| {
            let namespace = above.namespace();
            services(&pair.upper, namespace).create("web", both()).await?;
            above.create(&labelled(pair.link.pod("one"))).await?;
            let ready = above.until_ready("one").await?;
            let four = ready["status"]["podIP"].as_str().unwrap_or_default().to_owned();

            let lower = services(&pair.lower, namespace).until("web", "is there", |_| true).await?;
            ensure!(families(&lower) == ["IPv4", "IPv6"], "{}", lower["spec"]);
            ensure!(lower["spec"]["clusterIPs"].as_array().is_some_and(|found| found.len() == 2), "{}", lower["spec"]);

            // Simulated nodes give one address; a kubelet of a dual-stack node gives two.
            let two = json!([{ "ip": four }, { "ip": "fd00:200::7" }]);
            below.merge_status("one", json!({ "podIPs": two })).await?;
            above.until("one", "shows both addresses", |pod| pod["status"]["podIPs"] == two).await?;
            until_leads_to(&pair.lower, namespace, "web", &[&four, "fd00:200::7"]).await?;
            let slices = slices(&pair.lower, namespace).list("", "kubernetes.io/service-name=web").await?;
            let mut types: Vec<&str> = slices.iter().filter_map(|slice| slice["addressType"].as_str()).collect();
            types.sort_unstable();
            ensure!(types == ["IPv4", "IPv6"], "{types:?}");
            Ok(())
        })
        .await
    })
}

#[test]
fn a_lower_cluster_with_one_family_takes_a_dual_stack_service_with_that_one() -> anyhow::Result<()> {
    e2e::run(async {
        let (upper, single) = tokio::try_join!(dual("over-single").start(), pair())?;
        let link = Link::start(&upper, &single.lower, "single").await?;
        e2e::namespace::make("single", &upper).await?;
        let above = Pods::of(&upper, "single");
        let made = services(&upper, "single").create("web", both()).await?;
        ensure!(families(&made) == ["IPv4", "IPv6"], "{}", made["spec"]);
        above.create(&labelled(link.pod("one"))).await?;
        let ready = above.until_ready("one").await?;
        let four = ready["status"]["podIP"].as_str().unwrap_or_default();
        let lower = services(&single.lower, "single").until("web", "is there", |_| true).await?;
        ensure!(families(&lower) == ["IPv4"], "{}", lower["spec"]);
        until_leads_to(&single.lower, "single", "web", &[four]).await
    })
}
