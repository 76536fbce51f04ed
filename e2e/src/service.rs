//! The project's own services as processes: the binaries that cargo built beside this one.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::process::Launch;

/// A launch of the service `binary`, called `name`, logging to `NAME.log` in `folder`.
pub fn launch(binary: &str, name: &str, folder: &Path) -> anyhow::Result<Launch> {
    let log = folder.join(format!("{name}.log"));
    Ok(Launch::new(name, built(binary)?, log).env("RUST_BACKTRACE", "1"))
}

/// The binary in the target folder this process runs from: test binaries are one folder deeper, in `deps`.
fn built(binary: &str) -> anyhow::Result<PathBuf> {
    let this = env::current_exe().context("cannot tell where this program is")?;
    let beside = this.ancestors().skip(1).take(2).map(|folder| folder.join(binary)).find(|path| path.is_file());
    beside.with_context(|| {
        let folder = this.parent().unwrap_or(&this).display();
        format!("{binary} is not built (looked in {folder} and above): run `cargo build --workspace --bins --examples`")
    })
}
