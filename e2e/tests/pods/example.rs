// SPDX-License-Identifier: Apache-2.0
//! The example provider of the library, against a real API server: what the library promises, whatever is behind it.

use std::process::Stdio;

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::pods::{PATIENCE, uid};
use e2e::process::Process;
use e2e::service;
use e2e::wait::eventually;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use super::pair;

/// The provider as node `name`, until its node is ready.
async fn provider(upper: &Cluster, name: &str) -> anyhow::Result<Process> {
    let launch = service::launch("examples/memory", name, upper.folder())?;
    let provider = launch.env("KUBECONFIG", upper.kubeconfig()).arg(name).start()?;
    let nodes: Api<Node> = Api::all(upper.client());
    eventually(PATIENCE, "its node is ready", async || {
        let conditions = nodes.get(name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        ensure!(conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"), "{conditions:?}");
        Ok(())
    })
    .await?;
    Ok(provider)
}

fn pod(node: &str, name: &str, annotations: &Value) -> Value {
    json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": "example.org/app:1" }],
        },
    })
}

#[test]
fn the_example_provider_runs_finishes_and_ends_pods_and_loses_those_it_forgets() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let mut provider = provider(&pair.upper, "memory").await?;
        pair.within("example", async |above, _| {
            for name in ["runs", "deleted"] {
                above.create(&pod("memory", name, &json!({}))).await?;
                above.until_ready(name).await?;
            }
            above.create(&pod("memory", "finishes", &json!({ "example/finish": "Succeeded" }))).await?;
            let finished = above.until_phase("finishes", "Succeeded").await?;
            above.delete("deleted", None).await?;
            above.until_gone("deleted").await?;

            // It remembers nothing: what ran is lost and must not run again, what finished has finished.
            let runs = above.get("runs").await?;
            provider.restart()?;
            let lost = above.until_phase("runs", "Failed").await?;
            ensure!(uid(&lost) == uid(&runs) && lost["status"]["reason"] == "PodLost", "{}", lost["status"]);
            above.create(&pod("memory", "afterwards", &json!({}))).await?;
            above.until_ready("afterwards").await?;
            let after = above.get("finishes").await?;
            ensure!(after["status"] == finished["status"], "{} became {}", finished["status"], after["status"]);
            Ok(())
        })
        .await
    })
}

/// Runs kubectl with `stdin`; its exit code and what it wrote to standard output.
async fn kubectl(upper: &Cluster, args: &[&str], stdin: &str) -> anyhow::Result<(Option<i32>, String, String)> {
    let mut kubectl = Command::new(upper.kubectl_path());
    kubectl.arg("--kubeconfig").arg(upper.kubeconfig()).args(args).kill_on_drop(true);
    let mut kubectl = kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut to = kubectl.stdin.take().context("no standard input")?;
    to.write_all(stdin.as_bytes()).await?;
    drop(to);
    let output = kubectl.wait_with_output().await?;
    let text = |bytes| String::from_utf8(bytes).map_err(anyhow::Error::from);
    Ok((output.status.code(), text(output.stdout)?, text(output.stderr)?))
}

/// The API server relays WebSocket to the node, which declares that it speaks it; and it verifies the node's certificate.
#[test]
fn the_example_provider_serves_logs_exec_and_ports_to_real_clients() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let _provider = provider(&pair.upper, "streams").await?;
        let requests: Api<CertificateSigningRequest> = Api::all(pair.upper.client());
        let request = eventually(PATIENCE, "it asks for a certificate", async || {
            let all = requests.list(&ListParams::default()).await?.items;
            let mut names = all.into_iter().filter_map(|request| request.metadata.name);
            names.find(|name| name.starts_with("streams-")).context("it has not yet")
        });
        pair.upper.kubectl(&["certificate", "approve", &request.await?]).await?;
        pair.within("example-streams", async |above, _| {
            let created = above.create(&pod("streams", "web", &json!({}))).await?;
            above.until_ready("web").await?;
            let namespace = format!("--namespace={}", above.namespace());
            let run = async |args: &[&str], stdin: &str| kubectl(&pair.upper, args, stdin).await;

            let line = format!("main of {}/web ({}) is in memory\n", above.namespace(), uid(&created));
            eventually(PATIENCE, "kubectl shows the log", async || {
                let (code, log, trouble) = run(&["logs", "web", &namespace], "").await?;
                ensure!((code, &log) == (Some(0), &line), "{code:?} {log:?} {trouble}");
                Ok(())
            })
            .await?;
            let none = run(&["logs", "web", &namespace, "--tail=0"], "").await?;
            ensure!(none.0 == Some(0) && none.1.is_empty(), "{none:?}");

            let long = (0..50_000).map(|number| number.to_string()).collect::<Vec<_>>().join("\n");
            for (given, command, expected) in [
                ("", &["echo", "a  b", "c"][..], (Some(0), "a  b c\n")),
                ("to memory and back\n", &["cat"], (Some(0), "to memory and back\n")),
                (&long, &["cat"], (Some(0), &long)),
                ("", &["exit", "3"], (Some(3), "")),
            ] {
                let exec = ["exec", "-i", "web", &namespace, "--"];
                let (code, output, trouble) = run(&[&exec[..], command].concat(), given).await?;
                ensure!((code, output.as_str()) == expected, "{command:?}: {code:?} {} bytes {trouble}", output.len());
            }
            let (code, _, told) = run(&["exec", "web", &namespace, "--", "sh"], "").await?;
            ensure!(code != Some(0) && told.contains("the commands here are echo, cat and exit"), "{told}");
            let (_, _, told) = run(&["exec", "web", &namespace, "--container=other", "--", "cat"], "").await?;
            ensure!(told.contains("container other is not valid for pod web"), "{told}");

            let pods: Api<Pod> = Api::namespaced(pair.upper.client(), above.namespace());
            let mut ports = pods.portforward("web", &[80, 443]).await?;
            for port in [443, 80] {
                let mut stream = ports.take_stream(port).context("no such port")?;
                stream.write_all(format!("to {port}").as_bytes()).await?;
                let mut back = vec![0; format!("to {port}").len()];
                stream.read_exact(&mut back).await?;
                ensure!(back == format!("to {port}").into_bytes(), "{back:?} from {port}");
            }
            // kubectl tunnels SPDY, which is not spoken: it says so and ends.
            let (code, _, told) = run(&["port-forward", "web", &namespace, ":80"], "").await?;
            ensure!(code != Some(0) && told.contains("does not support SPDY"), "{told}");
            Ok(())
        })
        .await
    })
}
