// SPDX-License-Identifier: Apache-2.0
//! The schedulers of the newest and the oldest supported version, and both forms in which they name nodes.

use anyhow::ensure;
use e2e::binaries::SUPPORTED;
use e2e::cluster::Cluster;
use e2e::kwok::NodeShape;
use e2e::link::Link;
use e2e::multi_scheduler::MultiScheduler;
use e2e::namespace;
use e2e::pods::Pods;
use serde_json::json;

use crate::lab::{lower, node, pod, refusal};

#[test]
fn schedulers_of_the_newest_and_the_oldest_version_are_understood_whichever_way_they_name_nodes() -> anyhow::Result<()>
{
    e2e::run(async {
        let shape = |count, cpu: &str| NodeShape { count, cpu: cpu.to_owned(), ..NodeShape::default() };
        let (many, few) = tokio::try_join!(lower("many-small", shape(8, "1")), lower("few-large", shape(1, "8")))?;
        // Those between are built by nothing else here.
        let versions = [SUPPORTED[0], SUPPORTED[SUPPORTED.len() - 1]];
        for (at, version) in versions.into_iter().enumerate() {
            let upper = Cluster::builder("version").version(version).start().await?;
            let names = (format!("many-{at}"), format!("few-{at}"));
            let _links = tokio::try_join!(Link::start(&upper, &many, &names.0), Link::start(&upper, &few, &names.1))?;
            let multi = MultiScheduler::builder(&upper);
            let multi = if at % 2 == 1 { multi.whole_nodes() } else { multi };
            let _multi = multi.start(&[&many, &few]).await?;
            namespace::within("version", &upper, &[&many, &few], async |namespace| {
                let above = Pods::of(&upper, namespace);
                above.create(&pod("fits", json!({ "cpu": "5" }))).await?;
                let running = above.until_phase("fits", "Running").await?;
                ensure!(node(&running) == Some(&format!("few-{at}")), "{version}: {:?}", node(&running));
                above.create(&pod("waits", json!({ "cpu": "5" }))).await?;
                let waiting = above.until("waits", "is refused", |pod| refusal(pod).is_some()).await?;
                let told = refusal(&waiting).unwrap_or_default();
                ensure!(told.contains("none of 8 nodes has 5 CPUs free"), "{version}: {told}");
                above.delete("waits", Some(0)).await?;
                above.delete("fits", Some(0)).await?;
                above.until_all(0, "are gone", |_| true).await.map(drop)
            })
            .await?;
        }
        Ok(())
    })
}
