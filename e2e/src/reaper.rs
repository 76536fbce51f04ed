// SPDX-License-Identifier: Apache-2.0
//! Nothing stays behind: a small shell outlives this process by a moment, kills what it started and removes its folders
//! and what the kernel keeps for its nodes.
//!
//! The shell holds the reading end of a pipe whose writing end only this process has. However this process ends
//! (return, panic, Ctrl-C, SIGKILL), the kernel closes the pipe, the shell reads end of file and cleans up.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context as _, anyhow};

/// A shell function that removes what the kernel keeps for a node: its bridge, and its control groups as soon as the
/// last process in them is gone.
pub(crate) const REMOVE_NODE: &str = r#"
remove_node() { # NAME, of both
  PATH=$PATH:/usr/sbin:/sbin
  ip link delete "$1" 2>/dev/null
  tries=0
  while [ -n "$(find /sys/fs/cgroup -type d -name "$1" -print -quit)" ] && [ $tries -lt 100 ]; do
    find /sys/fs/cgroup -depth -type d \( -name "$1" -o -path "*/$1/*" \) -exec rmdir {} + 2>/dev/null
    sleep 0.05; tries=$((tries + 1))
  done
}
"#;

/// Reads `group N`, `gone N`, `node NAME`, `removed NAME`, `folder PATH`, `kept PATH`; at end of file kills the groups and
/// removes the nodes and the folders. It waits a little for killed processes to vanish, so that none writes into a folder
/// that is being removed.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
groups= nodes= folders=
without() { # LIST WORD: the words of LIST but WORD
  for word in $1; do [ "$word" = "$2" ] || printf '%s ' "$word"; done
}
while read -r verb what; do
  case $verb in
    group) groups="$groups $what" ;;
    gone) groups=$(without "$groups" "$what") ;;
    node) nodes="$nodes $what" ;;
    removed) nodes=$(without "$nodes" "$what") ;;
    folder) folders="$folders $what" ;;
    kept) folders=$(without "$folders" "$what") ;;
  esac
done
for group in $groups; do kill -KILL "-$group" 2>/dev/null; done
for group in $groups; do
  tries=0
  while kill -0 "-$group" 2>/dev/null && [ $tries -lt 40 ]; do sleep 0.05; tries=$((tries + 1)); done
done
for node in $nodes; do remove_node "$node"; done
[ -z "$folders" ] || rm -rf -- $folders
"#;

/// Why there is no reaper, or the way to talk to it.
static REAPER: LazyLock<Result<Mutex<ChildStdin>, String>> =
    LazyLock::new(|| start().map(Mutex::new).map_err(|error| error.to_string()));

fn start() -> io::Result<ChildStdin> {
    let mut shell = Command::new("sh")
        .args(["-c", &format!("{REMOVE_NODE}{SCRIPT}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Its own group: a Ctrl-C in the terminal must not reach it.
        .process_group(0)
        .spawn()?;
    shell.stdin.take().ok_or_else(|| io::Error::other("the shell has no standard input"))
}

fn tell(verb: &str, what: &str) -> anyhow::Result<()> {
    let reaper = REAPER.as_ref().map_err(|error| anyhow!("cannot start the reaper (sh): {error}"))?;
    let mut pipe = reaper.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(pipe, "{verb} {what}").context("the reaper is gone")
}

/// The process group `group` is killed when this process ends.
pub(crate) fn watch_group(group: u32) -> anyhow::Result<()> {
    tell("group", &group.to_string())
}

/// The process group `group` has ended and been waited for: its number may belong to someone else from now on.
pub(crate) fn forget_group(group: u32) {
    // Without a reaper nothing was watched.
    tell("gone", &group.to_string()).ok();
}

/// The bridge and the control groups of this name are removed when this process ends.
pub(crate) fn watch_node(name: &str) -> anyhow::Result<()> {
    tell("node", name)
}

/// There is nothing of this node any more.
pub(crate) fn forget_node(name: &str) {
    tell("removed", name).ok();
}

/// The folder is removed when this process ends. Its path must hold no white space.
pub(crate) fn watch_folder(path: &Path) -> anyhow::Result<()> {
    let path = path.to_str().filter(|path| !path.contains(char::is_whitespace));
    tell("folder", path.context("temporary folders need a path without white space (TMPDIR)")?)
}

/// The folder stays, or is removed already.
pub(crate) fn forget_folder(path: &Path) {
    tell("kept", &path.to_string_lossy()).ok();
}
