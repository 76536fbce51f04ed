// SPDX-License-Identifier: Apache-2.0
//! What happens to a pod below is told on the pod above, once.

use anyhow::ensure;
use e2e::link::Link;
use e2e::namespace;
use e2e::objects::Objects;
use e2e::pods::{uid, with};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::{about, events, pair, told};

#[test]
fn why_the_lower_scheduler_finds_no_node_is_told_on_the_upper_pod() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("unschedulable", async |above, _| {
            let mut pod = pair.link.pod("large");
            pod["metadata"]["annotations"] = json!({ "clusterSelector": r#"{"nodeSelector":{"no-such":"label"}}"# });
            let pod = above.create(&pod).await?;
            let upper = events(&pair.upper, above.namespace());
            let event = upper
                .until_one(&about(&pod), "says why", |event| {
                    event["reason"] == "FailedScheduling"
                        && event["metadata"]["labels"]["tensile.io/virtual-node"] == pair.link.name()
                })
                .await?;
            ensure!(event["type"] == "Warning" && event["reportingComponent"] == "default-scheduler", "{event}");
            let message = event["message"].as_str().unwrap_or_default();
            ensure!(message.starts_with("0/3 nodes are available"), "{event}");
            ensure!(event["involvedObject"]["name"] == "large", "{event}");
            Ok(())
        })
        .await
    })
}

#[test]
fn an_event_whose_count_rises_is_one_event_above_with_its_times_and_its_source() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("count", async |above, below| {
            let upper_pod = above.create(&pair.link.pod("crashes")).await?;
            above.until_ready("crashes").await?;
            let lower_pod = below.get("crashes").await?;
            let (upper, lower) = (events(&pair.upper, above.namespace()), events(&pair.lower, above.namespace()));
            lower.create("crashes.1", told(&lower_pod, "BackOff", "Back-off restarting failed container")).await?;
            let back_off = |event: &Value| event["reason"] == "BackOff";
            let first = upper.until_one(&about(&upper_pod), "is BackOff", back_off).await?;
            ensure!(first["count"] == 1 && first["lastTimestamp"] == "2026-01-01T00:00:00Z", "{first}");
            ensure!(first["source"] == json!({ "component": "kubelet", "host": "lower-1" }), "{first}");
            let object = &first["involvedObject"];
            ensure!(object["uid"] == uid(&upper_pod) && object["fieldPath"] == "spec.containers{main}", "{first}");
            ensure!(object.get("resourceVersion").is_none(), "{first}");

            lower.merge("crashes.1", json!({ "count": 7, "lastTimestamp": "2026-01-01T00:05:00Z" })).await?;
            let risen = upper.until_one(&about(&upper_pod), "has risen", |event| event["count"] == 7).await?;
            ensure!(uid(&risen) == uid(&first), "it is another event: {risen}");
            ensure!(risen["firstTimestamp"] == "2026-01-01T00:00:00Z", "{risen}");
            ensure!(risen["lastTimestamp"] == "2026-01-01T00:05:00Z", "{risen}");
            let told = upper.list(&format!("{},reason=BackOff", about(&upper_pod)), "").await?;
            ensure!(told.len() == 1, "{told:?}");
            Ok(())
        })
        .await
    })
}

#[test]
fn a_name_that_an_object_has_below_only_is_told_as_the_one_above() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("renamed", async |above, below| {
            namespace::make(above.namespace(), &pair.lower).await?;
            let data = json!({ "data": { "a": "b" } });
            for cluster in [&pair.lower, &pair.upper] {
                Objects::within::<ConfigMap>(cluster, above.namespace()).create("app", data.clone()).await?;
            }
            let volumes = json!([{ "name": "v", "configMap": { "name": "app" } }]);
            let pod = with(pair.link.pod("user"), json!({ "spec": { "volumes": volumes } }));
            let upper_pod = above.create(&pod).await?;
            above.until_ready("user").await?;
            let lower_pod = below.get("user").await?;
            let name = lower_pod["spec"]["volumes"][0]["configMap"]["name"].as_str().unwrap_or_default().to_owned();
            ensure!(name != "app", "it has not been renamed");
            let lower = events(&pair.lower, above.namespace());
            let message =
                format!("MountVolume.SetUp failed for volume \"v\" : configmap \"{name}\" not found, not {name}x");
            lower.create("user.1", told(&lower_pod, "FailedMount", &message)).await?;
            let upper = events(&pair.upper, above.namespace());
            let event =
                upper.until_one(&about(&upper_pod), "is there", |event| event["reason"] == "FailedMount").await?;
            let expected =
                format!("MountVolume.SetUp failed for volume \"v\" : configmap \"app\" not found, not {name}x");
            ensure!(event["message"] == expected, "{event}");
            Ok(())
        })
        .await
    })
}

#[test]
fn after_a_restart_what_was_shown_is_not_shown_again_and_what_happened_meanwhile_is() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let link = Link::start(&pair.upper, &pair.lower, "restarted").await?;
        pair.within("restart", async |above, below| {
            let upper_pod = above.create(&link.pod("old")).await?;
            above.until_ready("old").await?;
            let lower_pod = below.get("old").await?;
            let (upper, lower) = (events(&pair.upper, above.namespace()), events(&pair.lower, above.namespace()));
            for (name, reason) in [("old.1", "Shown"), ("old.2", "Rises")] {
                lower.create(name, told(&lower_pod, reason, "x")).await?;
            }
            let is = |reason: &'static str| move |event: &Value| event["reason"] == reason;
            let shown = upper.until_one(&about(&upper_pod), "is Shown", is("Shown")).await?;
            upper.until_one(&about(&upper_pod), "is Rises", is("Rises")).await?;
            link.kill();
            lower.merge("old.2", json!({ "count": 2 })).await?;
            lower.create("old.3", told(&lower_pod, "New", "x")).await?;
            link.restart()?;
            upper.until_one(&about(&upper_pod), "is New", is("New")).await?;
            upper.until_one(&about(&upper_pod), "has risen", |event| event["count"] == 2).await?;
            // Listed before the others, and written before them if at all: lists are in the order of names.
            let name = shown["metadata"]["name"].as_str().unwrap_or_default();
            let now = upper.get(name).await?;
            ensure!(
                now["metadata"]["resourceVersion"] == shown["metadata"]["resourceVersion"],
                "it was written again: {now}"
            );
            Ok(())
        })
        .await
    })
}

#[test]
fn events_of_pods_of_others_are_not_shown() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("foreign", async |above, below| {
            namespace::make(above.namespace(), &pair.lower).await?;
            let mut foreign = pair.link.pod("foreign");
            foreign["spec"]["nodeSelector"] = json!({});
            below.create(&foreign).await?;
            let foreign = below.get("foreign").await?;
            let ours = above.create(&pair.link.pod("ours")).await?;
            above.until_ready("ours").await?;
            let lower = events(&pair.lower, above.namespace());
            lower.create("foreign.1", told(&foreign, "BackOff", "x")).await?;
            lower.create("ours.1", told(&below.get("ours").await?, "BackOff", "x")).await?;
            let upper = events(&pair.upper, above.namespace());
            upper.until_one(&about(&ours), "is there", |event| event["reason"] == "BackOff").await?;
            let all = upper.list("reason=BackOff", "").await?;
            ensure!(all.len() == 1, "{all:?}");
            Ok(())
        })
        .await
    })
}
