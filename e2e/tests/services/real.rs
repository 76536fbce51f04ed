// SPDX-License-Identifier: Apache-2.0
//! A real container that reaches a Service by its name.

use std::time::Duration;

use anyhow::ensure;
use e2e::cluster::Cluster;
use e2e::dns::Dns;
use e2e::link::Link;
use e2e::namespace;
use e2e::pods::{Pods, with};
use e2e::real_node::{self, AGNHOST, RealNode};
use e2e::wait::eventually;
use serde_json::{Value, json};

use crate::{addresses, labelled, services};

const MINUTE: Duration = Duration::from_secs(60);

/// A pod that says its own name over HTTP.
fn server(link: &Link, name: &str) -> Value {
    let container = json!({ "name": "main", "image": AGNHOST, "args": ["serve-hostname", "--port=8080"] });
    labelled(with(plain(link, name), json!({ "spec": { "containers": [container] } })))
}

/// A pod that asks for names, over HTTP, when it is told to. With Go's resolver: a static busybox has none.
fn client(link: &Link, name: &str) -> Value {
    let container = json!({ "name": "main", "image": AGNHOST, "args": ["netexec"] });
    with(plain(link, name), json!({ "spec": { "containers": [container] } }))
}

fn plain(link: &Link, name: &str) -> Value {
    let pod = with(link.pod(name), real_node::pod(name, "exec sleep 1000000"));
    with(pod, json!({ "spec": { "automountServiceAccountToken": false } }))
}

/// The names of the upper cluster by its DNS, and those of the lower one, where the copy of the Service is.
#[test]
fn a_container_reaches_a_service_by_its_name_in_either_clusters_dns() -> anyhow::Result<()> {
    if !real_node::can_run() {
        return Ok(());
    }
    e2e::run(async {
        let (upper, (node, lower)) = tokio::try_join!(Cluster::builder("upper").start(), async {
            let lower = Cluster::builder("lower").start().await?;
            let node = RealNode::start(&lower, "real").await?;
            anyhow::Ok((node, lower))
        })?;
        let dns = format!("--cluster-dns={}", node.address());
        let builder = |name| Link::builder(&upper, &lower, name).node_ip(&node.address().to_string()).certified();
        let above_dns = builder("above-dns")?.args(&[&dns, "--cluster-domain=up.local"]).start().await?;
        let below_dns = builder("below-dns")?.args(&["--namespace-mapping=prefix:acme"]).start().await?;
        namespace::make("team", &upper).await?;
        let pods = Pods::of(&upper, "team");
        let headless =
            json!({ "spec": { "clusterIP": "None", "selector": { "app": "web" }, "ports": [{ "port": 8080 }] } });
        services(&upper, "team").create("web", headless).await?;
        pods.create(&server(&above_dns, "web-0")).await?;
        pods.until_ready("web-0").await?;

        // A client that knows nothing but a name, in a pod that says nothing of DNS.
        pods.create(&client(&above_dns, "client")).await?;
        pods.until_ready("client").await?;
        let serves = Dns::start(&upper, "up.local", node.address()).await?;
        reaches(&upper, "client", "web").await?;
        reaches(&upper, "client", "web.team").await?;
        drop(serves);

        // Through the lower cluster's DNS: the Service is there under its own name, in the pod's namespace there.
        let search = json!({ "nameservers": [node.address()], "searches": ["acme-team.svc.low.local"] });
        let own = json!({ "spec": { "dnsPolicy": "None", "dnsConfig": search } });
        pods.create(&with(client(&below_dns, "other-client"), own)).await?;
        pods.until_ready("other-client").await?;
        let shown = pods.get("web-0").await?["status"]["podIP"].as_str().unwrap_or_default().to_owned();
        eventually(MINUTE, "the Service is below with the endpoints of all clusters", async || {
            let found = addresses(&lower, "acme-team", "web").await?;
            ensure!(found == [shown.clone()], "{found:?}");
            Ok(())
        })
        .await?;
        let _serves = Dns::start(&lower, "low.local", node.address()).await?;
        reaches(&upper, "other-client", "web").await
    })
}

/// The container gets the server's name for an answer.
async fn reaches(upper: &Cluster, client: &str, service: &str) -> anyhow::Result<()> {
    let ask = format!(
        "/api/v1/namespaces/team/pods/{client}:8080/proxy/dial?host={service}&port=8080&protocol=http&request=hostname"
    );
    eventually(MINUTE, &format!("{client} reaches {service}"), async || {
        let answer = String::from_utf8(upper.kubectl(&["get", "--raw", &ask]).await?.stdout)?;
        let answer: Value = serde_json::from_str(&answer)?;
        ensure!(answer == json!({ "responses": ["web-0"] }), "{answer}");
        Ok(())
    })
    .await
}
