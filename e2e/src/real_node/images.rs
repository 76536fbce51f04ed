// SPDX-License-Identifier: Apache-2.0
//! The images that containers of a real node can have, made here: there is no registry.
//!
//! All share one layer: busybox with a link for each of its commands, and agnhost. A `docker save` archive holds them,
//! which `ctr images import` reads.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

/// Busybox: a shell and the usual commands, `tar` among them.
pub const BUSYBOX: &str = "example.org/busybox:1";
/// `agnhost`, whose first argument says what to be: `netexec`, `serve-hostname`, `pause` (the default), and many more.
pub const AGNHOST: &str = "example.org/agnhost:1";
/// What holds a pod's namespaces: it sleeps until it is asked to end.
pub(super) const SANDBOX: &str = "example.org/pause:1";

const SLEEP: &str = "trap 'exit 0' TERM INT; sleep 2147483647 & wait";
const FOLDERS: &[&str] = &["bin/", "dev/", "etc/", "proc/", "root/", "sys/", "tmp/", "usr/", "usr/bin/", "var/"];
const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n";

/// Writes the archive with all images to `path`.
pub(super) fn write(path: &Path, busybox: &Path, agnhost: &Path) -> anyhow::Result<()> {
    let layer = layer(busybox, agnhost)?;
    let diff = sha256(&layer);
    let layer_path = format!("{diff}/layer.tar");
    let mut archive = Builder::new(File::create(path)?);
    append(&mut archive, &layer_path, 0o644, &layer)?;
    let images = [
        (BUSYBOX, json!({ "Cmd": ["sh"] })),
        (AGNHOST, json!({ "Entrypoint": ["/agnhost"], "Cmd": ["pause"] })),
        (SANDBOX, json!({ "Entrypoint": ["sh", "-c", SLEEP] })),
    ];
    let mut manifest = Vec::new();
    for (name, start) in images {
        let config = config(start, &diff).to_string();
        let config_path = format!("{}.json", sha256(config.as_bytes()));
        append(&mut archive, &config_path, 0o644, config.as_bytes())?;
        manifest.push(json!({ "Config": config_path, "RepoTags": [name], "Layers": [layer_path] }));
    }
    append(&mut archive, "manifest.json", 0o644, Value::from(manifest).to_string().as_bytes())?;
    archive.into_inner()?.flush()?;
    Ok(())
}

/// The configuration of an image that starts like this.
fn config(mut start: Value, diff: &str) -> Value {
    start["Env"] = json!(["PATH=/bin:/usr/bin:/"]);
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    json!({
        "architecture": architecture,
        "os": "linux",
        "config": start,
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff}")] },
        "history": [{ "created_by": "tensile" }],
    })
}

/// The file system that all images have.
fn layer(busybox: &Path, agnhost: &Path) -> anyhow::Result<Vec<u8>> {
    let commands = Command::new(busybox).arg("--list").output().context("cannot run busybox")?;
    ensure!(commands.status.success(), "busybox --list: {}", commands.status);
    let mut layer = Builder::new(Vec::new());
    for folder in FOLDERS {
        layer.append_data(&mut header(EntryType::Directory, 0o755, 0), folder, io::empty())?;
    }
    append(&mut layer, "etc/passwd", 0o644, USERS.as_bytes())?;
    append(&mut layer, "bin/busybox", 0o755, &fs::read(busybox)?)?;
    append(&mut layer, "agnhost", 0o755, &fs::read(agnhost)?)?;
    let commands = String::from_utf8(commands.stdout)?;
    for command in commands.lines().filter(|command| *command != "busybox") {
        layer.append_link(&mut header(EntryType::Symlink, 0o777, 0), format!("bin/{command}"), "/bin/busybox")?;
    }
    Ok(layer.into_inner()?)
}

fn append(archive: &mut Builder<impl Write>, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
    let size = u64::try_from(content.len()).map_err(io::Error::other)?;
    archive.append_data(&mut header(EntryType::Regular, mode, size), path, content)
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header
}

fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}
