// SPDX-License-Identifier: Apache-2.0
//! Where networks are joined, a Service below leads to the pods of all clusters.

use anyhow::{Context as _, ensure};
use e2e::link::Link;
use e2e::namespace;
use e2e::objects::Objects;
use e2e::pods::Pods;
use k8s_openapi::api::core::v1::Endpoints;
use serde_json::{Value, json};

use crate::{labelled, pair, services, slices, until_leads_to, web};

/// The address of a pod of this cluster.
async fn address(pods: &Pods, name: &str) -> anyhow::Result<String> {
    let pod = pods.until_ready(name).await?;
    Ok(pod["status"]["podIP"].as_str().context("it has no address")?.to_owned())
}

#[test]
fn a_service_goes_down_with_the_endpoints_of_all_pods_and_follows_them() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("joined", async |above, below| {
            services(&pair.upper, above.namespace()).create("web", web()).await?;
            above.create(&labelled(pair.link.pod("one"))).await?;
            let one = address(above, "one").await?;
            ensure!(one == address(below, "one").await?, "the address upstairs is not the one below");
            let lower = services(&pair.lower, above.namespace());
            let service = lower.until("web", "is there", |_| true).await?;
            ensure!(service["spec"].get("selector").is_none(), "{}", service["spec"]);
            ensure!(service["spec"]["ports"][0]["targetPort"] == 8080, "{}", service["spec"]);
            ensure!(
                service["spec"]["clusterIP"].as_str().is_some_and(|address| address != "None"),
                "it has no address"
            );
            let lead_to =
                async |expected: &[&str]| until_leads_to(&pair.lower, above.namespace(), "web", expected).await;
            lead_to(&[&one]).await?;

            // A pod that runs elsewhere: nothing below knows it but by its endpoint.
            let mut elsewhere = labelled(pair.link.pod("elsewhere"));
            elsewhere["spec"]["nodeSelector"] = json!({ "no-such": "node" });
            above.create(&elsewhere).await?;
            let slice = json!({
                "metadata": { "labels": { "kubernetes.io/service-name": "web" } }, "addressType": "IPv4",
                "endpoints": [{ "addresses": ["10.200.0.7"], "conditions": { "ready": true } }],
                "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
            });
            slices(&pair.upper, above.namespace()).create("web-elsewhere", slice).await?;
            lead_to(&[&one, "10.200.0.7"]).await?;

            above.delete("one", None).await?;
            above.create(&labelled(pair.link.pod("two"))).await?;
            let two = address(above, "two").await?;
            lead_to(&[&two, "10.200.0.7"]).await?;

            services(&pair.upper, above.namespace())
                .merge("web", json!({ "spec": { "ports": [{ "name": "http", "port": 81 }] } }))
                .await?;
            let uid = service["metadata"]["uid"].clone();
            let changed = |service: &Value| service["spec"]["ports"][0]["port"] == 81;
            let changed = lower.until("web", "has changed", changed).await?;
            ensure!(
                changed["metadata"]["uid"] == uid && changed["spec"]["clusterIP"] == service["spec"]["clusterIP"],
                "{changed}"
            );
            services(&pair.upper, above.namespace()).delete("web").await?;
            lower.until_gone("web").await
        })
        .await
    })
}

#[test]
fn where_they_are_asked_for_endpoints_lead_to_the_pods_as_well() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let link = Link::builder(&pair.upper, &pair.lower, "legacy").args(&["--legacy-endpoints"]).start().await?;
        namespace::make("legacy", &pair.upper).await?;
        let above = Pods::of(&pair.upper, "legacy");
        let upper = services(&pair.upper, "legacy");
        upper.create("web", web()).await?;
        above.create(&labelled(link.pod("one"))).await?;
        let address = address(&above, "one").await?;
        let endpoints = Objects::within::<Endpoints>(&pair.lower, "legacy");
        let leads = |to: Value| move |endpoints: &Value| endpoints["subsets"] == to;
        let subset =
            json!({ "addresses": [{ "ip": address }], "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }] });
        endpoints.until("web", "leads to the pod", leads(json!([subset]))).await?;
        upper.delete("web").await?;
        endpoints.until_gone("web").await
    })
}

#[test]
fn a_headless_service_stays_headless_and_one_without_pods_goes_down_only_if_it_is_global() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("global", async |above, _| {
            let upper = services(&pair.upper, above.namespace());
            let global = e2e::pods::with(web(), json!({ "metadata": { "annotations": { "global": "true" } } }));
            upper.create("wanted", global).await?;
            upper.create("local", web()).await?;
            let lower = services(&pair.lower, above.namespace());
            lower.until("wanted", "is there", |_| true).await?;
            ensure!(lower.find("local").await?.is_none(), "a service that nobody needs is there");
            upper.create("headless", e2e::pods::with(web(), json!({ "spec": { "clusterIP": "None" } }))).await?;
            above.create(&labelled(pair.link.pod("one"))).await?;
            let address = address(above, "one").await?;
            let headless = lower.until("headless", "is there", |_| true).await?;
            ensure!(headless["spec"]["clusterIP"] == "None", "{}", headless["spec"]);
            lower.until("local", "is there with the pod", |_| true).await?;
            until_leads_to(&pair.lower, above.namespace(), "headless", &[&address]).await?;
            above.delete("one", None).await?;
            lower.until_gone("headless").await?;
            lower.get("wanted").await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn a_service_of_others_below_is_left_alone_and_the_upper_one_says_so() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("theirs", async |above, _| {
            namespace::make(above.namespace(), &pair.lower).await?;
            let lower = services(&pair.lower, above.namespace());
            let theirs = lower.create("web", web()).await?;
            services(&pair.upper, above.namespace()).create("web", web()).await?;
            above.create(&labelled(pair.link.pod("one"))).await?;
            above.until_ready("one").await?;
            let event = above.until_event("web", "LowerNameConflict").await?;
            ensure!(event.contains("is left alone"), "{event}");
            ensure!(lower.get("web").await?["spec"] == theirs["spec"], "the foreign service was touched");
            Ok(())
        })
        .await
    })
}
