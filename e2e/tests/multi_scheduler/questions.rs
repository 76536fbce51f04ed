// SPDX-License-Identifier: Apache-2.0
//! What people and other services ask: why a pod may go where, and how many would fit.

use anyhow::ensure;
use e2e::kubeconfig::User;
use e2e::multi_scheduler::send;
use e2e::pods::PATIENCE;
use e2e::wait::eventually;
use http::Request;
use serde_json::{Value, json};

use crate::lab::{Lab, pod, stashed};

#[test]
fn a_user_with_the_right_is_told_where_and_why_and_one_without_is_not() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.lock().await;
        lab.within("questions", async |above| {
            let namespace = above.namespace();
            let account = |name: &str| {
                json!({ "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": { "name": name, "namespace": namespace } })
            };
            let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": { "name": format!("{namespace}-asks") },
                "rules": [{ "nonResourceURLs": ["/explain", "/fit"], "verbs": ["get", "post"] }] });
            let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": { "name": format!("{namespace}-asks") },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": format!("{namespace}-asks") },
                "subjects": [{ "kind": "ServiceAccount", "name": "may", "namespace": namespace }] });
            lab.upper.apply([&account("may"), &account("may-not"), &role, &binding], &[]).await?;
            let client = async |name: &str| {
                let token = lab.upper.kubectl(&["create", "token", name, "--namespace", namespace]).await?;
                let token = String::from_utf8(token.stdout)?;
                lab.multi.client(name, &User::Token(token.trim())).await
            };
            let (may, may_not) = (client("may").await?, client("may-not").await?);

            let picky = stashed(pod("picky", json!({ "cpu": "1" })), &json!({ "nodeSelector": { "disk": "tape" } }));
            above.create(&picky).await?;
            let path = format!("/explain?namespace={namespace}&pod=picky");
            let get = |path: &str| Request::get(path).body(Vec::new().into());
            let answer = eventually(PATIENCE, "the right counts", async || {
                let (status, answer) = send(&may, get(&path)?).await?;
                ensure!(status == 200, "{status} {answer}");
                Ok(answer)
            })
            .await?;
            let answer: Value = serde_json::from_str(&answer)?;
            ensure!(answer["pod"] == "picky" && answer["nodes"][0]["node"] == "east", "{answer}");
            ensure!(answer["nodes"][0]["fits"] == false, "{answer}");
            let reason = answer["nodes"][1]["reason"].as_str().unwrap_or_default();
            ensure!(reason.contains("matches its node selector"), "{answer}");
            let (status, told) = send(&may, get(&format!("/explain?namespace={namespace}&pod=absent"))?).await?;
            ensure!(status == 404, "{status} {told}");
            let (status, told) = send(&may_not, get(&path)?).await?;
            ensure!(status == 403 && told.contains("may-not may not get /explain"), "{status} {told}");

            let question = json!({ "pod": { "spec": pod("x", json!({ "cpu": "50m" }))["spec"] }, "most": 100 });
            let fit = |question: &Value| Request::post("/fit").body(question.to_string().into_bytes().into());
            let (status, answer) = send(&may, fit(&question)?).await?;
            let answer: Value = serde_json::from_str(&answer)?;
            let count = |at: usize| answer["nodes"][at]["replicas"].as_u64();
            ensure!(status == 200 && count(0) == Some(100), "two fit on each of 80 nodes, counted to 100: {answer}");
            ensure!(count(1) == Some(100), "80 fit on each of two: {answer}");
            let (status, told) = send(&may, fit(&json!({ "pods": 1 }))?).await?;
            ensure!(status == 400, "{status} {told}");
            above.delete("picky", Some(0)).await
        })
        .await
    })
}
