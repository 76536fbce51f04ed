// SPDX-License-Identifier: Apache-2.0
//! Groups of pods whose objects say how many there must be, in an upper cluster that has the APIs of coscheduling and of the
//! core.

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::kwok::NodeShape;
use e2e::link::Link;
use e2e::multi_scheduler::MultiScheduler;
use e2e::namespace;
use e2e::pods::{PATIENCE, Pods, with};
use e2e::wait::eventually;
use serde_json::{Value, json};

use crate::lab::{lower, node, pod, refusal};

/// What the users of coscheduling install, as far as it matters here.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "podgroups.scheduling.x-k8s.io",
            // The group is protected; this is what its owners write.
            "annotations": { "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50" },
        },
        "spec": {
            "group": "scheduling.x-k8s.io",
            "scope": "Namespaced",
            "names": { "kind": "PodGroup", "plural": "podgroups", "singular": "podgroup" },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

#[allow(clippy::needless_pass_by_value, reason = "made for the call")]
fn group(api: &str, name: &str, namespace: &str, spec: Value) -> Value {
    json!({
        "apiVersion": api, "kind": "PodGroup", "metadata": { "name": name, "namespace": namespace }, "spec": spec,
    })
}

#[test]
fn the_objects_of_groups_say_how_many_members_must_find_room_in_one_cluster() -> anyhow::Result<()> {
    e2e::run(async {
        let nodes = |count| NodeShape { count, cpu: "4".to_owned(), ..NodeShape::default() };
        let api = ["--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true"];
        let upper = Cluster::builder("grouped").apiserver_args(&api).start();
        let (upper, two, three) = tokio::try_join!(upper, lower("two", nodes(2)), lower("three", nodes(3)))?;
        let lowers = [&two, &three];
        let _links = tokio::try_join!(Link::start(&upper, &two, "two"), Link::start(&upper, &three, "three"))?;
        upper.apply([&definition()], &[]).await?;
        namespace::within("groups", &upper, &lowers, async |namespace| {
            let gang = json!({ "schedulingPolicy": { "gang": { "minCount": 3 } } });
            let objects = [
                group("scheduling.k8s.io/v1alpha2", "gang", namespace, gang),
                group("scheduling.x-k8s.io/v1alpha1", "crowd", namespace, json!({ "minMember": 4 })),
            ];
            eventually(PATIENCE, "the kinds are served", async || upper.apply(&objects, &[]).await).await?;
            let multi = MultiScheduler::builder(&upper).start(&lowers).await?;

            let above = Pods::of(&upper, namespace);
            let member = json!({ "spec": { "schedulingGroup": { "podGroupName": "gang" } } });
            for name in ["a", "b", "c"] {
                above.create(&with(pod(name, json!({ "cpu": "3" })), member.clone())).await?;
            }
            for name in ["a", "b", "c"] {
                let running = above.until_phase(name, "Running").await?;
                ensure!(node(&running).context("no node")? == "three", "{name} is in a cluster too small for all");
            }
            let labelled = json!({ "metadata": { "labels": { "scheduling.x-k8s.io/pod-group": "crowd" } } });
            above.create(&with(pod("d", json!({ "cpu": "3" })), labelled)).await?;
            let waiting = above.until("d", "is refused", |pod| refusal(pod).is_some()).await?;
            let told = refusal(&waiting).unwrap_or_default();
            let words = "lower cluster two: room for 2 of the 4 pods of group crowd that are to come";
            ensure!(told.contains(words), "{told}");
            multi.process().ensure_running()
        })
        .await
    })
}
