// SPDX-License-Identifier: Apache-2.0
//! A folder whose files are kubeconfigs.
//!
//! A mounted Secret is swapped by renaming a symlink, which raises no event on the files themselves, so the content is
//! compared every few seconds.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::{Kubeconfig, Wanted};

/// How often the folder is looked at.
const EVERY: Duration = Duration::from_secs(2);
/// Longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// Tells `wanted` what is in the folder, for ever. A folder that cannot be read leaves things as they were.
pub async fn look(folder: PathBuf, wanted: watch::Sender<Wanted>) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = None;
    loop {
        tick.tick().await;
        match read(&folder).await {
            Ok(found) => {
                told = None;
                wanted.send_if_modified(|known| {
                    let changed = *known != found;
                    *known = found;
                    changed
                });
            }
            Err(error) => {
                let error = error.to_string();
                if told.as_ref() != Some(&error) {
                    tracing::warn!(folder = %folder.display(), error, "the folder of kubeconfigs cannot be read, trying again");
                    told = Some(error);
                }
            }
        }
    }
}

/// The kubeconfigs in the folder: its files, but for hidden ones. A cluster is called as its file, without the extension.
async fn read(folder: &Path) -> io::Result<Wanted> {
    let mut found = Wanted::new();
    let mut entries = tokio::fs::read_dir(folder).await?;
    while let Some(entry) = entries.next_entry().await? {
        let path = entry.path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.')) else {
            continue;
        };
        // The file that a symlink leads to.
        let about = tokio::fs::metadata(&path).await?;
        if !about.is_file() || about.len() > LONGEST {
            continue;
        }
        let content = tokio::fs::read(&path).await?;
        found.insert(name.to_owned(), Kubeconfig::File { path, content });
    }
    Ok(found)
}
