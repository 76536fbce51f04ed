// SPDX-License-Identifier: Apache-2.0
//! What is sent to the extender's port by whom, and what comes back.

use anyhow::ensure;
use e2e::kubeconfig::User;
use e2e::multi_scheduler::send;
use e2e::pki::Authority;
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};

use crate::lab::{Lab, pod, shown};

fn post(path: &str, body: impl Into<Vec<u8>>) -> anyhow::Result<Request<Body>> {
    Ok(Request::post(path).header("Content-Type", "application/json").body(body.into().into())?)
}

#[test]
fn names_are_never_invented_and_nodes_of_others_are_not_touched() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let _peace = lab.peace.lock().await;
        let scheduler = lab.multi.as_scheduler().await?;
        let large = shown(pod("p", json!({ "cpu": "3" })), "default");
        let names = json!({ "Pod": large, "Nodes": null, "NodeNames": ["east", "other", "west"] });
        let (status, answer) = send(&scheduler, post("/v1/filter", names.to_string())?).await?;
        let answer: Value = serde_json::from_str(&answer)?;
        ensure!(status == 200 && answer["NodeNames"] == json!(["other", "west"]), "{answer}");
        ensure!(answer["Nodes"].is_null() && answer["Error"] == "" && answer["FailedNodes"] == json!({}), "{answer}");
        let told = answer["FailedAndUnresolvableNodes"]["east"].as_str().unwrap_or_default();
        ensure!(told.contains("none of 80 nodes"), "{told}");

        let node = |name: &str| json!({ "metadata": { "name": name }, "status": { "kept": true } });
        let whole = json!({ "Pod": large, "Nodes": { "items": [node("east"), node("other"), node("west")] }, "NodeNames": null });
        let (_, answer) = send(&scheduler, post("/v1/filter", whole.to_string())?).await?;
        let answer: Value = serde_json::from_str(&answer)?;
        ensure!(answer["Nodes"]["items"] == json!([node("other"), node("west")]), "{answer}");
        ensure!(answer["NodeNames"].is_null(), "{answer}");

        let (_, answer) = send(&scheduler, post("/v1/prioritize", names.to_string())?).await?;
        let scores: Value = serde_json::from_str(&answer)?;
        let of = |at: usize| (scores[at]["Host"].as_str().unwrap_or_default(), scores[at]["Score"].as_u64());
        ensure!(of(0) == ("east", Some(0)) && of(1) == ("other", Some(0)), "{scores}");
        ensure!(of(2).0 == "west" && of(2).1.is_some_and(|score| (1..=10).contains(&score)), "{scores}");
        lab.forget_shown().await
    })
}

#[test]
fn what_is_no_question_is_refused_and_the_next_one_is_answered() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let scheduler = lab.multi.as_scheduler().await?;
        for (body, status, words) in [
            (Vec::new(), 400, "no ExtenderArgs"),
            (br#"{"Pod":{"spec":{"#.to_vec(), 400, "no ExtenderArgs"),
            (b"\xff\xfe".to_vec(), 400, "no ExtenderArgs"),
            (br#"{"NodeNames":["west"]}"#.to_vec(), 400, "has no Pod"),
            (br#"{"Pod":{}}"#.to_vec(), 400, "neither NodeNames nor Nodes"),
            (vec![b'['; 1 << 20], 400, "no ExtenderArgs"),
            (vec![b' '; (32 << 20) + 1], 413, "longer than"),
        ] {
            let (answered, told) = send(&scheduler, post("/v1/filter", body)?).await?;
            ensure!(answered == status && told.contains(words), "{answered} {told}");
        }
        // Contradictions and nonsense fit nowhere, and say so.
        for (broken, words) in [
            (json!({}), ""),
            (json!({ "spec": 3 }), ""),
            (
                json!({ "metadata": { "uid": "u", "name": "p", "namespace": "n" }, "spec": { "containers": "many" } }),
                "",
            ),
            (
                json!({ "metadata": { "uid": "u", "name": "p", "namespace": "n",
                "annotations": { "clusterSelector": "{" } }, "spec": { "containers": [] } }),
                "clusterSelector",
            ),
        ] {
            let body = json!({ "Pod": broken, "NodeNames": ["west", "other"] }).to_string();
            let (status, answer) = send(&scheduler, post("/v1/filter", body)?).await?;
            let told = answer.contains(r#""NodeNames":["other"]"#) && answer.contains(words);
            ensure!(status == 200 && told, "{broken}: {status} {answer}");
        }
        lab.multi.until_ready().await
    })
}

#[test]
fn who_has_no_certificate_of_the_client_ca_is_not_answered() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        let body = json!({ "Pod": pod("p", json!({ "cpu": "1" })), "NodeNames": ["west"] }).to_string();
        let nobody = lab.multi.client("nobody", &User::Anonymous).await?;
        for path in ["/v1/filter", "/v1/prioritize", "/fit"] {
            let (status, told) = send(&nobody, post(path, body.clone())?).await?;
            ensure!(status == 401 && told.contains("certificate"), "{status} {told}");
        }
        let token = lab.multi.client("token", &User::Token("made-up")).await?;
        let (status, told) = send(&token, post("/v1/filter", body.clone())?).await?;
        ensure!(status == 401, "a token is for people: {status} {told}");
        let stranger = Authority::new("stranger")?.client("scheduler", &[])?;
        let stranger = lab.multi.client("stranger", &User::Certificate(&stranger)).await?;
        ensure!(send(&stranger, post("/v1/filter", body)?).await.is_err(), "a stranger's handshake went through");
        Ok(())
    })
}
