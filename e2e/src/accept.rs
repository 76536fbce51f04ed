// SPDX-License-Identifier: Apache-2.0
//! The test command: builds everything, runs every test of the workspace, and adds up.

#![allow(clippy::print_stdout, reason = "what tests print is shown, and the sum is the last line")]

mod tally;

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::binaries::{self, SUPPORTED};
use crate::cargo;
use tally::Tally;

/// The Kubernetes versions that tests use: the newest and the oldest supported.
const VERSIONS: [&str; 2] = [SUPPORTED[0], SUPPORTED[SUPPORTED.len() - 1]];

/// A test binary that cargo built.
#[derive(Debug)]
struct Suite {
    name: String,
    executable: PathBuf,
    /// Where cargo would run it.
    folder: PathBuf,
    /// Starts clusters: runs last, when what is cheaper to know is known.
    on_clusters: bool,
}

/// Runs all tests; the exit code says whether all passed.
pub(crate) async fn run() -> anyhow::Result<ExitCode> {
    let build = async {
        cargo::build_services().await?;
        build_tests().await
    };
    let binaries = async {
        binaries::everything(&VERSIONS).await?;
        binaries::for_tests(&VERSIONS).await
    };
    let (mut suites, ()) = tokio::try_join!(build, binaries)?;
    suites.sort_by_key(|suite| suite.on_clusters);

    let mut tally = Tally::default();
    for suite in suites.iter().filter(|suite| !suite.on_clusters) {
        tally.add(run_suite(suite).await?);
    }
    let mut documentation = cargo::command("test");
    documentation.args(["--workspace", "--doc"]);
    tally.add(watched("documentation", documentation).await?);
    // One after another: each starts clusters of its own, which need all cores.
    for suite in suites.iter().filter(|suite| suite.on_clusters) {
        tally.add(run_suite(suite).await?);
    }

    println!("\n{}", tally.report());
    Ok(if tally.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn build_tests() -> anyhow::Result<Vec<Suite>> {
    let mut build = cargo::command("test");
    // Progress and errors go to the terminal, the list of what was built comes here.
    build.args(["--workspace", "--no-run", "--message-format=json-render-diagnostics"]).stdout(Stdio::piped());
    let output = build.spawn().context("cannot start cargo")?.wait_with_output().await?;
    ensure!(output.status.success(), "the tests do not build");
    suites(&String::from_utf8(output.stdout)?)
}

/// What cargo says of each thing it built.
#[derive(Deserialize)]
struct Artifact {
    #[serde(default)]
    executable: Option<PathBuf>,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    profile: Profile,
    #[serde(default)]
    target: Target,
}

#[derive(Deserialize, Default)]
struct Profile {
    test: bool,
}

#[derive(Deserialize, Default)]
struct Target {
    name: String,
    kind: Vec<String>,
}

fn suites(messages: &str) -> anyhow::Result<Vec<Suite>> {
    let mut suites = Vec::new();
    for line in messages.lines() {
        let artifact: Artifact = serde_json::from_str(line).context("cargo's messages")?;
        let Some(executable) = artifact.executable.filter(|_| artifact.profile.test) else { continue };
        let folder = artifact.manifest_path.parent().unwrap_or(Path::new(".")).to_owned();
        let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let integration = artifact.target.kind.iter().any(|kind| kind == "test");
        let name = if integration { format!("{package}/tests/{}", artifact.target.name) } else { package.clone() };
        suites.push(Suite { name, executable, folder, on_clusters: integration && package == env!("CARGO_PKG_NAME") });
    }
    Ok(suites)
}

async fn run_suite(suite: &Suite) -> anyhow::Result<Tally> {
    let mut command = Command::new(&suite.executable);
    // Also what passing tests printed: why one was skipped.
    command.arg("--show-output").current_dir(&suite.folder).env("CARGO_MANIFEST_DIR", &suite.folder);
    watched(&suite.name, command).await
}

/// Runs tests, shows what they print, and counts.
async fn watched(name: &str, mut command: Command) -> anyhow::Result<Tally> {
    println!("\n=== {name}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let mut tally = Tally::of(name);
    while let Some(line) = lines.next_line().await? {
        println!("{line}");
        tally.read(&line);
    }
    tally.ended(child.wait().await?);
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_the_executables_that_are_tests() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"name":"a","kind":["lib"]},"profile":{"test":true},"executable":"/t/a-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"name":"a","kind":["bin"]},"profile":{"test":false},"executable":"/t/a"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/e2e/Cargo.toml","target":{"name":"pods","kind":["test"]},"profile":{"test":true},"executable":"/t/pods-1"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#
        );
        let found = suites(messages).unwrap();
        let found: Vec<(&str, bool)> = found.iter().map(|suite| (suite.name.as_str(), suite.on_clusters)).collect();
        assert_eq!(found, [("a", false), ("e2e/tests/pods", true)]);
    }
}
