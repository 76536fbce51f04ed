//! A real Prometheus that scrapes the kubelet of a real node.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;
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
        let started = async {
            let (program, port, folder) = (binaries::prometheus().await?, Port::reserve()?, cluster.folder());
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
