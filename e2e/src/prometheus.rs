// SPDX-License-Identifier: Apache-2.0
//! A real Prometheus: it scrapes the kubelet of a real node, or whatever a test names.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::binaries;
use crate::cluster::Cluster;
use crate::port::Port;
use crate::process::{Launch, Process};
use crate::real_node::{self, RealNode};

/// It has read its configuration and opened its store within this time.
const READY: Duration = Duration::from_secs(30);

/// A running Prometheus. It ends on drop.
pub struct Prometheus {
    _process: Process,
    port: Port,
}

impl Prometheus {
    /// Starts one that scrapes what cAdvisor tells of the containers of `node`, as the administrator of `cluster`.
    pub async fn start(cluster: &Cluster, node: &RealNode) -> anyhow::Result<Self> {
        let folder = cluster.folder();
        cluster.admin().write(folder, "prometheus")?;
        fs::write(folder.join("prometheus-ca.crt"), cluster.authority().identity().certificate)?;
        let config = json!({
            "global": { "scrape_interval": "2s" },
            "scrape_configs": [{
                "job_name": "kubelet",
                "scheme": "https",
                "metrics_path": "/metrics/cadvisor",
                "static_configs": [{ "targets": [format!("{}:{}", node.address(), real_node::PORT)] }],
                "tls_config": {
                    "ca_file": folder.join("prometheus-ca.crt"),
                    "cert_file": folder.join("prometheus.crt"),
                    "key_file": folder.join("prometheus.key"),
                },
            }],
        });
        Self::configured(cluster, &config).await
    }

    /// Starts one with this configuration; its files are with those of `cluster`.
    pub async fn configured(cluster: &Cluster, config: &Value) -> anyhow::Result<Self> {
        let started = async {
            let (program, port, folder) = (binaries::prometheus().await?, Port::reserve()?, cluster.folder());
            // YAML knows all of JSON.
            fs::write(folder.join("prometheus.yaml"), config.to_string())?;
            let process = Launch::new("prometheus", program, folder.join("prometheus.log"))
                .arg(format!("--config.file={}", folder.join("prometheus.yaml").display()))
                .arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()))
                .arg(format!("--web.listen-address=127.0.0.1:{}", port.number()))
                .start()?;
            let prometheus = Self { _process: process, port };
            cluster.eventually(READY, "Prometheus is ready", async || prometheus.ready().await).await?;
            anyhow::Ok(prometheus)
        };
        started.await.with_context(|| format!("cannot start a Prometheus of {}", cluster.name()))
    }

    /// What an instant query returns.
    pub async fn query(&self, query: &str) -> anyhow::Result<Vec<Value>> {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("query", query).finish();
        let mut answer = self.get(&format!("/api/v1/query?{query}")).await?;
        serde_json::from_value(answer["data"]["result"].take()).with_context(|| format!("{query}: {answer}"))
    }

    /// The rules, as it has evaluated them.
    pub async fn rules(&self) -> anyhow::Result<Vec<Value>> {
        let answer = self.get("/api/v1/rules").await?;
        let groups = answer["data"]["groups"].as_array().cloned().unwrap_or_default();
        Ok(groups.into_iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect())
    }

    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let client = Client::try_from(Config::new(self.url().parse()?))?;
        Ok(client.request(Request::get(path).body(Vec::new())?).await?)
    }

    /// Where it answers queries.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    async fn ready(&self) -> anyhow::Result<()> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port.number())).await?;
        connection.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        ensure!(answer.split(' ').nth(1) == Some("200"), "{answer}");
        Ok(())
    }
}
