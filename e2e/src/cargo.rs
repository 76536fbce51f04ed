//! Cargo, to build what a command is about to run.

use std::env;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use tokio::process::Command;

/// Cargo in the workspace, in the profile that this program was built in.
pub(crate) fn command(subcommand: &str) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(workspace()).arg(subcommand).arg("--locked").stdin(Stdio::null()).kill_on_drop(true);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command
}

/// Builds the services, so that they lie beside this program.
pub(crate) async fn build_services() -> anyhow::Result<()> {
    // Without this very program: it runs.
    build(&["--workspace", "--exclude", "e2e"]).await
}

/// Builds one service, so that it lies beside this program.
pub(crate) async fn build_service(package: &str) -> anyhow::Result<()> {
    build(&["--package", package]).await
}

/// Builds a service as one static file, and says where it is. It is linked anew, from what is compiled already: the flag
/// reaches nothing but its last step.
pub(crate) async fn build_static(package: &str) -> anyhow::Result<PathBuf> {
    let mut rustc = command("rustc");
    rustc.args(["--package", package, "--bin", package, "--message-format=json-render-diagnostics", "--"]);
    rustc.args(["-C", "target-feature=+crt-static", "-C", "strip=symbols"]).stdout(Stdio::piped());
    let output = rustc.spawn().context("cannot start cargo")?.wait_with_output().await?;
    ensure!(output.status.success(), "cargo rustc: {}", output.status);
    let messages = String::from_utf8(output.stdout)?;
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_it = message["target"]["name"] == package;
        message["executable"].as_str().filter(|_| is_it).map(PathBuf::from)
    });
    executables.next_back().with_context(|| format!("cargo made no {package}"))
}

/// Runs an example, which prints what it finds; builds it first.
pub(crate) async fn run_example(package: &str, example: &str) -> anyhow::Result<()> {
    let status = command("run").args(["--quiet", "--package", package, "--example", example]).status().await;
    let status = status.context("cannot start cargo")?;
    ensure!(status.success(), "example {example}: {status}");
    Ok(())
}

async fn build(packages: &[&str]) -> anyhow::Result<()> {
    let status = command("build").args(packages).arg("--bins").status().await;
    let status = status.context("cannot start cargo")?;
    ensure!(status.success(), "cargo build: {status}");
    Ok(())
}

fn workspace() -> PathBuf {
    // Where this crate was compiled: the commands are run by cargo, from a checkout.
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}
