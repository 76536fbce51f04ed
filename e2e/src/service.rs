// SPDX-License-Identifier: Apache-2.0
//! The project's own services as processes: the binaries that cargo built beside this one.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, ensure};

use crate::process::{Launch, Process};
use crate::wait::eventually;

/// Exit code of a service that could not start or failed while running, as `--help` has it.
pub const CANNOT_START: i32 = 1;
/// Exit code of a service of which a flag or setting is wrong.
pub const WRONG_FLAG: i32 = 2;
/// "Within seconds", also on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);
/// What must not be told; tests put it where secrets are.
pub const SECRET: &str = "top-secret-token";

/// Runs a service to its end. Standard error must have one line of an error, with all of `words`, and not [`SECRET`].
pub async fn fails(launch: Launch, code: i32, words: &[&str]) -> anyhow::Result<()> {
    let earlier = fs::metadata(launch.log()).map_or(0, |log| log.len());
    let mut process = launch.start()?;
    let status = process.ended(SOON).await?;
    let mut log = String::new();
    let mut file = fs::File::open(process.log())?;
    file.seek(SeekFrom::Start(earlier))?;
    file.read_to_string(&mut log)?;
    ensure!(status.code() == Some(code), "{status}\n{log}");
    let errors: Vec<&str> = log.lines().filter(|line| line.to_lowercase().contains("error")).collect();
    ensure!(errors.len() == 1, "not one line of an error:\n{log}");
    for word in words {
        ensure!(errors[0].contains(word), "{word:?} is not in: {}", errors[0]);
    }
    ensure!(!log.contains(SECRET), "a secret is told:\n{log}");
    Ok(())
}

/// Waits until a service that goes on running has said `words` in its log, and returns the log.
pub async fn says(process: &mut Process, words: &str) -> anyhow::Result<String> {
    let what = format!("{} says {words:?}", process.name());
    eventually(SOON, &what, async || {
        process.ensure_running()?;
        let log = fs::read_to_string(process.log())?;
        ensure!(log.contains(words), "{log}");
        Ok(log)
    })
    .await
}

/// Runs a service whose upper cluster is away: it waits for it, and ends well when it is told to.
pub async fn waits_for_upper(launch: Launch) -> anyhow::Result<()> {
    let mut process = launch.start()?;
    says(&mut process, "upper cluster is away; waiting for it").await?;
    let status = process.terminate(SOON).await.context("it does not end")?;
    ensure!(status.success(), "{status}");
    Ok(())
}

/// A launch of the service `binary`, called `name`, logging to `NAME.log` in `folder`.
pub fn launch(binary: &str, name: &str, folder: &Path) -> anyhow::Result<Launch> {
    let log = folder.join(format!("{name}.log"));
    Ok(Launch::new(name, program(binary)?, log).env("RUST_BACKTRACE", "1"))
}

/// A binary in the target folder this process runs from: test binaries are one folder deeper, in `deps`.
pub fn program(binary: &str) -> anyhow::Result<PathBuf> {
    let this = env::current_exe().context("cannot tell where this program is")?;
    let beside = this.ancestors().skip(1).take(2).map(|folder| folder.join(binary)).find(|path| path.is_file());
    beside.with_context(|| {
        let folder = this.parent().unwrap_or(&this).display();
        format!("{binary} is not built (looked in {folder} and above): run `cargo build --workspace --bins --examples`")
    })
}
