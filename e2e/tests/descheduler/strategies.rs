// SPDX-License-Identifier: Apache-2.0
//! The plugins that the Kubernetes descheduler has too, and that look at what became of a pod.

use anyhow::ensure;
use e2e::descheduler::lab::Lab;
use e2e::descheduler::workload::{deployment, small, until_running};
use e2e::pods::Pods;
use serde_json::{Value, json};

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The only pod of a Deployment that is small enough for east and runs there; `status` is what became of it below.
async fn running_in_east(lab: &Lab, above: &Pods, name: &str, status: Value) -> anyhow::Result<Value> {
    deployment(lab.upper.client(), above, name, 1, small()).await?;
    let pod = until_running(above, name, 1, "east").await?.remove(0);
    let [east, _] = lab.below(above);
    east.merge_status(name_of(&pod), status).await?;
    Ok(pod)
}

/// Waits until the pod's owner is told why one of its pods was evicted.
async fn until_told(above: &Pods, pod: &Value, why: &str) -> anyhow::Result<()> {
    let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default();
    let told = above.until_event(owner, "Descheduled").await?;
    ensure!(told.contains(why), "{told}");
    Ok(())
}

#[test]
fn pods_that_are_old_restart_too_often_or_have_failed_are_moved_where_the_policy_says_so() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("strategies", async |above| {
            let plugins = [
                ("PodLifeTime", json!({ "maxPodLifeTimeSeconds": 2, "states": ["Pending"] })),
                ("RemovePodsHavingTooManyRestarts", json!({ "podRestartThreshold": 5 })),
                ("RemoveFailedPods", json!({ "reasons": ["OutOfcpu"] })),
            ];
            let mut process = lab.launch_by("descheduler-strategies", "deschedule", &plugins)?.start()?;

            // There is no room for it, and it waits.
            deployment(lab.upper.client(), above, "old", 1, json!({})).await?;
            let container = json!({ "name": "main", "image": "example.org/app:1", "imageID": "", "ready": true,
                "restartCount": 7 });
            let restarted =
                running_in_east(lab, above, "restarts", json!({ "containerStatuses": [container] })).await?;
            let failed = json!({ "phase": "Failed", "reason": "OutOfcpu" });
            let failed = running_in_east(lab, above, "fails", failed).await?;

            until_running(above, "restarts", 1, "west").await?;
            until_told(above, &restarted, "it was restarted 7 times").await?;
            above.until_gone(name_of(&failed)).await?;
            until_told(above, &failed, "it has failed: OutOfcpu").await?;
            let old = until_running(above, "old", 1, "west").await?.remove(0);
            until_told(above, &old, "it is older than 2 s and Pending").await?;
            process.ensure_running()
        })
        .await
    })
}
