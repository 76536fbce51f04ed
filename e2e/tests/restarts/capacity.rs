// SPDX-License-Identifier: Apache-2.0
//! What a virtual node offers is what its lower cluster can still take. Each test counts a resource of its own.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::cluster::{Cluster, Request};
use e2e::kwok::NodeShape;
use e2e::link::Link;
use e2e::namespace;
use e2e::pods::{Pods, with};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::world;

/// A change below shows above within this. It should take less than a second; the periodic write, which must not be
/// what shows it, comes once a minute.
const SOON: Duration = Duration::from_secs(15);

/// The amount of `resource` that the virtual node offers is soon this.
async fn offers(link: &Link, resource: &str, amount: &str) -> anyhow::Result<()> {
    let offered = |node: &Value| {
        let of = |list: &str| node["status"][list][resource].as_str().unwrap_or("0") == amount;
        of("allocatable") && of("capacity")
    };
    let what = format!("offers {amount} of {resource}");
    timeout(SOON, link.until_node(&what, offered))
        .await
        .with_context(|| format!("it took longer until it {what}"))??;
    Ok(())
}

/// A spec that asks for so much of `resource`.
fn asking(resource: &str, amount: &str) -> Value {
    let resources = json!({ "limits": { resource: amount } });
    json!({ "containers": [{ "name": "main", "image": "example.org/app:1", "resources": resources }] })
}

async fn foreign_pod(below: &Pods, name: &str, spec: Value) -> anyhow::Result<()> {
    below.create(&json!({ "metadata": { "name": name }, "spec": spec })).await?;
    Ok(())
}

async fn patch_node(lower: &Cluster, name: &str, patch: Value) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(lower.client());
    nodes.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await?;
    Ok(())
}

#[test]
fn pods_of_others_below_take_room_and_never_more_than_there_is() -> anyhow::Result<()> {
    const SLOTS: &str = "example.org/slots";
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        let shape = NodeShape {
            name: "slots".to_owned(),
            extended: [(SLOTS.to_owned(), "4".to_owned())].into(),
            ..NodeShape::default()
        };
        world.lower.kwok_nodes(shape).await?;
        world
            .with_link("roomy", async |link, above, below| {
                offers(link, SLOTS, "4").await?;
                above.create(&with(link.pod("ours"), json!({ "spec": asking(SLOTS, "2") }))).await?;
                above.until_ready("ours").await?;
                foreign_pod(below, "one", asking(SLOTS, "1")).await?;
                // Ours are the upper scheduler's to count.
                offers(link, SLOTS, "3").await?;
                // Bound past the scheduler, more than there is is promised.
                let much = with(asking(SLOTS, "100"), json!({ "nodeName": "lower-slots-1" }));
                foreign_pod(below, "much", much).await?;
                offers(link, SLOTS, "0").await?;
                for name in ["one", "much"] {
                    below.delete(name, Some(0)).await?;
                }
                offers(link, SLOTS, "4").await
            })
            .await
    })
}

#[test]
fn changes_in_quick_succession_are_written_together() -> anyhow::Result<()> {
    const PARTS: &str = "example.org/parts";
    const CHANGES: usize = 60;
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        let shape = NodeShape {
            name: "parts".to_owned(),
            extended: [(PARTS.to_owned(), "100".to_owned())].into(),
            ..NodeShape::default()
        };
        world.lower.kwok_nodes(shape).await?;
        let written = || {
            let requests = world.upper.audit()?.requests;
            let ours = |request: &&Request| {
                let node = request.object_ref.as_ref().is_some_and(|object| object.name == "steady");
                node && request.kind() == "patch nodes/status"
            };
            anyhow::Ok(requests.iter().filter(ours).count())
        };
        world
            .with_link("steady", async |link, _, below| {
                offers(link, PARTS, "100").await?;
                let before = written()?;
                namespace::make(below.namespace(), &world.lower).await?;
                for number in 0..CHANGES {
                    foreign_pod(below, &format!("part-{number}"), asking(PARTS, "1")).await?;
                }
                offers(link, PARTS, "40").await?;
                let writes = written()? - before;
                ensure!(writes < CHANGES / 2, "{writes} writes for {CHANGES} changes");
                Ok(())
            })
            .await
    })
}

#[test]
fn the_pods_of_another_virtual_node_take_room_too() -> anyhow::Result<()> {
    const SEATS: &str = "example.org/seats";
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        let shape = NodeShape {
            name: "seats".to_owned(),
            extended: [(SEATS.to_owned(), "4".to_owned())].into(),
            ..NodeShape::default()
        };
        world.lower.kwok_nodes(shape).await?;
        let other = Link::start(&world.upper, &world.lower, "other").await?;
        world
            .with_link("one", async |link, above, _| {
                offers(link, SEATS, "4").await?;
                offers(&other, SEATS, "4").await?;
                above.create(&with(other.pod("theirs"), json!({ "spec": asking(SEATS, "3") }))).await?;
                offers(link, SEATS, "1").await?;
                offers(&other, SEATS, "4").await
            })
            .await
    })
}

#[test]
fn a_lower_node_counts_only_while_it_is_schedulable_and_ready() -> anyhow::Result<()> {
    const BERTHS: &str = "example.org/berths";
    const NODE: &str = "berths";
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        let ready = |status: &str| {
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            json!({ "type": "Ready", "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now })
        };
        // Its kubelet is this test.
        let resources = json!({ "cpu": "4", "memory": "4Gi", "pods": "10", BERTHS: "4" });
        let status = json!({ "capacity": resources, "allocatable": resources, "conditions": [ready("True")] });
        let away = Taint { key: NODE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
        let node = json!({ "metadata": { "name": NODE }, "spec": { "taints": [away] }, "status": status });
        let nodes: Api<Node> = Api::all(world.lower.client());
        nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        world
            .with_link("picky", async |link, _, _| {
                offers(link, BERTHS, "4").await?;
                for (unschedulable, amount) in [(true, "0"), (false, "4")] {
                    patch_node(&world.lower, NODE, json!({ "spec": { "unschedulable": unschedulable } })).await?;
                    offers(link, BERTHS, amount).await?;
                }
                for (status, amount) in [("False", "0"), ("True", "4")] {
                    let patch = Patch::Strategic(json!({ "status": { "conditions": [ready(status)] } }));
                    nodes.patch_status(NODE, &PatchParams::default(), &patch).await?;
                    offers(link, BERTHS, amount).await?;
                }
                nodes.delete(NODE, &DeleteParams::default()).await?;
                offers(link, BERTHS, "0").await
            })
            .await
    })
}
