// SPDX-License-Identifier: Apache-2.0
//! Pods without a controller: made again once, whoever interferes.

use anyhow::{Context as _, ensure};
use e2e::descheduler::audit::{is_there_once, until_closed};
use e2e::descheduler::kills::{behind_a_proxy, killed_at};
use e2e::descheduler::lab::Lab;
use e2e::descheduler::workload::{LONG, bare, template};
use e2e::pods::{PATIENCE, condition, uid, with};
use e2e::wait::eventually;
use http::Method;
use serde_json::{Value, json};
use tensile_testkit::fault_proxy::{Fault, Rule, Seen};

#[test]
fn a_pod_without_a_controller_is_made_again_where_there_is_room() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.read().await;
        lab.within("bare", async |above| {
            let first = bare(above, "solo", json!({})).await?;
            let pod = is_there_once(lab, above, "solo").await?;
            ensure!(pod["metadata"]["annotations"]["tensile.io/origin-uid"] == uid(&first), "{}", pod["metadata"]);
            above.until_event("solo", "Descheduled").await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn its_constraints_are_the_same_after_the_third_move_as_before_the_first() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.read().await;
        lab.within("bare-constraints", async |above| {
            // No node has this.
            let required = json!({ "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "rack", "operator": "In", "values": ["none"] }] },
                { "matchExpressions": [{ "key": "clusterID", "operator": "Exists" }, { "key": "rack", "operator": "In", "values": ["no"] }] },
            ] });
            let more = json!({
                "metadata": { "name": "picky" },
                "spec": { "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } } },
            });
            above.create(&with(template("picky", json!({})), more)).await?;
            let mut known = String::new();
            let mut shown: Option<Value> = None;
            for (node, below) in ["east", "west", "east", "west"].into_iter().zip(lab.below(above).iter().cycle()) {
                let (pod, lower) = eventually(LONG, &format!("the pod is on {node} and below it"), async || {
                    let pod = above.get("picky").await?;
                    ensure!(pod["spec"]["nodeName"] == node && uid(&pod) != known, "{}", pod["metadata"]["uid"]);
                    let lower = below.get("picky").await?;
                    ensure!(lower["metadata"]["annotations"]["tensile.io/upper-uid"] == uid(&pod), "not yet");
                    Ok((pod, lower))
                })
                .await?;
                known = uid(&pod).to_owned();
                // What is below is what would be there had it never been moved.
                let placement = json!([lower["spec"]["affinity"], lower["spec"]["nodeSelector"], lower["spec"]["tolerations"]]);
                let before = shown.get_or_insert_with(|| placement.clone());
                ensure!(*before == placement, "{before}\nis not\n{placement}");
                ensure!(placement.to_string().contains("rack"), "{placement}");
            }
            Ok(())
        })
        .await
    })
}

#[test]
fn a_pod_that_could_not_be_made_again_stays_and_says_why() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.read().await;
        lab.within("bare-quota", async |above| {
            lab.upper.kubectl(&["create", "quota", "full", "--hard=pods=1", "-n", above.namespace()]).await?;
            // Until it is counted, the API server refuses all pods.
            let first =
                eventually(PATIENCE, "the quota takes one pod", async || bare(above, "solo", json!({})).await).await?;
            let told = above.until_event("solo", "NotRecreatable").await?;
            ensure!(told.contains("exceeded quota"), "{told}");
            ensure!(uid(&above.get("solo").await?) == uid(&first), "it was moved");
            Ok(())
        })
        .await
    })
}

#[allow(clippy::needless_pass_by_value, reason = "as its constants are")]
fn writes_configmap(seen: &Seen, method: Method, is_move: bool) -> bool {
    seen.method == method && seen.is_about("configmaps") && seen.path.contains("/tensile-move-") == is_move
}

/// A write by its name, and how it is told from others.
type Write = (&'static str, fn(&Seen) -> bool);

fn is_exclusion(seen: &Seen) -> bool {
    writes_configmap(seen, Method::POST, false) || writes_configmap(seen, Method::PATCH, false)
}

/// The exclusion is there by then: what is created is the journal.
fn is_begin(seen: &Seen) -> bool {
    writes_configmap(seen, Method::POST, false)
}

fn is_commit(seen: &Seen) -> bool {
    writes_configmap(seen, Method::PATCH, true)
}

fn is_close(seen: &Seen) -> bool {
    writes_configmap(seen, Method::DELETE, true)
}

/// Of the finalizer: put on the old pod, taken off it, taken off the new one.
fn is_hold(seen: &Seen) -> bool {
    seen.method == Method::PATCH && seen.path.ends_with("/pods/solo")
}

fn is_eviction(seen: &Seen) -> bool {
    seen.is_about("eviction")
}

fn is_creation(seen: &Seen) -> bool {
    seen.method == Method::POST && seen.path.ends_with("/pods") && !seen.query.contains("dryRun")
}

#[test]
fn killed_before_and_after_each_write_it_is_neither_lost_nor_doubled() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("bare-kills", async |above| {
            let (proxy, mut process) = behind_a_proxy(lab, "descheduler-bare").await?;
            let first = bare(above, "solo", json!({})).await?;
            let stuck = |pod: &Value| condition(pod, "virtual-kubelet.io/Scheduled")["status"] == "False";
            above.until("solo", "is stuck", stuck).await?;
            let writes: [Write; 9] = [
                ("exclude", is_exclusion),
                ("begin", is_begin),
                ("hold the old pod", is_hold),
                ("commit", is_commit),
                ("evict", is_eviction),
                ("let the old pod go", is_hold),
                ("create", is_creation),
                ("close", is_close),
                ("let the new pod go", is_hold),
            ];
            // Stalled: it never reaches the API server. Slow: it takes effect, and its answer never arrives.
            let slow = Fault::Slow { bytes_per_second: 1 };
            for (write, which) in writes {
                for fault in [Fault::Stall, slow.clone()] {
                    killed_at(&proxy, &mut process, which, &fault).await.context(write)?;
                }
            }
            process.restart()?;
            let pod = is_there_once(lab, above, "solo").await?;
            ensure!(
                pod["metadata"]["annotations"]["tensile.io/origin-uid"] == uid(&first),
                "it was made more than once"
            );
            Ok(())
        })
        .await
    })
}

#[test]
fn a_pod_that_its_owner_deletes_before_we_do_does_not_come_again() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("bare-withdrawn", async |above| {
            let (proxy, mut process) = behind_a_proxy(lab, "descheduler-withdrawn").await?;
            bare(above, "solo", json!({})).await?;
            proxy.add(Rule::new(Fault::Stall).when(is_eviction));
            process.restart()?;
            eventually(PATIENCE, "it evicts", async || {
                ensure!(!proxy.requests(is_eviction).is_empty(), "not yet");
                Ok(())
            })
            .await?;
            above.delete("solo", None).await?;
            ensure!(process.kill(), "it had ended by itself");
            proxy.clear();
            process.restart()?;
            above.until_gone("solo").await?;
            until_closed(lab, above).await?;
            ensure!(proxy.requests(is_creation).is_empty(), "it was made again");
            ensure!(above.find("solo").await?.is_none(), "it is there again");
            Ok(())
        })
        .await
    })
}
