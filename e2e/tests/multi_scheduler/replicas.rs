// SPDX-License-Identifier: Apache-2.0
//! Two replicas side by side, each asked by a scheduler of its own: the worst that they can be put to.

use anyhow::ensure;
use e2e::cluster::Cluster;
use e2e::kwok::NodeShape;
use e2e::link::Link;
use e2e::multi_scheduler::{MultiScheduler, SCHEDULER};
use e2e::namespace;
use e2e::pods::{PATIENCE, Pods};
use e2e::wait::eventually;
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::lab::{filter, lower, node, pod, refusal, shown};

/// The scheduler of the second replica.
const OTHER: &str = "other-scheduler";
/// Nodes of each of the two clusters, with room for one pod.
const NODES: usize = 15;
/// What fits.
const ROOM: usize = 2 * NODES;
/// What comes.
const PODS: usize = 50;
/// Pods on their way to a cluster, and those of them for which there is no room.
const ASSUMED: &str = "tensile_multi_scheduler_cluster_assumed_pods";
const OWED: &str = "tensile_multi_scheduler_cluster_owed_pods";

#[test]
fn replicas_learn_from_one_another_by_what_is_bound_and_answer_alike() -> anyhow::Result<()> {
    e2e::run(async {
        let shape = || NodeShape { count: NODES, cpu: "5".to_owned(), ..NodeShape::default() };
        let (upper, one, two) =
            tokio::try_join!(Cluster::builder("shared").start(), lower("one", shape()), lower("two", shape()))?;
        let _links = tokio::try_join!(Link::start(&upper, &one, "one"), Link::start(&upper, &two, "two"))?;
        let lowers = [&one, &two];
        let (first, second) = tokio::try_join!(
            MultiScheduler::builder(&upper).start(&lowers),
            MultiScheduler::builder(&upper).called(OTHER).start(&lowers),
        )?;
        namespace::within("replicas", &upper, &lowers, async |namespace| {
            let above = Pods::of(&upper, namespace);
            try_join_all((0..PODS).map(|number| {
                let mut pod = pod(&format!("pod-{number}"), json!({ "cpu": "3" }));
                pod["spec"]["schedulerName"] = json!(if number % 2 == 0 { SCHEDULER } else { OTHER });
                let above = above.clone();
                async move { above.create(&pod).await }
            }))
            .await?;
            // What one of them was told in the very moment in which the other was is owed a place: both say how many that are.
            eventually(3 * PATIENCE, "all room is taken and both know the same", async || {
                let all = above.list().await?;
                let count = |holds: &dyn Fn(&Value) -> bool| all.iter().filter(|pod| holds(pod)).count();
                let running = count(&|pod| pod["status"]["phase"] == "Running");
                let bound = count(&|pod| node(pod).is_some());
                let refused = count(&|pod| node(pod).is_none() && refusal(pod).is_some());
                ensure!(running == ROOM, "{running} run");
                ensure!(bound + refused == PODS, "{bound} are bound, {refused} are refused");
                for replica in [&first, &second] {
                    let (assumed, owed) = (replica.metric(ASSUMED).await?, replica.metric(OWED).await?);
                    ensure!(
                        assumed == bound - ROOM && owed == assumed,
                        "{bound} are bound, {assumed} assumed, {owed} owed"
                    );
                }
                Ok(())
            })
            .await?;
            let [small, large] = ["1", "3"].map(|cpu| shown(pod("shown", json!({ "cpu": cpu })), namespace));
            for (asked, passed) in [(small, json!(["one", "two"])), (large, json!([]))] {
                let answers = [&first, &second].map(|replica| filter(replica, asked.clone(), &["one", "two"]));
                let [left, right] = <[Value; 2]>::try_from(try_join_all(answers).await?).unwrap_or_default();
                ensure!(left == right && left["NodeNames"] == passed, "{left}\n{right}");
            }
            Ok(())
        })
        .await
    })
}
