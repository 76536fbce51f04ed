// SPDX-License-Identifier: Apache-2.0
//! More pods at once than there is room for.

use anyhow::ensure;
use e2e::cluster::Cluster;
use e2e::kwok::NodeShape;
use e2e::link::Link;
use e2e::multi_scheduler::MultiScheduler;
use e2e::namespace;
use e2e::pods::{Pods, condition};
use e2e::wait::eventually;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use crate::lab::{node, pod, refusal};

/// Something of which half of a pod's share is left on each node: the sums promise more than fits.
const SLOT: &str = "example.com/slot";
/// Nodes of each of the two clusters, each with room for two pods.
const NODES: usize = 100;
/// What fits.
const ROOM: usize = 2 * 2 * NODES;
/// What comes.
const PODS: usize = 600;
/// A burst takes long on a busy machine.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(300);

#[test]
fn of_more_pods_than_fit_just_those_that_fit_are_sent_and_the_others_wait_with_the_reason() -> anyhow::Result<()> {
    e2e::run(async {
        let start = async |name: &str| {
            let cluster = Cluster::builder(name).start().await?;
            let extended = [(SLOT.to_owned(), "5".to_owned())].into();
            cluster.kwok_nodes(NodeShape { count: NODES, extended, ..NodeShape::default() }).await?;
            anyhow::Ok(cluster)
        };
        let (upper, left, right) =
            tokio::try_join!(Cluster::builder("crowded").start(), start("left"), start("right"))?;
        let _links = tokio::try_join!(Link::start(&upper, &left, "left"), Link::start(&upper, &right, "right"))?;
        // Bindings are not seen in time on a machine that is busy enough.
        let multi = MultiScheduler::builder(&upper).args(&["--reservation-time=10m"]);
        let multi = multi.start(&[&left, &right]).await?;
        namespace::within("burst", &upper, &[&left, &right], async |namespace| {
            let above = Pods::of(&upper, namespace);
            let create = |number: usize| {
                let above = above.clone();
                // Of several controllers, so that they differ in what does not matter.
                let mut pod = pod(&format!("pod-{number}"), json!({ (SLOT): "2" }));
                pod["metadata"]["labels"] = json!({ "app": format!("app-{}", number % 7) });
                async move { above.create(&pod).await.map(drop) }
            };
            stream::iter(0..PODS).map(create).buffer_unordered(32).try_collect::<()>().await?;

            let bound = |pods: &[Value]| pods.iter().filter(|pod| node(pod).is_some()).count();
            let all = eventually(DEADLINE, "what fits runs and the others are refused", async || {
                let all = above.list().await?;
                let running = all.iter().filter(|pod| pod["status"]["phase"] == "Running").count();
                let refused = all.iter().filter(|pod| node(pod).is_none() && refusal(pod).is_some()).count();
                // One that was sent too many is there for good: it fails at once.
                if bound(&all) > ROOM {
                    return Ok(Err(anyhow::anyhow!("{} pods were sent into room for {ROOM}", bound(&all))));
                }
                ensure!(running == ROOM && running + refused == PODS, "{running} run, {refused} are refused");
                Ok(Ok(all))
            });
            let all = all.await??;
            for pod in all.iter().filter(|pod| node(pod).is_none()) {
                let told = refusal(pod).unwrap_or_default();
                for cluster in ["left", "right"] {
                    let reason = format!("lower cluster {cluster}: none of {NODES} nodes has 2 {SLOT} free");
                    ensure!(told.contains(&reason), "{reason:?} is not in {told:?}");
                }
            }
            for lower in [&left, &right] {
                let below = Pods::of(lower, namespace).list().await?;
                let stuck = below.iter().filter(|pod| condition(pod, "PodScheduled")["status"] == "False").count();
                ensure!(below.len() == ROOM / 2 && stuck == 0, "{}: {} of them stuck", below.len(), stuck);
            }
            for lower in ["left", "right"] {
                multi
                    .until_metric(&format!("tensile_multi_scheduler_cluster_owed_pods{{cluster=\"{lower}\"}} 0"))
                    .await?;
                let on_the_way = format!("tensile_multi_scheduler_cluster_assumed_pods{{cluster=\"{lower}\"}} 0");
                multi.until_metric(&on_the_way).await?;
            }
            Ok(())
        })
        .await
    })
}
