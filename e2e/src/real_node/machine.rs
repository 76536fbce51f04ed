// SPDX-License-Identifier: Apache-2.0
//! What a node takes of this machine besides processes and files: a bridge with an address, and a control group.

use std::env;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::{binaries, reaper};

/// Programs that come with the system, and the Debian packages they are in.
const PROGRAMS: &[(&str, &str)] =
    &[("runc", "runc"), ("ip", "iproute2"), ("busybox", "busybox-static"), ("unshare", "util-linux")];
/// Folder of the plugins that give pods their network, and the Debian package they are in.
pub(super) const CNI_PLUGINS: (&str, &str) = ("/usr/lib/cni", "containernetworking-plugins");
/// Folders that hold system programs and are in root's `PATH` only.
const SYSTEM: &[&str] = &["/usr/sbin", "/sbin"];
/// Where control groups are.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// Whether this process may make namespaces, bridges and control groups.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Where a program of the system is.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// An error that names every package that is missing.
pub(super) fn ensure_complete() -> anyhow::Result<()> {
    let missing = PROGRAMS.iter().filter(|(name, _)| program(name).is_none()).map(|(_, package)| *package);
    let plugins = (!Path::new(CNI_PLUGINS.0).join("bridge").is_file()).then_some(CNI_PLUGINS.1);
    let missing: Vec<&str> = missing.chain(plugins).collect();
    let packages = missing.join(" ");
    ensure!(missing.is_empty(), "a real node needs `apt-get install --no-install-recommends {packages}`");
    Ok(())
}

/// A bridge and control groups, both called by the same name; removed on drop.
#[derive(Debug)]
pub(super) struct Place {
    name: String,
    number: u8,
}

impl Place {
    /// Takes a free network. `name` must be nobody else's, and short enough for a network interface.
    pub(super) fn take(name: &str) -> anyhow::Result<Self> {
        let lock = binaries::cache()?.join("real-node.lock");
        let lock = File::create(&lock).with_context(|| format!("cannot write {}", lock.display()))?;
        // Held until return: between finding a free network and taking it, nobody else looks.
        lock.lock().context("cannot lock")?;
        let taken = ip(&["-oneline", "-4", "address", "show"])?;
        let free = (0..=u8::MAX).find(|number| !taken.contains(&format!(" {}/", address(*number))));
        let place = Self { name: name.to_owned(), number: free.context("every network of real nodes is taken")? };
        reaper::watch_node(name)?;
        ip(&["link", "add", "name", name, "type", "bridge"])?;
        ip(&["address", "add", &format!("{}/24", place.address()), "dev", name])?;
        ip(&["link", "set", name, "up"])?;
        place.make_control_groups()?;
        Ok(place)
    }

    /// Of the bridge and of the control groups.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The machine's address on the bridge: the node's.
    pub(super) fn address(&self) -> Ipv4Addr {
        address(self.number)
    }

    /// The network of the node's pods.
    pub(super) fn subnet(&self) -> String {
        format!("10.89.{}.0/24", self.number)
    }

    /// One in each hierarchy of version 1, one in all of version 2. The kubelet makes its own below it.
    fn make_control_groups(&self) -> anyhow::Result<()> {
        let root = Path::new(CONTROL_GROUPS);
        let unified = root.join("cgroup.controllers").is_file();
        let hierarchies = if unified {
            vec![root.to_owned()]
        } else {
            let folders = fs::read_dir(root)?.map(|entry| Ok(entry?.path()));
            folders.collect::<std::io::Result<Vec<_>>>()?.into_iter().filter(|path| path.is_dir()).collect()
        };
        for hierarchy in hierarchies {
            let group = hierarchy.join(&self.name);
            fs::create_dir_all(&group).with_context(|| format!("cannot make {}", group.display()))?;
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let remove = format!("{}remove_node \"$1\"", reaper::REMOVE_NODE);
        let removed = Command::new("sh").args(["-c", &remove, "sh", &self.name]).status();
        if removed.is_ok_and(|status| status.success()) {
            reaper::forget_node(&self.name);
        }
    }
}

fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 89, number, 1)
}

fn ip(args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program("ip").context("there is no ip")?).args(args).output()?;
    if !output.status.success() {
        bail!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
