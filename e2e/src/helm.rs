// SPDX-License-Identifier: Apache-2.0
//! The real helm: what the charts of this repository render.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tensile_testkit::shipped::repository;
use tokio::process::Command;

use crate::binaries::{self, SUPPORTED};

/// The folder of a chart.
pub fn chart(name: &str) -> PathBuf {
    repository("charts").join(name)
}

/// Runs helm; an error shows what it wrote to standard error.
pub async fn helm(args: &[&str]) -> anyhow::Result<String> {
    let mut helm = Command::new(binaries::helm().await?);
    let output = helm.args(args).kill_on_drop(true).output().await.context("cannot run helm")?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!("helm {}: {}: {}", args.join(" "), output.status, told.trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The objects of release `release` of chart `name` with these values.
pub async fn template(name: &str, release: &str, namespace: &str, values: &Value) -> anyhow::Result<Vec<Value>> {
    let file = tempfile::NamedTempFile::new()?;
    // JSON is YAML.
    std::fs::write(file.path(), values.to_string())?;
    let (chart, file) = (chart(name), file.path().to_string_lossy().into_owned());
    let chart = chart.to_string_lossy();
    // Helm from its Go module knows no version of Kubernetes but a very old one.
    let args = ["template", release, &chart, "--namespace", namespace, "--values", &file];
    let rendered = helm(&[args.as_slice(), &["--kube-version", SUPPORTED[0]]].concat()).await?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&rendered).context("what helm rendered is not YAML")?;
    Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
}

/// The objects of one kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}
