// SPDX-License-Identifier: Apache-2.0
//! Real containers of two tenants: each reads and runs in its own.

use anyhow::ensure;
use e2e::cluster::Cluster;
use e2e::link::Link;
use e2e::namespace;
use e2e::pods::{Pods, with};
use e2e::real_node::{self, RealNode};
use serde_json::json;

/// What kubectl prints.
async fn kubectl(cluster: &Cluster, args: &[&str]) -> anyhow::Result<String> {
    let output = cluster.kubectl(&[&["--namespace=team"], args].concat()).await?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[test]
fn logs_and_commands_reach_the_tenants_own_container_wherever_it_is() -> anyhow::Result<()> {
    if !real_node::can_run() {
        return Ok(());
    }
    e2e::run(async {
        let lower = async {
            let lower = Cluster::builder("lower").start().await?;
            let node = RealNode::start(&lower, "real").await?;
            anyhow::Ok((node, lower))
        };
        let (one, two) = (Cluster::builder("upper-a").start(), Cluster::builder("upper-b").start());
        let (one, two, (node, lower)) = tokio::try_join!(one, two, lower)?;
        tokio::try_join!(namespace::make("team", &one), namespace::make("team", &two))?;
        for (name, mapping) in [("by-prefix", "prefix"), ("in-one", "single:in-one")] {
            let mut links = Vec::new();
            for upper in [&one, &two] {
                let link = Link::builder(upper, &lower, name).node_ip(&node.address().to_string()).certified()?;
                links.push(link.args(&[&format!("--namespace-mapping={mapping}")]).start().await?);
            }
            for (upper, link) in [&one, &two].into_iter().zip(&links) {
                let script = format!("echo of {}; exec sleep 1000000", upper.name());
                let pod = with(link.pod(name), real_node::pod(name, &script));
                let field = |field: &str| json!({ "fieldRef": { "fieldPath": field } });
                let env = json!([
                    { "name": "NAMESPACE", "valueFrom": field("metadata.namespace") },
                    { "name": "POD", "valueFrom": field("metadata.name") },
                ]);
                let mut pod = with(pod, json!({ "spec": { "automountServiceAccountToken": false } }));
                pod["spec"]["containers"][0]["env"] = env;
                Pods::of(upper, "team").create(&pod).await?;
            }
            for upper in [&one, &two] {
                Pods::of(upper, "team").until_ready(name).await?;
                let whose = format!("of {}", upper.name());
                ensure!(kubectl(upper, &["logs", name]).await? == whose, "the log is another one's");
                let told = kubectl(upper, &["exec", name, "--", "sh", "-c", "hostname; echo $NAMESPACE $POD"]).await?;
                ensure!(told == format!("{name}\nteam {name}"), "{told}");
            }
            for upper in [&one, &two] {
                Pods::of(upper, "team").delete(name, Some(0)).await?;
                Pods::of(upper, "team").until_gone(name).await?;
            }
        }
        drop(node);
        Ok(())
    })
}
