// SPDX-License-Identifier: Apache-2.0
//! Status comes up whole, and nothing else does.

use anyhow::ensure;
use e2e::kwok::FINISH;
use e2e::link::NODE_IP;
use e2e::pods::{condition, uid, with};
use serde_json::{Value, json};

use super::pair;

/// A condition without what each cluster numbers for itself.
fn told(pod: &Value, kind: &str) -> Value {
    let condition = condition(pod, kind);
    json!([condition["status"], condition["reason"], condition["lastTransitionTime"]])
}

#[test]
fn a_pod_created_above_runs_below_and_its_status_comes_up() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("comes-up", async |above, below| {
            above.create(&pair.link.pod("first")).await?;
            let (upper, lower) = (above.until_ready("first").await?, below.get("first").await?);

            for member in ["phase", "startTime", "podIP", "podIPs", "containerStatuses"] {
                let (shown, real) = (&upper["status"][member], &lower["status"][member]);
                ensure!(!real.is_null() && shown == real, "{member} is {shown} above and {real} below");
            }
            for kind in ["Initialized", "ContainersReady", "Ready"] {
                let (shown, real) = (told(&upper, kind), told(&lower, kind));
                ensure!(shown[0] == "True" && shown == real, "{kind} is {shown} above and {real} below");
            }
            let status = &upper["status"];
            ensure!(status["hostIP"] == NODE_IP && status["hostIPs"] == json!([{ "ip": NODE_IP }]), "{status}");
            ensure!(status["observedGeneration"] == upper["metadata"]["generation"], "{status}");
            ensure!(upper["spec"]["nodeName"] == pair.link.name(), "{}", upper["spec"]);

            let metadata = &lower["metadata"];
            ensure!(metadata["ownerReferences"].is_null() && metadata["finalizers"].is_null(), "{metadata}");
            ensure!(metadata["labels"]["virtual-pod"] == "true", "{metadata}");
            ensure!(metadata["labels"]["tensile.io/virtual-node"] == pair.link.name(), "{metadata}");
            ensure!(metadata["annotations"]["tensile.io/upper-uid"] == uid(&upper), "{metadata}");
            ensure!(lower["spec"]["automountServiceAccountToken"] == false, "{}", lower["spec"]);
            Ok(())
        })
        .await
    })
}

#[test]
fn a_finished_pod_shows_how_its_containers_ended() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("finished", async |above, below| {
            for (name, phase, code) in [("well", "Succeeded", 0), ("badly", "Failed", 1)] {
                above.create(&pair.link.pod(name)).await?;
                above.until_ready(name).await?;
                above.annotate(name, FINISH, Some(phase)).await?;
                let (upper, lower) = (above.until_phase(name, phase).await?, below.get(name).await?);
                let (shown, real) = (&upper["status"]["containerStatuses"], &lower["status"]["containerStatuses"]);
                ensure!(shown[0]["state"]["terminated"]["exitCode"] == code && shown == real, "{shown} and {real}");
                ensure!(told(&upper, "Ready") == told(&lower, "Ready"), "{}", upper["status"]);
            }
            Ok(())
        })
        .await
    })
}

#[test]
fn status_leaves_alone_what_others_wrote_on_the_upper_pod() -> anyhow::Result<()> {
    const FOREIGN: &str = "example.org/checked";
    e2e::run(async {
        let pair = pair().await?;
        pair.within("untouched", async |above, below| {
            let pod = with(
                pair.link.pod("mine"),
                json!({ "metadata": {
                    "labels": { "team": "a" },
                    "annotations": { "note": "b" },
                    "finalizers": ["example.org/keep"],
                } }),
            );
            above.create(&pod).await?;
            above.until_ready("mine").await?;
            let checked = json!({ "conditions": [{ "type": FOREIGN, "status": "True", "reason": "Seen" }] });
            let before = above.merge_status("mine", checked).await?;

            let foreign = json!({ "labels": { "below": "only" }, "annotations": { "below": "only" } });
            below.merge("mine", json!({ "metadata": foreign })).await?;
            below
                .merge_status("mine", json!({ "conditions": [{ "type": "example.org/below", "status": "True" }] }))
                .await?;
            below.annotate("mine", FINISH, Some("Succeeded")).await?;
            let after = above.until_phase("mine", "Succeeded").await?;

            for kind in ["PodScheduled", FOREIGN] {
                let (old, new) = (condition(&before, kind), condition(&after, kind));
                ensure!(old["status"] == "True" && old == new, "{kind} was {old} and is {new}");
            }
            ensure!(condition(&after, "example.org/below").is_null(), "{}", after["status"]);
            for member in ["labels", "annotations", "finalizers", "uid"] {
                let (old, new) = (&before["metadata"][member], &after["metadata"][member]);
                ensure!(!old.is_null() && old == new, "{member} was {old} and is {new}");
            }
            ensure!(before["spec"] == after["spec"], "{} became {}", before["spec"], after["spec"]);
            ensure!(before["status"]["qosClass"] == after["status"]["qosClass"], "{}", after["status"]);
            above.merge("mine", json!({ "metadata": { "finalizers": null } })).await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn readiness_gates_above_hold_ready_back() -> anyhow::Result<()> {
    const GATE: &str = "example.org/gate";
    e2e::run(async {
        let pair = pair().await?;
        pair.within("gated", async |above, below| {
            let gate = json!({ "spec": { "readinessGates": [{ "conditionType": GATE }] } });
            above.create(&with(pair.link.pod("gated"), gate)).await?;
            let shows = async |ready: &str| {
                let what = format!("has Ready={ready} and its containers ready");
                above
                    .until("gated", &what, |pod| {
                        condition(pod, "Ready")["status"] == ready
                            && condition(pod, "ContainersReady")["status"] == "True"
                    })
                    .await
            };
            let set = async |status: &str| {
                above.merge_status("gated", json!({ "conditions": [{ "type": GATE, "status": status }] })).await
            };
            below.until_ready("gated").await?;
            let waiting = shows("False").await?;
            ensure!(condition(&waiting, "Ready")["reason"] == "ReadinessGatesNotReady", "{}", waiting["status"]);
            set("True").await?;
            shows("True").await?;
            set("False").await?;
            shows("False").await?;
            Ok(())
        })
        .await
    })
}
