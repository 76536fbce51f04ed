// SPDX-License-Identifier: Apache-2.0
//! A pod that cannot run says why: as condition, event and waiting reason, in the words of whoever refuses it.

use std::time::Duration;

use anyhow::ensure;
use e2e::kubeconfig::User;
use e2e::link::Link;
use e2e::namespace;
use e2e::pods::{PATIENCE, Pods, condition, with};
use e2e::wait::eventually;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::pair;

const ACCEPTED: &str = "virtual-kubelet.io/Accepted";

/// Waits until the upper pod says everywhere that it is refused, for this reason and in these words. There is no lower
/// pod then.
pub(crate) async fn is_refused(
    above: &Pods,
    below: &Pods,
    name: &str,
    reason: &str,
    words: &str,
) -> anyhow::Result<()> {
    let says = |place: &Value| {
        place["reason"] == reason && place["message"].as_str().is_some_and(|message| message.contains(words))
    };
    let what = format!("is refused: {reason}, {words}");
    let pod = above.until(name, &what, |pod| says(condition(pod, ACCEPTED))).await?;
    ensure!(condition(&pod, ACCEPTED)["status"] == "False", "{}", pod["status"]);
    let containers = pod["status"]["containerStatuses"].as_array();
    ensure!(
        containers
            .is_some_and(|all| !all.is_empty() && all.iter().all(|container| says(&container["state"]["waiting"]))),
        "{}",
        pod["status"]
    );
    ensure!(pod["status"]["phase"] == "Pending" && pod["status"]["startTime"].is_null(), "{}", pod["status"]);
    let event = above.until_event(name, reason).await?;
    ensure!(event.contains(words), "the event says {event}");
    ensure!(below.find(name).await?.is_none(), "there is a lower pod");
    Ok(())
}

/// The pod runs now, and nothing of its refusal is left.
async fn runs_after_all(above: &Pods, name: &str) -> anyhow::Result<()> {
    let pod = above.until_ready(name).await?;
    ensure!(condition(&pod, ACCEPTED).is_null(), "{}", pod["status"]);
    Ok(())
}

async fn make<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned,
{
    Ok(api.create(&PostParams::default(), &serde_json::from_value(object)?).await?)
}

#[test]
fn a_pod_of_a_daemon_set_is_refused_with_a_reason() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("daemons", async |above, below| {
            let sets: Api<DaemonSet> = Api::namespaced(pair.upper.client(), above.namespace());
            let labels = json!({ "app": "agent" });
            let spec = json!({
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": pair.link.pod_spec() },
            });
            make(&sets, json!({ "metadata": { "name": "agent" }, "spec": spec })).await?;
            let pods = above.until_all(1, "are of the daemon set", |_| true).await?;
            let name = pods[0]["metadata"]["name"].as_str().unwrap_or_default();
            is_refused(above, below, name, "DaemonSetNotSupported", "DaemonSet agent").await
        })
        .await
    })
}

#[test]
fn a_pod_of_the_host_network_is_refused_with_a_reason() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("hostile", async |above, below| {
            above.create(&with(pair.link.pod("hostile"), json!({ "spec": { "hostNetwork": true } }))).await?;
            is_refused(above, below, "hostile", "HostNamespaceNotAllowed", "spec.hostNetwork").await
        })
        .await
    })
}

#[test]
fn a_mirror_pod_is_refused_with_a_reason() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("mirrored", async |above, below| {
            let mirror = json!({
                "metadata": { "annotations": { "kubernetes.io/config.mirror": "hash" } },
                "spec": { "nodeName": pair.link.name() },
            });
            above.create(&with(pair.link.pod("mirror"), mirror)).await?;
            is_refused(above, below, "mirror", "MirrorPodNotSupported", "mirror pod").await
        })
        .await
    })
}

#[test]
fn a_field_that_does_not_go_down_is_warned_of() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("dropped", async |above, _| {
            let class = json!({
                "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "upper-only" }, "handler": "e2e",
            });
            pair.upper.apply([&class], &[]).await?;
            above.create(&with(pair.link.pod("poorer"), json!({ "spec": { "runtimeClassName": "upper-only" } }))).await?;
            above.until_ready("poorer").await?;
            let event = above.until_event("poorer", "FieldsDropped").await?;
            ensure!(event.contains("spec.runtimeClassName"), "{event}");
            Ok(())
        })
        .await
    })
}

#[test]
fn a_pod_over_the_quota_below_says_so_and_runs_when_the_quota_goes() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("quota", async |above, below| {
            namespace::make(above.namespace(), &pair.lower).await?;
            let quotas: Api<ResourceQuota> = Api::namespaced(pair.lower.client(), above.namespace());
            make(&quotas, json!({ "metadata": { "name": "none" }, "spec": { "hard": { "pods": "0" } } })).await?;
            eventually(PATIENCE, "the quota counts", async || {
                let status = quotas.get("none").await?.status.and_then(|status| status.hard);
                ensure!(status.is_some(), "not yet");
                Ok(())
            })
            .await?;
            above.create(&pair.link.pod("much")).await?;
            is_refused(above, below, "much", "LowerQuotaExceeded", "exceeded quota: none, requested: pods=1").await?;
            quotas.delete("none", &DeleteParams::default()).await?;
            runs_after_all(above, "much").await
        })
        .await
    })
}

#[test]
fn a_pod_that_is_invalid_below_says_why() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("invalid", async |above, below| {
            let container = json!({
                "name": "main",
                "image": "example.org/app:1",
                "securityContext": { "privileged": true },
            });
            above.create(&with(pair.link.pod("mighty"), json!({ "spec": { "containers": [container] } }))).await?;
            let words = "spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy";
            is_refused(above, below, "mighty", "LowerInvalid", words).await
        })
        .await
    })
}

