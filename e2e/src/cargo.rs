// SPDX-License-Identifier: Apache-2.0
//! Cargo, to build what a command is about to run.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail, ensure};
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

/// Builds the services as static files, and says in which folder they are: not among those that all other tests start.
pub(crate) async fn build_static(folder: &Path) -> anyhow::Result<PathBuf> {
    let this = env::current_exe().context("cannot tell where this program is")?;
    // TARGET/PROFILE/deps/TEST
    let [Some(profile), Some(target)] = [this.ancestors().nth(2), this.ancestors().nth(3)] else {
        bail!("{} is in no target folder", this.display());
    };
    let mut build = command("build");
    build.args(["--workspace", "--exclude", "e2e", "--bins", "--target-dir"]).arg(folder);
    // Where everything else was compiled: only the crates of the workspace are compiled once more.
    build.env("CARGO_BUILD_BUILD_DIR", target);
    build.env("RUSTC_WORKSPACE_WRAPPER", workspace().join("e2e/src/ship/rustc-static.sh"));
    let status = build.status().await.context("cannot start cargo")?;
    ensure!(status.success(), "cargo build, static: {status}");
    Ok(folder.join(profile.file_name().unwrap_or_default()))
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
