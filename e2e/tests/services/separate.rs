// SPDX-License-Identifier: Apache-2.0
//! Where networks are separate, a Service below leads to the pods below, or over its load balancer.

use anyhow::ensure;
use e2e::link::Link;
use serde_json::{Value, json};

use crate::{addresses, labelled, pair, services, until_leads_to, web};

#[test]
fn a_service_finds_the_pods_below_and_their_addresses_are_not_shown_above() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let link =
            Link::builder(&pair.upper, &pair.lower, "separate").args(&["--pod-network=separate"]).start().await?;
        pair.within("separate", async |above, below| {
            services(&pair.upper, above.namespace()).create("web", web()).await?;
            above.create(&labelled(link.pod("one"))).await?;
            let pod = above.until_ready("one").await?;
            ensure!(pod["status"].get("podIP").is_none(), "an address that leads nowhere is shown: {}", pod["status"]);
            let lower = services(&pair.lower, above.namespace());
            let service = lower.until("web", "is there", |_| true).await?;
            ensure!(service["spec"]["selector"]["app"] == "web", "{}", service["spec"]);
            ensure!(service["spec"]["selector"]["tensile.io/upper-cluster"].is_string(), "{}", service["spec"]);
            let address = below.get("one").await?["status"]["podIP"].as_str().unwrap_or_default().to_owned();
            until_leads_to(&pair.lower, above.namespace(), "web", &[&address]).await
        })
        .await
    })
}

#[test]
fn over_a_load_balancer_a_service_leads_to_its_address_upstairs() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let args = ["--pod-network=separate", "--service-path=loadbalancer"];
        let link = Link::builder(&pair.upper, &pair.lower, "balanced").args(&args).start().await?;
        pair.within("balanced", async |above, _| {
            let upper = services(&pair.upper, above.namespace());
            upper.create("web", e2e::pods::with(web(), json!({ "spec": { "type": "LoadBalancer" } }))).await?;
            upper.merge_status("web", json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }] } })).await?;
            above.create(&labelled(link.pod("one"))).await?;
            above.until_ready("one").await?;
            let lower = services(&pair.lower, above.namespace());
            let service = lower.until("web", "is there", |_| true).await?;
            ensure!(service["spec"]["type"] == "ClusterIP" && service["spec"].get("selector").is_none(), "{service}");
            for address in ["192.0.2.7", "192.0.2.8"] {
                upper.merge_status("web", json!({ "loadBalancer": { "ingress": [{ "ip": address }] } })).await?;
                until_leads_to(&pair.lower, above.namespace(), "web", &[address]).await?;
            }
            Ok(())
        })
        .await
    })
}

#[test]
fn over_a_lower_load_balancer_clients_upstairs_are_led_to_its_address() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let args = ["--pod-network=separate", "--service-path=loadbalancer"];
        let link = Link::builder(&pair.upper, &pair.lower, "reverse").args(&args).start().await?;
        pair.within("reverse", async |above, _| {
            let upper = services(&pair.upper, above.namespace());
            let class = json!({ "spec": { "type": "LoadBalancer", "loadBalancerClass": "services.tensile.io/lower" } });
            upper.create("web", e2e::pods::with(web(), class)).await?;
            above.create(&labelled(link.pod("one"))).await?;
            above.until_ready("one").await?;
            let lower = services(&pair.lower, above.namespace());
            let is_balanced = |service: &Value| service["spec"]["type"] == "LoadBalancer";
            let below = lower.until("web", "wants a load balancer", is_balanced).await?;
            ensure!(below["spec"]["selector"]["app"] == "web", "{}", below["spec"]);
            let lead_to =
                async |expected: &[&str]| until_leads_to(&pair.upper, above.namespace(), "web", expected).await;
            for address in ["192.0.2.5", "192.0.2.6"] {
                // As the lower cloud would.
                lower.merge_status("web", json!({ "loadBalancer": { "ingress": [{ "ip": address }] } })).await?;
                lead_to(&[address]).await?;
            }
            let below = addresses(&pair.lower, above.namespace(), "web").await?;
            ensure!(!below.iter().any(|address| address.starts_with("192.0.2.")), "in a circle: {below:?}");
            above.delete("one", None).await?;
            lower.until_gone("web").await?;
            lead_to(&[]).await
        })
        .await
    })
}

#[test]
fn the_address_of_a_lower_load_balancer_comes_up_beside_others_and_goes_with_it() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("shown", async |above, _| {
            let upper = services(&pair.upper, above.namespace());
            let class = json!({ "spec": { "type": "LoadBalancer", "loadBalancerClass": "services.tensile.io/lower" } });
            upper.create("web", e2e::pods::with(web(), class)).await?;
            upper.merge_status("web", json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } })).await?;
            above.create(&labelled(pair.link.pod("one"))).await?;
            let lower = services(&pair.lower, above.namespace());
            let is_balanced = |service: &Value| service["spec"]["type"] == "LoadBalancer";
            lower.until("web", "wants a load balancer", is_balanced).await?;
            let shows = async |expected: Value| {
                let ips = move |service: &Value| -> Value {
                    let ingress = service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
                    ingress.map(|entry| entry["ip"].clone()).collect()
                };
                upper.until("web", "shows the addresses", move |service| ips(service) == expected).await
            };
            for address in ["192.0.2.2", "192.0.2.3"] {
                // As the lower cloud would.
                lower.merge_status("web", json!({ "loadBalancer": { "ingress": [{ "ip": address }] } })).await?;
                shows(json!(["192.0.2.1", address])).await?;
            }
            above.delete("one", None).await?;
            lower.until_gone("web").await?;
            shows(json!(["192.0.2.1"])).await?;
            Ok(())
        })
        .await
    })
}