#[test]
fn a_pod_that_admission_below_denies_says_so_and_runs_when_the_policy_goes() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(pair.lower.client());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(pair.lower.client());
        let policy = json!({
            "metadata": { "name": "no-denied" },
            "spec": {
                "matchConstraints": { "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
                }] },
                "matchConditions": [{ "name": "denied", "expression": "object.metadata.name == 'denied'" }],
                "validations": [{ "expression": "false", "message": "denied pods are denied here" }],
            },
        });
        make(&policies, policy).await?;
        let binding = json!({ "policyName": "no-denied", "validationActions": ["Deny"] });
        make(&bindings, json!({ "metadata": { "name": "no-denied" }, "spec": binding })).await?;
        pair.within("denied", async |above, below| {
            namespace::make(above.namespace(), &pair.lower).await?;
            // The policy counts some time after it was made: when the API server's own dry run is denied.
            let pods: Api<Pod> = Api::namespaced(pair.lower.client(), above.namespace());
            let pod = serde_json::from_value(pair.link.pod("denied"))?;
            eventually(PATIENCE, "the policy counts", async || {
                let tried = pods.create(&PostParams { dry_run: true, ..PostParams::default() }, &pod).await;
                let denied = matches!(&tried, Err(error) if error.to_string().contains("denied pods"));
                ensure!(denied, "{tried:?}");
                Ok(())
            })
            .await?;

            above.create(&pair.link.pod("denied")).await?;
            is_refused(above, below, "denied", "LowerAdmissionDenied", "denied pods are denied here").await?;
            bindings.delete("no-denied", &DeleteParams::default()).await?;
            policies.delete("no-denied", &DeleteParams::default()).await?;
            runs_after_all(above, "denied").await
        })
        .await
    })
}

#[test]
fn a_right_that_is_taken_away_below_is_told_and_the_pod_runs_when_it_is_back() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let roles: Api<ClusterRole> = Api::all(pair.lower.client());
        let bindings: Api<ClusterRoleBinding> = Api::all(pair.lower.client());
        let allowed = |pods: &[&str]| {
            json!([
                { "apiGroups": [""], "resources": ["pods"], "verbs": pods },
                { "apiGroups": [""], "resources": ["pods/resize", "pods/ephemeralcontainers"], "verbs": ["patch"] },
                { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "update", "delete"] },
                { "apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"] },
                { "apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"] },
                { "apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get"] },
            ])
        };
        let all = ["get", "list", "watch", "create", "patch", "delete"];
        let group = "rbac.authorization.k8s.io";
        make(&roles, json!({ "metadata": { "name": "poor" }, "rules": allowed(&all) })).await?;
        let binding = json!({
            "metadata": { "name": "poor" },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "poor" },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": "poor" }],
        });
        make(&bindings, binding).await?;
        let identity = pair.lower.authority().client("poor", &[])?;
        let kubeconfig = pair.lower.kubeconfig_for("poor", None, &User::Certificate(&identity))?;
        let link = Link::builder(&pair.upper, &pair.lower, "poor").lower_kubeconfig(&kubeconfig).start().await?;

        let may = async |verbs: &[&str]| {
            let patch = Patch::Merge(json!({ "rules": allowed(verbs) }));
            roles.patch("poor", &PatchParams::default(), &patch).await
        };
        pair.within("poor", async |above, below| {
            may(&["get", "list", "watch", "patch", "delete"]).await?;
            let denied = ["auth", "can-i", "create", "pods", "--as=poor", "--all-namespaces"];
            eventually(PATIENCE, "it may no longer create pods", async || {
                ensure!(pair.lower.kubectl(&denied).await.is_err(), "it still may");
                Ok(())
            })
            .await?;
            // It may keep no tokens either.
            let pod = with(link.pod("kept-out"), json!({ "spec": { "automountServiceAccountToken": false } }));
            above.create(&pod).await?;
            let words = "User \"poor\" cannot create resource \"pods\"";
            is_refused(above, below, "kept-out", "LowerForbidden", words).await?;
            may(&all).await?;
            runs_after_all(above, "kept-out").await
        })
        .await
    })
}

#[test]
fn a_refusal_keeps_the_time_it_began_and_is_not_written_again_and_again() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("patient", async |above, below| {
            above.create(&with(pair.link.pod("patient"), json!({ "spec": { "hostPID": true } }))).await?;
            is_refused(above, below, "patient", "HostNamespaceNotAllowed", "spec.hostPID").await?;
            let before = above.get("patient").await?;
            // Each try counts on the event: after some of them, only the first one has written to the pod.
            let tries = ["get", "events", "-o", "jsonpath={.items[*].series.count}", "-n", above.namespace()];
            eventually(PATIENCE + Duration::from_secs(30), "it is tried again", async || {
                let count = String::from_utf8(pair.upper.kubectl(&tries).await?.stdout)?;
                ensure!(count.split(' ').any(|count| count.parse().is_ok_and(|count: u32| count >= 3)), "{count}");
                Ok(())
            })
            .await?;
            let after = above.get("patient").await?;
            ensure!(condition(&before, ACCEPTED) == condition(&after, ACCEPTED), "{}", after["status"]);
            let requests = pair.upper.audit()?.requests;
            let writes = requests.iter().filter(|request| {
                let about = request.object_ref.as_ref();
                request.kind() == "patch pods/status" && about.is_some_and(|pod| pod.namespace == above.namespace())
            });
            let writes = writes.count();
            ensure!(writes == 1, "its status was written {writes} times");
            Ok(())
        })
        .await
    })
}
