// SPDX-License-Identifier: Apache-2.0
//! Bad input: it ends soon, with the promised exit code and one sentence that names what is wrong.

use anyhow::{Context as _, ensure};
use e2e::descheduler::audit::{exclusions, owner};
use e2e::descheduler::lab::{Lab, OURS};
use e2e::descheduler::workload::{deployment, of, until_running};
use e2e::pods::{PATIENCE, condition, uid};
use e2e::service::{WRONG_FLAG, fails};
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

#[test]
fn a_policy_that_cannot_be_used_is_named_with_its_line() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let policy = lab.upper.folder().join("bad-policy.yaml");
        let head = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n";
        let body = "profiles:\n- name: p\n  plugins: {deschedule: {enabled: [RemoveDuplicates]}}\n";
        std::fs::write(&policy, format!("{head}{body}"))?;
        let launch = lab.launch("descheduler-bad-policy")?;
        let launch = launch.arg(format!("--policy-config-file={}", policy.display()));
        fails(launch, WRONG_FLAG, &["bad-policy.yaml:5: plugin", "RemoveDuplicates", "is not known"]).await
    })
}

#[test]
fn damaged_exclusions_are_passed_over_and_others_moved_all_the_same() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.read().await;
        lab.within("damaged", async |above| {
            let maps: Api<ConfigMap> = Api::namespaced(lab.upper.client(), OURS);
            let map = json!({
                "metadata": { "name": "damaged", "labels": { "tensile.io/exclusions": "true" } },
                "data": { "owner.x": "{", "owner.y": "{\"version\":7}", "anything": "[]" },
            });
            maps.create(&PostParams::default(), &serde_json::from_value(map)?).await?;
            deployment(lab.upper.client(), above, "web", 1, json!({})).await?;
            until_running(above, "web", 1, "west").await?;
            let log = lab.descheduler.lock().unwrap_or_else(std::sync::PoisonError::into_inner).log().to_owned();
            eventually(PATIENCE, "it names them", async || {
                let text = std::fs::read_to_string(&log)?;
                for words in ["entry owner.x of the exclusions: it is not JSON", "owner.y", "entry anything"] {
                    ensure!(text.contains(words), "it does not say {words:?}");
                }
                Ok(())
            })
            .await?;
            maps.delete("damaged", &kube::api::DeleteParams::default()).await?;
            Ok(())
        })
        .await
    })
}

#[test]
fn exclusions_that_a_later_version_wrote_are_left_untouched_and_pods_that_need_them_stay() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.read().await;
        lab.within("newer", async |above| {
            deployment(lab.upper.client(), above, "web", 1, json!({})).await?;
            let moved = until_running(above, "web", 1, "west").await?.remove(0);
            let (map, _) = exclusions(lab, owner(&moved)).await?;
            // A later version was here, and it was taken back.
            let later = json!({ "version": 2, "away": { "east": "2099-01-02T15:04:05Z" } });
            let maps: Api<ConfigMap> = Api::namespaced(lab.upper.client(), OURS);
            let change = json!({ "data": { format!("owner.{}", owner(&moved)): later.to_string() } });
            maps.patch(&map, &PatchParams::default(), &Patch::Merge(change)).await?;
            let probe = json!({
                "metadata": { "name": "probe", "labels": { "virtual-pod": "true" },
                    "ownerReferences": moved["metadata"]["ownerReferences"] },
                "spec": { "containers": [{ "name": "main", "image": "example.org/app:1" }] },
            });
            eventually(PATIENCE, "the webhook knows no exclusion any more", async || {
                let affinity = &above.create_dry(&probe).await?["spec"]["affinity"];
                ensure!(affinity.is_null(), "{affinity}");
                Ok(())
            })
            .await?;

            // So the next pod of that owner comes to where it has no room.
            let namespace = above.namespace();
            lab.upper.kubectl(&["scale", "deployment", "web", "--replicas=2", "-n", namespace]).await?;
            let stuck = eventually(PATIENCE, "the next pod is stuck", async || {
                let pods = of(above, "web").await?;
                let is_stuck = |pod: &&Value| condition(pod, "virtual-kubelet.io/Scheduled")["status"] == "False";
                pods.iter().find(is_stuck).cloned().with_context(|| format!("none of {} is", pods.len()))
            })
            .await?;
            let name = stuck["metadata"]["name"].as_str().unwrap_or_default();
            let told = above.until_event(name, "ExclusionNotReadable").await?;
            ensure!(told.contains("a later build") && told.contains("version 2"), "{told}");
            ensure!(exclusions(lab, owner(&moved)).await? == (map, later), "it was written over");
            ensure!(uid(&above.get(name).await?) == uid(&stuck), "it was moved");
            Ok(())
        })
        .await
    })
}
