// SPDX-License-Identifier: Apache-2.0
//! A temporary folder that goes away with its owner, and also when this process is killed.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::reaper;

/// A folder below the system's temporary one, removed on drop.
#[derive(Debug)]
pub struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    /// A new folder whose name starts with `tensile-` and `name`.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(&format!("tensile-{name}-"))
            .tempdir()
            .context("cannot make a temporary folder")?;
        reaper::watch_folder(folder.path())?;
        Ok(Self { folder })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A path inside it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Removed by now or by `tempfile` in a moment; should that fail, the reaper still knows it.
        if std::fs::remove_dir_all(self.folder.path()).is_ok() {
            reaper::forget_folder(self.folder.path());
        }
    }
}
