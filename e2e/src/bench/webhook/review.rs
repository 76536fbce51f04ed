// SPDX-License-Identifier: Apache-2.0
//! The question that is asked: the creation of a pod such as users have.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

/// The body of an API server's request about a pod of `size` bytes.
pub(super) fn body(size: usize) -> anyhow::Result<Vec<u8>> {
    let of = |kind: Value| json!({ "group": "", "version": "v1", "kind": kind });
    let review = json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": of(json!("Pod")),
            "resource": { "group": "", "version": "v1", "resource": "pods" },
            "requestKind": of(json!("Pod")),
            "requestResource": { "group": "", "version": "v1", "resource": "pods" },
            "namespace": "shop",
            "operation": "CREATE",
            "userInfo": { "username": "system:serviceaccount:kube-system:replicaset-controller",
                "uid": "5d0f8d54-6393-11e8-b7cc-42010a800002",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"] },
            "object": pod(size)?,
            "oldObject": null,
            "dryRun": false,
            "options": { "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1" },
        },
    });
    Ok(serde_json::to_vec(&review)?)
}

/// A pod of a Deployment that wants a disk in one of two clusters, filled up with environment variables to `size` bytes.
fn pod(size: usize) -> anyhow::Result<Value> {
    let is = |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
    let terms = json!([
        { "matchExpressions": [is("clusterID", "east"), is("disk", "ssd")] },
        { "matchExpressions": [is("clusterID", "west"), is("disk", "nvme")] },
    ]);
    let tolerated =
        |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 });
    let probe =
        |path: &str| json!({ "httpGet": { "path": path, "port": 8080, "scheme": "HTTP" }, "periodSeconds": 10 });
    let mut pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "generateName": "web-6d4cf56db6-", "creationTimestamp": null,
            "labels": { "app": "web", "pod-template-hash": "6d4cf56db6", "virtual-pod": "true" },
            "annotations": { "prometheus.io/scrape": "true", "prometheus.io/port": "8080" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6d4cf56db6",
                "uid": "b06e10d2-6392-11e8-b7cc-42010a800002", "controller": true, "blockOwnerDeletion": true }],
        },
        "spec": {
            "volumes": [{ "name": "config", "configMap": { "name": "web", "defaultMode": 420 } }],
            "containers": [{
                "name": "main", "image": "example.org/shop/web:1.2.3", "imagePullPolicy": "IfNotPresent",
                "resources": { "requests": { "cpu": "500m", "memory": "256Mi" }, "limits": { "memory": "512Mi" } },
                "livenessProbe": probe("/healthz"), "readinessProbe": probe("/readyz"),
                "volumeMounts": [{ "name": "config", "mountPath": "/etc/web", "readOnly": true }],
                "env": [],
            }],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default", "serviceAccount": "default", "securityContext": {},
            "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": true,
            "nodeSelector": { "kubernetes.io/os": "linux" },
            "affinity": { "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
            } },
            "tolerations": [tolerated("node.kubernetes.io/not-ready"), tolerated("node.kubernetes.io/unreachable")],
        },
        "status": {},
    });
    for number in 0.. {
        let missing = size.saturating_sub(pod.to_string().len());
        if missing < 100 {
            break;
        }
        let env = pod["spec"]["containers"][0]["env"].as_array_mut().context("no list")?;
        env.push(json!({ "name": format!("SETTING_{number}"), "value": format!("value-{number}-of-some-length") }));
    }
    Ok(pod)
}

/// Whether the answer is what such a pod must get: allowed, with a patch.
pub(super) fn check(answer: &[u8]) -> anyhow::Result<()> {
    let answer: Value = serde_json::from_slice(answer)?;
    let response = &answer["response"];
    ensure!(response["allowed"] == true && response["patch"].is_string(), "the webhook answers {answer}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_is_as_large_as_asked_for() {
        let size = pod(6 << 10).unwrap().to_string().len();
        assert!((6000..=6144).contains(&size), "{size}");
    }
}
