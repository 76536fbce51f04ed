// SPDX-License-Identifier: Apache-2.0
//! The images: one binary each, small, and nobody's root.

use std::path::Path;

use anyhow::{Context as _, ensure};
use e2e::real_node;
use e2e::ship::images::{Images, PROGRAMS, contents};
use serde_json::{Value, json};

/// As much as an image may have, in bytes, and one of the profile of the tests, which is not optimised.
const LARGEST: u64 = if cfg!(debug_assertions) { 40_000_000 } else { 20_000_000 };

#[test]
fn an_image_holds_its_binary_and_nothing_else_and_runs_as_nobody() -> anyhow::Result<()> {
    // buildah needs root too.
    if !real_node::can_run() {
        return Ok(());
    }
    e2e::run(async {
        let images = Images::shared().await?;
        for program in PROGRAMS {
            let contents = contents(&images.archive(program))?;
            let paths: Vec<&Path> = contents.files.keys().map(AsRef::as_ref).collect();
            ensure!(paths == [Path::new(program)], "{program}: {paths:?}");
            let held = contents.files.values().next().context("no file")?;
            ensure!(held.file && held.mode & 0o7777 == 0o755, "{program}: {held:?}");
            ensure!(held.size <= LARGEST, "{program} has {} bytes", held.size);

            let config = &contents.config["config"];
            ensure!(config["User"] == "65532:65532", "{program}: {config}");
            ensure!(config["Entrypoint"] == json!([format!("/{program}")]), "{program}: {config}");
            for (label, value) in [("title", Some(program)), ("licenses", Some("Apache-2.0")), ("description", None)] {
                let found = &config["Labels"][format!("org.opencontainers.image.{label}")];
                let right = value.map_or_else(|| found.is_string(), |value| *found == value);
                ensure!(right, "{program}: {label} is {found}");
            }
            ensure!(config["Volumes"] == Value::Null && config["Cmd"] == Value::Null, "{program}: {config}");
        }
        Ok(())
    })
}
