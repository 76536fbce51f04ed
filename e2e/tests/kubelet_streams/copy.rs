// SPDX-License-Identifier: Apache-2.0
//! `kubectl cp`: files of 100 MB both ways.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::test;

/// 100 MB that do not compress to nothing and differ everywhere.
fn write_big(path: &Path) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..100_000_000 / 8 {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes())?;
    }
    Ok(file.flush()?)
}

fn sha256(path: &Path) -> anyhow::Result<String> {
    let output = Command::new("sha256sum").arg(path).output()?;
    Ok(String::from_utf8(output.stdout)?.split(' ').next().context("no sum")?.to_owned())
}

#[test]
fn a_file_of_100_mb_arrives_whole_in_both_directions() -> anyhow::Result<()> {
    test("copy", async |scene| {
        scene.run_script("box", "exec sleep 1000000").await?;
        let folder = e2e::folder::Folder::new("copy")?;
        let (big, back) = (folder.join("big"), folder.join("back"));
        let (big_path, back_path) = (big.to_string_lossy(), back.to_string_lossy());
        write_big(&big)?;
        let sum = sha256(&big)?;
        for kubectl in scene.clients() {
            kubectl.done(&["cp", "--retries=0", big_path.as_ref(), "box:/tmp/big"]).await?;
            let below = scene.directly().done(&["exec", "box", "--", "sha256sum", "/tmp/big"]).await?;
            ensure!(below.starts_with(&sum), "{}: up: {below}", kubectl.name());
            kubectl.done(&["cp", "--retries=0", "box:/tmp/big", back_path.as_ref()]).await?;
            ensure!(sha256(&back)? == sum, "{}: down", kubectl.name());
        }
        Ok(())
    })
}
