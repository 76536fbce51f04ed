// SPDX-License-Identifier: Apache-2.0
//! A release of a chart in a cluster, by the real helm.

use std::fs;

use anyhow::Context as _;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::helm::{chart, helm};

/// Pods of a release are ready within this time; helm's own notation.
pub const PATIENCE: &str = "--timeout=4m";

/// A release, installed or not.
pub struct Release<'a> {
    cluster: &'a Cluster,
    /// Its name.
    pub name: &'a str,
    chart: &'a str,
    namespace: &'a str,
}

impl<'a> Release<'a> {
    /// The release `name` of chart `chart` in a namespace of `cluster`.
    pub fn new(cluster: &'a Cluster, name: &'a str, chart: &'a str, namespace: &'a str) -> Self {
        Self { cluster, name, chart, namespace }
    }

    /// `helm install`, until all of it is ready. Returns what helm says: the notes of the chart.
    pub async fn install(&self, values: &Value) -> anyhow::Result<String> {
        self.with_chart("install", values).await
    }

    /// `helm upgrade`, until all of it is ready.
    pub async fn upgrade(&self, values: &Value) -> anyhow::Result<()> {
        self.with_chart("upgrade", values).await.map(drop)
    }

    /// `helm rollback` to the revision before, until all of it is ready.
    pub async fn roll_back(&self) -> anyhow::Result<()> {
        self.helm(&["rollback", self.name, "--wait", PATIENCE]).await.map(drop)
    }

    /// `helm uninstall`, until all that helm made is gone.
    pub async fn uninstall(&self) -> anyhow::Result<()> {
        self.helm(&["uninstall", self.name, "--wait", "--cascade=foreground", PATIENCE]).await.map(drop)
    }

    async fn with_chart(&self, verb: &str, values: &Value) -> anyhow::Result<String> {
        let file = tempfile::NamedTempFile::new()?;
        // JSON is YAML.
        fs::write(file.path(), values.to_string())?;
        let (chart, file) = (chart(self.chart), file.path().to_string_lossy().into_owned());
        self.helm(&[verb, self.name, &chart.to_string_lossy(), "--values", &file, "--wait", PATIENCE]).await
    }

    async fn helm(&self, args: &[&str]) -> anyhow::Result<String> {
        let kubeconfig = self.cluster.kubeconfig().to_string_lossy().into_owned();
        self.explained(helm(&[args, &["--kubeconfig", &kubeconfig, "--namespace", self.namespace]].concat()).await)
            .await
    }

    /// What helm did; an error with what the pods say: helm says no more than that time is over.
    pub async fn explained(&self, done: anyhow::Result<String>) -> anyhow::Result<String> {
        match done {
            Ok(told) => Ok(told),
            Err(error) => Err(error).with_context(|| format!("release {}", self.name)).context(self.pods().await),
        }
    }

    /// What pods and their logs say, for people.
    async fn pods(&self) -> String {
        let of_it = format!("--selector=app.kubernetes.io/instance={}", self.name);
        let mut told = String::new();
        for what in [["describe", "pods"].as_slice(), ["logs", "--tail=20", "--all-containers", "--prefix"].as_slice()]
        {
            let args = [what, ["--namespace", self.namespace, of_it.as_str()].as_slice()].concat();
            match self.cluster.kubectl(&args).await {
                Ok(output) => told += &String::from_utf8_lossy(&output.stdout),
                Err(error) => told += &error.to_string(),
            }
        }
        told
    }
}
