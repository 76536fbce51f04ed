// SPDX-License-Identifier: Apache-2.0
//! Builds a program with Go into the cache: once per user and version, whoever comes second waits.

#![allow(clippy::print_stderr, reason = "a build takes minutes: whoever waits is told so")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::recipe::Recipe;

/// How often a running build says that it still runs.
const PROGRESS: Duration = Duration::from_secs(15);

/// The program `CACHE/bin/VERSION/PROGRAM`, built first if it is not there.
pub(super) fn cached_or_built(recipe: &Recipe, cache: &Path) -> anyhow::Result<PathBuf> {
    let path = cache.join("bin").join(&recipe.version).join(recipe.program);
    if path.is_file() {
        return Ok(path);
    }
    let module = module_folder(recipe, cache)?;
    let _lock = lock(&module)?;
    if !path.is_file() {
        build(recipe, &module, &path)
            .with_context(|| format!("cannot build {} {} with Go", recipe.program, recipe.version))?;
    }
    Ok(path)
}

/// The folder where Go keeps the source of the recipe's module.
pub(super) fn source(recipe: &Recipe, cache: &Path) -> anyhow::Result<PathBuf> {
    let module = module_folder(recipe, cache)?;
    let _lock = lock(&module)?;
    prepare(recipe, &module)?;
    // Once it was downloaded, this asks nobody.
    go(&module, &["mod", "download", recipe.module])?;
    let folder = go(&module, &["list", "-m", "-f", "{{.Dir}}", recipe.module])?;
    Ok(PathBuf::from(folder.trim()))
}

/// `CACHE/src/NAME-VERSION`: the little module that requires the recipe's.
fn module_folder(recipe: &Recipe, cache: &Path) -> anyhow::Result<PathBuf> {
    let name = recipe.module.rsplit('/').find(|part| !part.starts_with('v')).unwrap_or(recipe.module);
    let folder = cache.join("src").join(format!("{name}-{}", recipe.version));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Held until dropped; a second process waits here.
fn lock(module: &Path) -> anyhow::Result<File> {
    let file = File::create(module.join("lock")).with_context(|| format!("cannot write in {}", module.display()))?;
    if file.try_lock().is_err() {
        eprintln!("waiting for another process that builds in {}", module.display());
        file.lock().context("cannot lock")?;
    }
    Ok(file)
}

/// Writes `go.mod` if it is not there.
fn prepare(recipe: &Recipe, module: &Path) -> anyhow::Result<()> {
    let go_mod = module.join("go.mod");
    if go_mod.is_file() {
        return Ok(());
    }
    let wanted = format!("{}@v{}", recipe.module, recipe.version);
    // Outside any module, so that no other go.mod takes part.
    let downloaded = go(&std::env::temp_dir(), &["mod", "download", "-json", &wanted])?;
    let downloaded: serde_json::Value = serde_json::from_str(&downloaded).context("go mod download -json")?;
    let upstream = downloaded["GoMod"].as_str().with_context(|| format!("{wanted} has no go.mod"))?;
    let text = recipe.go_mod(&fs::read_to_string(upstream)?);
    into_place(&go_mod, |path| Ok(fs::write(path, text)?))
}

fn build(recipe: &Recipe, module: &Path, path: &Path) -> anyhow::Result<()> {
    let name = format!("{} {}", recipe.program, recipe.version);
    eprintln!("building {name} with Go into the cache, once: this takes minutes");
    let begin = Instant::now();
    prepare(recipe, module)?;
    let stamps: Vec<&str> = recipe.stamps.iter().flat_map(|stamp| ["-X", stamp]).collect();
    let flags = format!("-s -w {}", stamps.join(" "));
    into_place(path, |path| {
        let mut go = command(module);
        go.args(["build", "-tags", recipe.tags, "-ldflags", &flags, "-o"]).arg(path).arg(recipe.import_path());
        // Downloads and compiler errors go to a file: shown only when the build fails.
        let log = module.join(format!("{}.log", recipe.program));
        let mut child = go.stderr(File::create(&log)?).spawn().context("cannot start go")?;
        let mut said = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if said.elapsed() >= PROGRESS {
                said = Instant::now();
                eprintln!("building {name}: {} s", begin.elapsed().as_secs());
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        if !status.success() {
            bail!("go build: {status}\n{}", crate::logs::tail(&log, 20));
        }
        Ok(())
    })?;
    eprintln!("built {name} in {} s", begin.elapsed().as_secs());
    Ok(())
}

/// Lets `make` write a file beside `path`, then renames it to `path`: nobody ever sees half a file.
pub(crate) fn into_place(path: &Path, make: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let folder = path.parent().context("a path with a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let name = path.file_name().context("a path with a file name")?.to_string_lossy();
    let unfinished = folder.join(format!(".{name}-{}", std::process::id()));
    let done = make(&unfinished).and_then(|()| Ok(fs::rename(&unfinished, path)?));
    if done.is_err() {
        fs::remove_file(&unfinished).ok();
    }
    done.with_context(|| format!("cannot make {}", path.display()))
}

/// `go` in `folder`, on its own: no workspace, no vendor folder, no version control, no C compiler.
fn command(folder: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(folder)
        .env("GOFLAGS", "-mod=mod -buildvcs=false")
        .env("GOWORK", "off")
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null());
    go
}

/// Runs `go` and returns what it printed.
fn go(folder: &Path, args: &[&str]) -> anyhow::Result<String> {
    let output = command(folder).args(args).output();
    let output = output.context("cannot start go: install Go 1.24 or newer, or set KUBEBUILDER_ASSETS")?;
    if !output.status.success() {
        bail!("go {}: {}\n{}", args.join(" "), output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
