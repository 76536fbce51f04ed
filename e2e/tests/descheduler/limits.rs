//! What it does not do: more than allowed, or anything at all in a dry run.

use anyhow::ensure;
use e2e::descheduler::lab::Lab;
use e2e::descheduler::workload::{deployment, until_running};
use e2e::pods::{PATIENCE, condition, uid};
use e2e::wait::eventually;
use serde_json::json;

#[test]
fn a_dry_run_says_what_it_would_do_and_writes_nothing() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("dry-run", async |above| {
            let before = lab.upper.audit()?.requests.len();
            let mut process = lab.launch("descheduler-dry")?.args(["--dry-run", "--leader-elect=false"]).start()?;
            deployment(lab.upper.client(), above, "web", 1, json!({})).await?;
            let pods = above
                .until_all(1, "are stuck", |pod| condition(pod, "virtual-kubelet.io/Scheduled")["status"] == "False");
            let pod = pods.await?.remove(0);
            let log = process.log().to_owned();
            eventually(PATIENCE, "it says what it would do", async || {
                process.ensure_running()?;
                let text = std::fs::read_to_string(&log)?;
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                let line = text.lines().find(|line| line.contains("dry run: would") && line.contains(name));
                ensure!(line.is_some_and(|line| line.contains("Insufficient cpu")), "{line:?}");
                Ok(())
            })
            .await?;
            process.kill();
            let requests = lab.upper.audit()?.after(before).by("tensile-descheduler").requests;
            let reads = ["get", "list", "watch"];
            let asks = |kind: &str| kind.starts_with("create selfsubjectaccessreviews");
            let wrote = requests.iter().find(|r| !reads.contains(&r.verb.as_str()) && !asks(&r.kind()));
            ensure!(wrote.is_none() && !requests.is_empty(), "{wrote:?}");
            ensure!(uid(&above.list().await?[0]) == uid(&pod), "it was moved");
            // One that may write moves it.
            let _process = lab.launch("descheduler-wet")?.arg("--leader-elect=false").start()?;
            until_running(above, "web", 1, "west").await.map(drop)
        })
        .await
    })
}
