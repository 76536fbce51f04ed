//! Bad input: it ends soon, with the promised exit code and one sentence that names what is wrong.

use anyhow::ensure;
use e2e::descheduler::lab::{Lab, OURS};
use e2e::descheduler::workload::{deployment, until_running};
use e2e::pods::PATIENCE;
use e2e::service::{WRONG_FLAG, fails};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

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
            e2e::wait::eventually(PATIENCE, "it names them", async || {
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
