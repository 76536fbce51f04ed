// SPDX-License-Identifier: Apache-2.0
//! The desk at which somebody types what the pages show: programs on the path, files in the folder, a cluster.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::ensure;
use e2e::folder::Folder;
use tensile_testkit::shipped::repository;
use tokio::process::Command;

/// A folder with `charts`, as in a checkout, and with programs that come before the machine's own.
pub(crate) struct Desk {
    folder: Folder,
}

impl Desk {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let folder = Folder::new("desk")?;
        fs::create_dir(folder.join("bin"))?;
        symlink(fs::canonicalize(repository("charts"))?, folder.join("charts"))?;
        Ok(Self { folder })
    }

    /// A file here.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What is called `name` here is the program at `path`.
    pub(crate) fn program(&self, name: &str, path: &Path) -> anyhow::Result<()> {
        Ok(symlink(path, self.folder.join("bin").join(name))?)
    }

    /// What is called `name` here is this shell script.
    pub(crate) fn script(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n"))?;
        Ok(fs::set_permissions(path, Permissions::from_mode(0o755))?)
    }

    /// The path of programs here.
    pub(crate) fn path(&self) -> String {
        let others = std::env::var("PATH").unwrap_or_default();
        format!("{}:{others}", self.folder.join("bin").display())
    }

    /// Types a command, and returns what it says; it must end well. `kubeconfig` is that of the cluster that it is about.
    pub(crate) async fn types(&self, command: &str, kubeconfig: &Path) -> anyhow::Result<String> {
        let mut shell = Command::new("bash");
        shell.args(["-c", command]).current_dir(self.folder.path()).kill_on_drop(true);
        let output = shell.env("PATH", self.path()).env("KUBECONFIG", kubeconfig).output().await?;
        let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "$ {command}\n{said}{told}");
        Ok(said.into_owned())
    }
}
