// SPDX-License-Identifier: Apache-2.0
//! The certificate of the kubelet API, asked of the upper cluster: its API server verifies it, a human approves it, its
//! controller manager signs it for less than a minute.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use e2e::cluster::{Cluster, client_of};
use e2e::kubeconfig::{self, User, kubeconfig};
use e2e::link::Link;
use e2e::pods::{PATIENCE, Pods};
use e2e::wait::eventually;
use http::Request;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use tokio::sync::OnceCell;

/// How long what is signed holds.
const LIFE: Duration = Duration::from_secs(40);

struct Scene {
    upper: Cluster,
    lower: Cluster,
}

async fn scene() -> anyhow::Result<&'static Scene> {
    static SHARED: OnceCell<Scene> = OnceCell::const_new();
    SHARED
        .get_or_try_init(async || {
            let signing = format!("--cluster-signing-duration={}s", LIFE.as_secs());
            let (upper, lower) = tokio::try_join!(
                Cluster::builder("upper").controller_manager_args(&[&signing]).start(),
                Cluster::builder("lower").start()
            )?;
            Ok(Scene { upper, lower })
        })
        .await
}

impl Scene {
    /// A virtual node at an address where the API server reaches it, and a pod on it. (The lower cluster has no nodes:
    /// the log of the pod is empty.)
    async fn link(&self, name: &str) -> anyhow::Result<Link> {
        let link = Link::builder(&self.upper, &self.lower, name).node_ip("127.0.0.1").start().await?;
        let mut pod = link.pod(name);
        pod["spec"]["nodeName"] = json!(name);
        Pods::of(&self.upper, "default").create(&pod).await?;
        Ok(link)
    }

    /// Names of the requests for certificates of a node, oldest first, with whether they were decided.
    async fn requests(&self, node: &str) -> anyhow::Result<Vec<(String, bool)>> {
        let all: Api<CertificateSigningRequest> = Api::all(self.upper.client());
        let mut all = all.list(&ListParams::default()).await?.items;
        all.sort_by_key(|request| request.metadata.creation_timestamp.as_ref().map(|time| time.0));
        let of_node = all.into_iter().filter_map(|request| {
            let name = request.metadata.name.filter(|name| name.starts_with(&format!("{node}-")))?;
            let decided = request.status.and_then(|status| status.conditions).is_some_and(|all| !all.is_empty());
            Some((name, decided))
        });
        Ok(of_node.collect())
    }

    /// The one request of a node that nobody decided.
    async fn undecided(&self, node: &str) -> anyhow::Result<String> {
        eventually(PATIENCE, &format!("{node} asks for a certificate"), async || {
            let requests = self.requests(node).await?;
            let mut undecided = requests.iter().filter(|(_, decided)| !decided);
            match (undecided.next(), undecided.next()) {
                (Some((name, _)), None) => Ok(name.clone()),
                _ => bail!("the requests are {requests:?}"),
            }
        })
        .await
    }

    /// A kubeconfig that goes straight to the kubelet API, and trusts what the upper cluster signs.
    async fn direct(&self, link: &Link) -> anyhow::Result<PathBuf> {
        let node = link.until_ready().await?;
        let port = &node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"];
        let path = self.upper.folder().join("kubelet.kubeconfig");
        let ca = self.upper.authority().identity().certificate;
        let user = User::Certificate(self.upper.admin());
        let server = format!("https://127.0.0.1:{port}");
        kubeconfig::write(&path, &kubeconfig("kubelet", &server, Some(&ca), &user))?;
        Ok(path)
    }

    /// `kubectl logs` of the pod on the node, through the upper API server.
    async fn logs(&self, node: &str) -> anyhow::Result<()> {
        self.upper.kubectl(&["logs", node, "--namespace=default"]).await.map(drop)
    }
}

#[test]
fn the_api_server_refuses_the_node_until_its_certificate_is_approved_and_rotation_fails_no_request()
-> anyhow::Result<()> {
    e2e::run(async {
        let scene = scene().await?;
        let link = scene.link("asks").await?;
        let request = scene.undecided("asks").await?;
        eventually(PATIENCE, "the certificate of its own making is refused", async || {
            let refused = scene.logs("asks").await.err().context("the log was shown")?.to_string();
            ensure!(refused.contains("x509: certificate signed by unknown authority"), "{refused}");
            Ok(())
        })
        .await?;
        let kubeconfig = scene.direct(&link).await?;
        ensure!(reached(&kubeconfig).await.is_err(), "a stranger's certificate was verified");

        scene.upper.kubectl(&["certificate", "approve", &request]).await?;
        eventually(PATIENCE, "the issued certificate is shown", async || scene.logs("asks").await).await?;
        let runs_out = Instant::now() + LIFE;

        // From here on every request has to succeed, also when the first certificate has run out.
        let rotated = async {
            let request = scene.undecided("asks").await?;
            ensure!(Instant::now() < runs_out, "the next certificate is asked for when the first has run out");
            scene.upper.kubectl(&["certificate", "approve", &request]).await
        };
        let mut rotated = pin!(rotated);
        let mut approved = false;
        while !(approved && runs_out < Instant::now()) {
            let verified = async {
                reached(&kubeconfig).await?;
                scene.logs("asks").await
            };
            tokio::select! {
                result = verified => result.context("while the certificate was replaced")?,
                result = &mut rotated, if !approved => { result?; approved = true; }
            }
        }
        Ok(())
    })
}

/// A new connection to the kubelet API, whose certificate is verified.
async fn reached(kubeconfig: &Path) -> anyhow::Result<()> {
    let answer = client_of(kubeconfig).await?.request_text(Request::get("/healthz").body(Vec::new())?).await?;
    ensure!(answer == "ok", "{answer}");
    Ok(())
}

#[test]
fn a_denied_request_is_told_on_the_node_in_the_words_of_who_denied_it() -> anyhow::Result<()> {
    e2e::run(async {
        let scene = scene().await?;
        let link = scene.link("denied").await?;
        let request = scene.undecided("denied").await?;
        let denied = scene.upper.kubectl(&["certificate", "deny", &request]).await?;
        ensure!(denied.status.success());
        let node =
            ["get", "events", "--namespace=default", "--field-selector=involvedObject.name=denied", "--output=json"];
        eventually(PATIENCE, "the node tells", async || {
            let events = scene.upper.kubectl(&node).await?.stdout;
            let events: serde_json::Value = serde_json::from_slice(&events)?;
            let events = events["items"].as_array().context("no list")?;
            let told = events.iter().find(|event| event["reason"] == "CertificateRefused").context("no such event")?;
            let message = told["message"].as_str().unwrap_or_default();
            let expected = format!("CertificateSigningRequest {request}: was denied: KubectlDeny");
            ensure!(message.starts_with(&expected), "{message}");
            Ok(())
        })
        .await?;
        let log = std::fs::read_to_string(link.process().log())?;
        ensure!(log.contains("no serving certificate, asking again later") && log.contains(&request), "{log}");
        Ok(())
    })
}
