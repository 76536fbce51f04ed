// SPDX-License-Identifier: Apache-2.0
//! The logs of all children, to show their tails when something fails.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much of a file's end is read for its tail.
const TAIL_BYTES: u64 = 16 * 1024;

/// How many lines of a log are kept when its process is dropped.
const KEPT_LINES: usize = 10;

/// The logs of running children, and the last lines of those that are gone: a test that fails with `?` drops its
/// clusters before anyone can say what failed.
struct Logs {
    running: BTreeMap<PathBuf, String>,
    gone: Vec<String>,
}

static LOGS: Mutex<Logs> = Mutex::new(Logs { running: BTreeMap::new(), gone: Vec::new() });

/// Keeps a log among those that [`tails`] shows.
#[derive(Debug)]
pub(crate) struct Log(PathBuf);

/// `path` is the log of `name` until the result is dropped.
pub(crate) fn register(name: &str, path: &Path) -> Log {
    logs().running.insert(path.to_owned(), name.to_owned());
    Log(path.to_owned())
}

impl Drop for Log {
    fn drop(&mut self) {
        let mut logs = logs();
        if let Some(name) = logs.running.remove(&self.0) {
            logs.gone.push(titled(&name, &self.0, KEPT_LINES));
        }
    }
}

fn logs() -> MutexGuard<'static, Logs> {
    LOGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last `lines` lines of the file, or why they cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    tail_of(path, lines, |_| true)
}

/// The last of those lines that are `worth` it.
fn tail_of(path: &Path, lines: usize, worth: fn(&&str) -> bool) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        std::io::Result::Ok(String::from_utf8_lossy(&end).into_owned())
    };
    match read() {
        Ok(text) => {
            let all: Vec<&str> = text.lines().filter(worth).collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("(cannot read {}: {error})", path.display()),
    }
}

/// The tails of the logs of all children, those that are gone first.
pub fn tails(lines: usize) -> String {
    let logs = logs();
    let running = logs.running.iter().map(|(path, name)| titled(name, path, lines));
    logs.gone.iter().cloned().chain(running).collect::<Vec<_>>().join("\n")
}

fn titled(name: &str, path: &Path, lines: usize) -> String {
    format!("--- {name} ({})\n{}", path.display(), tail_of(path, lines, tells_of_trouble))
}

/// Everything but what Kubernetes' components log as information: `I1121 13:26:20...`.
fn tells_of_trouble(line: &&str) -> bool {
    let date = line.strip_prefix('I').and_then(|rest| rest.get(..4));
    !date.is_some_and(|date| date.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_the_last_lines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a\nb\nc\n").unwrap();
        assert_eq!(tail(file.path(), 2), "b\nc");
        assert_eq!(tail(file.path(), 9), "a\nb\nc");
    }

    #[test]
    fn information_of_components_is_left_out_when_all_logs_are_shown() {
        assert!(!tells_of_trouble(&"I1121 13:26:20.1 1 a.go:1] fine"));
        assert!(tells_of_trouble(&"E1121 13:26:20.1 1 a.go:1] broken"));
        assert!(tells_of_trouble(&"It broke"));
    }
}
